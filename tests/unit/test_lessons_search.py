"""Finding lessons: literal words, filters, ranking, likeness, and as somebody types."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import UsageError
from engine.store.lessons import (
    Lesson,
    LessonQuery,
    LessonReader,
    LessonStore,
    LiveSearch,
    SearchStoppedError,
    estimated_tokens,
    parse_query,
)
from engine.store.lessons.record import encode_line
from engine.store.lessons.search import WHOLE
from tests.bench.lesson_corpus import queries, write_corpus

NOW = 1_800_000_000.0
DAY = 86_400.0
AMPLE = 30.0
"""A budget that no search of these few lessons uses up, however busy the machine."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LessonStore]:
    with LessonStore(tmp_path / "lessons.jsonl", tmp_path / "lessons.idx.db", clock=lambda: NOW) as found:
        yield found


def fill(store: LessonStore, *lessons: Lesson) -> None:
    store.file.write_bytes(b"".join(map(encode_line, lessons)))
    store.catch_up()


def lesson(id_: str, message: str = "", /, **fields: object) -> Lesson:
    start = Lesson(
        id_, "fix_bug", "verify", "test_failure", message or f"message of {id_}", last_seen=NOW - DAY
    )
    return msgspec.structs.replace(start, **fields)


def found(store: LessonStore, typed: str, limit: int = 50) -> list[str]:
    query = parse_query(typed, clock=lambda: NOW)
    return [hit.lesson.id for hit in store.search(query, limit=limit, budget=AMPLE).hits]


TEXTS = {
    "quotes": """he said "stop" and it's `done`""",
    "cpp": "the C++ compiler ran out of memory",
    "csharp": "C# and F# differ",
    "dotted": "cannot import foo.bar from foo",
    "apart": "foo and bar, c and d",
    "percent": "100% of 250 runs failed",
    "near": "NEAR(x, y) is no operator here AND there OR NOT",
    "at": "mail to @ann, -v and --verbose, * and **kwargs",
    "cjk": "无法打开数据库连接，请重试",
    "kana": "データベースに接続できません",
    "hangul": "데이터베이스 연결 실패",
    "thai": "ไม่สามารถเชื่อมต่อ",
    "emoji": "deploy 🚀 by 👩‍💻 failed",
    "accents": "Übergröße im Café, naïve façade",
    "decomposed": "cafe\u0301s are decomposed",
    "hindi": "हिन्दी संदेश",
    "snake": "parse_header() got an unexpected keyword argument",
    "path": "src/core/session.py:41: boom",
    "long": "supercalifragilistic words need more than a prefix",
    "backslash": r"C:\temp\new file and \d+ as a pattern",
    "mixed": "错误Qx和字zebra",
    "null": "before\x00after",
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LessonStore]:
    folder = tmp_path_factory.mktemp("texts")
    with LessonStore(folder / "lessons.jsonl", folder / "idx.db", clock=lambda: NOW) as store:
        fill(
            store,
            *(Lesson(id_, "t", "a", "f", text, last_seen=NOW) for id_, text in TEXTS.items()),
        )
        yield store


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ('"', {"quotes"}),
        ('"stop"', {"quotes"}),
        ('"sto', {"quotes"}),
        ("it's", {"quotes"}),
        ("`", {"quotes"}),
        ("C++", {"cpp"}),
        ("c+", {"cpp"}),
        ("C#", {"csharp"}),
        ("#", {"csharp"}),
        ("foo.bar", {"dotted"}),
        ("oo.ba", {"dotted"}),
        ("foo bar", {"dotted", "apart"}),
        ("100%", {"percent"}),
        ("%", {"percent"}),
        ("NEAR(x", {"near"}),
        ("NEAR(", {"near"}),
        ("OR NOT", {"near", "dotted"}),  # import, cannot
        ("@", {"at"}),
        ("@ann", {"at"}),
        ("--verbose", {"at"}),
        ("-v", {"at"}),
        ("**", {"at"}),
        ("*", {"at"}),
        ("-", {"at"}),
        ("数据", {"cjk"}),
        ("连接", {"cjk"}),
        ("库", {"cjk"}),
        ("Qx", {"mixed"}),
        ("字zebra", {"mixed"}),
        ("连库", set()),
        ("接続", {"kana"}),
        ("ベース", {"kana"}),
        ("연결", {"hangul"}),
        ("이터베", {"hangul"}),
        ("เชื่อม", {"thai"}),
        ("🚀", {"emoji"}),
        ("👩‍💻", {"emoji"}),
        ("👩", {"emoji"}),
        ("café", {"accents"}),
        ("ÜBERGRÖSSE", set()),
        ("ÜBERGRÖßE", {"accents"}),
        ("cafe\u0301s", {"decomposed"}),
        ("हिन्दी", {"hindi"}),
        ("parse_header(", {"snake"}),
        ("e_h", {"snake"}),
        ("src/core/ses", {"path"}),
        ("py:41:", {"path"}),
        ("supercalifragilistic", {"long"}),
        ("supercaliXragilistic", set()),
        ("ragilist", {"long"}),
        (r"\temp\new", {"backslash"}),
        (r"\d+", {"backslash"}),
        ("before\x00after", {"null"}),
        ("\x00", {"null"}),
        ("\ud800", set()),
        ("\ue000", set()),
        ("word* OR x", set()),
    ],
)
def test_typed_words_are_literal(texts: LessonStore, typed: str, expected: set[str]) -> None:
    assert set(found(texts, typed)) == expected


def test_one_letter_finds_the_words_that_begin_with_it(texts: LessonStore) -> None:
    assert {"cpp", "csharp", "apart"} <= set(found(texts, "c"))


def test_the_matching_parts_are_marked(texts: LessonStore) -> None:
    (hit,) = texts.search(LessonQuery(text="foo.bar foo"), budget=AMPLE).hits[:1]
    marked = [
        hit.lesson.failure_msg[span.start : span.end] for span in hit.spans if span.field == "failure_msg"
    ]
    assert hit.lesson.id == "dotted"
    assert marked == ["foo.bar", "foo"]


@pytest.mark.parametrize("typed", ["zebra", "İstanbul"])
def test_capitals_with_longer_small_letters_do_not_shift_the_marks(tmp_path: Path, typed: str) -> None:
    message = "İİ zebra at İstanbul"
    with LessonStore(tmp_path / "l.jsonl", tmp_path / "i.db", clock=lambda: NOW) as store:
        fill(store, Lesson("one", failure_msg=message, metadata={"task": f"İ {typed}"}))
        (hit,) = store.search(LessonQuery(text=typed), budget=AMPLE).hits
    marked = {span.field: (span.start, span.end) for span in hit.spans}
    at = message.index(typed)
    assert marked == {"failure_msg": (at, at + len(typed)), "metadata.task": (2, 2 + len(typed))}


def test_what_a_search_has_read_is_read_anew_once_it_changed(tmp_path: Path) -> None:
    with LessonStore(tmp_path / "l.jsonl", tmp_path / "i.db", clock=lambda: NOW) as store:
        store.add("t", "a", "f", "the pearl was lost")
        newest = store.add("t", "a", "f", "the zebra was lost")
        assert store.search(LessonQuery("zebra"), budget=AMPLE).lessons == (newest,)
        resolved = store.resolve(newest.id, "Look behind the barn.")
        assert store.search(LessonQuery("zebra"), budget=AMPLE).lessons == (resolved,)
        assert store.search(LessonQuery("barn"), budget=AMPLE).lessons == (resolved,)
        other = store.add("t", "a", "f", "another zebra")
        store.rebuild()
        assert sorted(found(store, "zebra")) == sorted((resolved.id, other.id))


WORDS = st.text(st.sampled_from("aAbB_.+-*\"'(é漢字👩\u200d"), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    messages=st.lists(
        st.lists(WORDS, min_size=1, max_size=4).map(" ".join), min_size=1, max_size=8, unique=True
    ),
    asked=st.lists(st.lists(WORDS, min_size=1, max_size=2).map(" ".join), min_size=1, max_size=6),
)
def test_a_search_finds_what_a_plain_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, messages: list[str], asked: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("scan")
    with LessonStore(folder / "l.jsonl", folder / "i.db", clock=lambda: NOW) as store:
        fill(store, *(Lesson(str(n), failure_msg=message) for n, message in enumerate(messages)))
        for text in asked:
            expected = {
                str(n)
                for n, message in enumerate(messages)
                if all(word.lower() in message.lower() for word in text.split())
            }
            assert set(found(store, text)) == expected, text


@settings(max_examples=150, deadline=None)
@given(typed=st.text(max_size=60))
def test_no_typed_text_raises(texts: LessonStore, typed: str) -> None:
    texts.search(parse_query(typed), budget=AMPLE)
    texts.similar(typed)
    texts.for_task(type=typed, files=[typed], text=typed)


# Filters


def test_filters_take_exact_names_or_their_beginnings(store: LessonStore) -> None:
    fill(
        store,
        lesson("1", task_type="fix"),
        lesson("2", task_type="fix_bug"),
        lesson("3", task_type="fix_docs"),
        lesson("4", task_type="Feature"),
    )
    assert found(store, "type:fix") == ["1"]
    assert set(found(store, "type:fix_")) == {"2", "3"}
    assert set(found(store, "type:FIX_BUG")) == {"2"}
    assert found(store, "type:Feature") == ["4"]
    assert found(store, "type:nothing") == []
    assert set(found(store, "type:fix_ message")) == {"2", "3"}


def test_filters_take_the_names_that_hold_them_where_none_begins_so(store: LessonStore) -> None:
    fill(
        store,
        lesson("1", pattern="`grep three three.txt` exited <n>"),
        lesson("2", pattern="no match for Grep here"),
        lesson("3", pattern="timeout", task_type="feature"),
    )
    assert set(found(store, "pattern:grep")) == {"1", "2"}
    assert found(store, "pattern:time") == ["3"]
    assert set(found(store, "type:bug pattern:grep")) == {"1", "2"}
    assert found(store, "pattern:grep exited since:2d") == ["1"]
    assert found(store, "pattern:nothing") == []


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (
            "foo:bar",
            "foo: is no filter, so it was looked for as a word; there is type:, stage:, failure:, ",
        ),
        ("Type:fix_bug", "Type: is no filter, so it was looked for as a word; did you mean type:"),
        ("files:a.py", "files: is no filter, so it was looked for as a word; did you mean file:"),
        ("file:none.txt", "no lesson tells of the file none.txt"),
        ("file:none.txt message", ""),
        ("https://example.org", ""),
        ("std::bad_alloc", ""),
        ("words", ""),
    ],
)
def test_what_is_no_filter_is_told_with_those_that_there_are(
    store: LessonStore, typed: str, hint: str
) -> None:
    fill(store, lesson("1"))
    told = store.search(parse_query(typed), budget=AMPLE).hint
    assert told.startswith(hint) if hint else told == ""


def test_all_combinations_of_filters_agree_with_a_plain_scan(store: LessonStore) -> None:
    names = {"task_type": "tu", "activity_type": "ab", "failure_type": "fg", "pattern": "pq"}
    lessons = [
        Lesson(
            str(n), *values[:3], f"word {n}", pattern=values[3], last_seen=NOW - n, times_seen=1 + n * 7 % 5
        )
        for n, values in enumerate([*itertools.product(*names.values())] * 3)
    ]
    fill(store, *lessons)
    for chosen in itertools.product(*(["", *values] for values in names.values())):
        query = LessonQuery("", *chosen, since=NOW - 40)
        right = [
            known
            for known in lessons
            if known.last_seen >= NOW - 40
            and all(not v or getattr(known, field) == v for field, v in zip(names, chosen, strict=True))
        ]
        result = store.search(query, budget=AMPLE)
        assert [hit.lesson.id for hit in result.hits] == [known.id for known in right]
        assert (result.total, result.more) == (len(right), False)
        worded = store.search(msgspec.structs.replace(query, text="word"), budget=AMPLE)
        assert {hit.lesson.id for hit in worded.hits} == {known.id for known in right}
        top = store.most_frequent(3, query)
        by_count = sorted(right, key=lambda known: (-known.times_seen, -known.last_seen))
        assert [known.id for known in top] == [known.id for known in by_count[:3]]


def test_files_are_found_by_path_name_and_folder(store: LessonStore) -> None:
    fill(
        store,
        lesson("1", metadata={"files": "src/a.py src/b.py"}),
        lesson("2", metadata={"files": "lib/a.py"}),
        lesson("3"),
    )
    assert found(store, "file:src/a.py") == ["1"]
    assert set(found(store, "file:a.py")) == {"1", "2"}
    assert found(store, "file:lib/") == ["2"]
    assert found(store, "file:src message") == ["1"]


def test_a_file_that_no_lesson_is_told_to_be_of_is_found_by_its_name_in_the_text(store: LessonStore) -> None:
    fill(
        store,
        lesson("1", "`grep three three.txt` exited 1"),
        lesson("2", "three threes.txt"),
        lesson("3", "open('three.txt')", task_type="feature"),
        lesson("4", metadata={"files": "one.txt"}),
        lesson("5", "one.txt is empty"),
    )
    assert set(found(store, "file:three.txt")) == {"1", "3"}
    assert found(store, "file:three.txt grep") == ["1"]
    assert found(store, "file:three.txt type:feature") == ["3"]
    assert found(store, "file:one.txt") == ["4"]


def test_a_time_range_narrows_words_and_fields(store: LessonStore) -> None:
    fill(store, *(lesson(str(n), last_seen=NOW - n * DAY) for n in range(3000)))
    assert found(store, "since:2d message") == ["0", "1", "2"]
    assert found(store, "since:2d") == ["0", "1", "2"]
    query = LessonQuery("message", since=NOW - 2001 * DAY, until=NOW - 2000 * DAY)
    assert {hit.lesson.id for hit in store.search(query, budget=AMPLE).hits} == {"2000", "2001"}
    assert [known.id for known in store.in_time_range(NOW - 2001 * DAY, NOW - 2000 * DAY)] == ["2000", "2001"]


def test_a_total_is_exact_or_says_that_it_is_not(store: LessonStore) -> None:
    fill(store, *(lesson(str(n), f"common {'even' if n % 2 else 'odd'}") for n in range(1500)))
    many = store.search(LessonQuery("common"), budget=AMPLE)
    assert (len(many.hits), many.more) == (50, True)
    some = store.search(LessonQuery(task_type="fix_bug"), budget=AMPLE)
    assert (len(some.hits), some.total, some.more) == (50, 1000, True)
    assert store.search(LessonQuery("common", failure_type="none"), budget=AMPLE).total == 0
    assert len(store.search(LessonQuery("common"), limit=700, budget=AMPLE).hits) == 700
    assert len(store.search(LessonQuery("common odd"), limit=700, budget=AMPLE).hits) == 700
    assert some.took_s > 0


# Ranking


def test_search_ranks_by_place_then_worth(store: LessonStore) -> None:
    fill(
        store,
        lesson("inside", "reconnected after a while"),
        lesson("prefix", "connectors broke"),
        lesson("resolution", "something else", resolution="connect twice"),
        lesson("rare", "could not connect to it", times_seen=1),
        lesson("often", "could not connect to them", times_seen=40),
        lesson("old", "could not connect to us", last_seen=NOW - 400 * DAY),
    )
    assert found(store, "connect") == ["often", "rare", "prefix", "resolution", "old", "inside"]


def test_adjoining_words_rank_before_scattered_ones(store: LessonStore) -> None:
    fill(
        store,
        lesson("together", "connection refused by the peer", last_seen=NOW - 90 * DAY),
        lesson("apart", "refused: the connection was closed"),
    )
    assert found(store, "connection refused") == ["together", "apart"]


def test_an_old_frequent_lesson_that_was_seen_again_is_among_the_newest(store: LessonStore) -> None:
    old = lesson("old", "needle in a haystack", times_seen=30)
    fill(store, old, *(lesson(str(n), f"needle {n}") for n in range(700)))
    store.file.open("ab").write(encode_line(msgspec.structs.replace(old, times_seen=1)))
    store.catch_up()
    assert found(store, "needle")[0] == "old"


def test_lessons_for_a_task_are_those_of_its_type_files_and_words(store: LessonStore) -> None:
    fill(
        store,
        lesson(
            "both", "the parser lost a token", metadata={"files": "src/parser.py"}, last_seen=NOW - 60 * DAY
        ),
        lesson(
            "file",
            "anything",
            task_type="docs",
            metadata={"files": "src/parser.py"},
            last_seen=NOW - 60 * DAY,
        ),
        lesson("type", "the disk was full", last_seen=NOW - 60 * DAY),
        lesson("words", "the parser lost a token again", task_type="docs", last_seen=NOW - 60 * DAY),
        lesson("newer", "unrelated", task_type="docs", times_seen=500, last_seen=NOW),
    )
    given = store.for_task(type="fix_bug", files=["src/parser.py"], text="Keep the token in the parser")
    order = [known.id for known in given]
    assert order[0] == "both"
    assert set(order[1:]) == {"file", "words"}
    assert [known.id for known in store.for_task(type="fix_bug", files=["src/other.py"])] == ["both"]
    assert store.for_task(type="none", files=["src/other.py"]) == ()


README = ("Say how to install", "README.md")

# What a small project has learned: id, type, stage, failure, message, scope, files.
LEARNED = (
    (
        "half-cent",
        "fix_bug",
        "verify",
        "check_failed",
        "`python -m unittest` ended with status 1.\n\nAssertionError: 0.12 != 0.13",
        "Round the tax half up",
        "shop/tax.py tests/test_tax.py",
    ),
    (
        "clash",
        "add_feature",
        "land",
        "conflict",
        "clash in shop/cart.py: both changed the same lines",
        "Count the items",
        "shop/cart.py",
    ),
    (
        "three",
        "task",
        "verify",
        "check_failed",
        "`grep three three.txt` ended with status 1.",
        "Write three.txt with the word",
        "three.txt",
    ),
    ("readme", "docs", "judge", "verdict_refused", "refused: the install part names no version", *README),
    (
        "judge",
        "docs",
        "judge",
        "bad_answer",
        "the Judge command did not answer with the JSON asked for",
        *README,
    ),
    ("planner", "docs", "plan", "timeout", "plan.sh ran for more than 9 s, at work on install", *README),
    ("service", "docs", "implement", "model_failed", "an answer that is none", *README),
    ("no check", "docs", "verify", "no_check", "the row has no verification command", *README),
)


@pytest.mark.parametrize(
    ("type_", "files", "text", "given"),
    [
        ("docs", ["two.txt"], "Write two.txt with the word two", []),
        ("task", ["two.txt"], "Write two.txt with the word two", []),
        ("task", ["three.txt"], "Mend three.txt", ["three"]),
        ("docs", [], "Describe the colours", []),
        ("docs", ["docs/setup.md"], "Say how to install the newest version", ["readme"]),
        ("docs", ["README.md"], "Name the licence", ["readme"]),
        ("task", [], "Say what to install, and how", ["readme"]),
        ("fix_bug", ["shop/receipt.py"], "Show two decimals", ["half-cent"]),
        ("fix_bug", ["receipt.py"], "Round the tax on the receipt half up", ["half-cent"]),
        ("add_feature", ["receipt.py"], "Round the tax half up there, too", ["half-cent"]),
        ("add_feature", ["receipt.py"], "Print the tax", []),
        ("fix_bug", ["shop/cart.py"], "Empty carts cost nothing", ["clash", "half-cent"]),
        ("add_feature", ["a.py"], "Round numbers for the newest release notes of all shops", []),
    ],
)
def test_a_task_is_given_only_what_fits_it(
    store: LessonStore, type_: str, files: list[str], text: str, given: list[str]
) -> None:
    fill(
        store,
        *(
            lesson(
                id_,
                message,
                task_type=kind,
                activity_type=stage,
                failure_type=failure,
                metadata={"scope": scope, "files": paths},
            )
            for id_, kind, stage, failure, message, scope, paths in LEARNED
        ),
    )
    assert [each.id for each in store.for_task(type=type_, files=files, text=text)] == given


def test_a_resolved_lesson_goes_before_an_open_one(store: LessonStore) -> None:
    fill(store, lesson("open", "same words"), lesson("resolved", "same words", resolution="do it"))
    assert [known.id for known in store.for_task(type="fix_bug", text="same words")] == ["resolved", "open"]


def test_lessons_for_a_task_fit_the_limits(store: LessonStore) -> None:
    fill(store, *(lesson(str(n), "word " * 100) for n in range(10)))
    assert len(store.for_task(type="fix_bug", text="a word", limit=3)) == 3
    few = store.for_task(type="fix_bug", text="a word", limit=10, max_tokens=400)
    assert 0 < len(few) < 5
    assert sum(estimated_tokens(known.brief()) for known in few) <= 400
    assert store.for_task(type="fix_bug", text="a word", limit=10, max_tokens=3) == ()


def test_nothing_is_given_to_a_task_that_nothing_speaks_for(store: LessonStore) -> None:
    fill(store, lesson("1", "the disk was full", times_seen=900, last_seen=NOW))
    assert store.for_task(type="docs", files=["README.md"], text="write a page about colours") == ()


def test_words_that_are_everywhere_speak_for_nothing(store: LessonStore) -> None:
    fill(store, lesson("1", "the blue is too dark for this", task_type="style"))
    assert store.for_task(type="docs", text="Compute the tax for this order") == ()
    assert store.similar("for the and this").hits == ()


def test_similar_lessons_share_the_rarer_words(store: LessonStore) -> None:
    fill(
        store,
        lesson("near", "connection to the ledger refused by peer"),
        lesson("far", "connection closed"),
        lesson("none", "unrelated"),
        *(lesson(str(n), f"connection {n}") for n in range(200)),
    )
    hits = store.similar("the ledger connection was refused").hits
    assert hits[0].lesson.id == "near"
    assert hits[0].score > 2 * hits[1].score
    assert "none" not in {hit.lesson.id for hit in hits}
    assert store.similar("").hits == ()
    assert store.similar("漢字 12 --").hits == ()


# As somebody types


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LessonStore]:
    folder = tmp_path_factory.mktemp("many")
    write_corpus(folder / "lessons.jsonl", 5000)
    with LessonStore(folder / "lessons.jsonl", folder / "idx.db", clock=lambda: NOW) as store:
        store.catch_up()
        yield store


def test_every_hit_of_every_prefix_has_every_word(many: LessonStore) -> None:
    for typed in queries(40):
        for end in range(1, len(typed) + 1):
            query = parse_query(typed[:end])
            for hit in many.search(query, limit=10, budget=AMPLE).hits:
                text = "\n".join(str(value) for value in msgspec.structs.astuple(hit.lesson)).lower()
                assert all(word.lower() in text for word in query.words), (typed[:end], hit.lesson)


def test_only_the_newest_question_is_answered(many: LessonStore) -> None:
    live = LiveSearch(many.open_reader)
    try:
        asked = [live.ask(LessonQuery("request"[:end])) for end in range(1, 8)]
        assert asked[-1].result(timeout=10).hits
        assert all(future.done() for future in asked)
        assert not asked[-1].cancelled()
    finally:
        live.close()
    live.close()
    assert live.ask(LessonQuery("x")).cancelled()


class SlowTimer:
    """A machine so slow that each look at the clock finds a tenth of a second gone."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 0.1
        return self._now


@pytest.mark.parametrize("typed", ["clash", "ounded", "half", "e", "zz", "cart fi"])
async def test_typed_letter_by_letter_all_is_found_however_slow_the_machine(
    store: LessonStore, typed: str
) -> None:
    texts = ["clash in the cart", "rounded half up", "expired codes", "cart and its fixture", "half a cent"]
    fill(store, *(lesson(str(n), f"{texts[n % 5]} {n}") for n in range(WHOLE + 500)))
    live = LiveSearch(lambda: LessonReader(store.index, clock=lambda: NOW, timer=SlowTimer()))
    try:
        for end in range(1, len(typed) + 1):
            query = parse_query(typed[:end])
            seen = [result async for result in live.search(query)]
            whole = store.search(query, budget=AMPLE)
            assert seen[-1].hits == whole.hits
            assert (seen[-1].total, seen[-1].more, seen[-1].cut) == (whole.total, whole.more, False)
            assert all(result.cut for result in seen[:-1])
    finally:
        live.close()


def test_a_small_store_is_searched_whole_at_once(store: LessonStore) -> None:
    fill(store, *(lesson(str(n), f"{n} with an expired code") for n in range(40)))
    reader = LessonReader(store.index, clock=lambda: NOW, timer=SlowTimer())
    try:
        for typed in ("expired", "pire", "pi", "39 wi"):
            found_ = reader.search(parse_query(typed), budget=0.0)
            assert found_.hits == store.search(parse_query(typed), budget=AMPLE).hits != ()
            assert not found_.cut
    finally:
        reader.close()


def test_each_question_is_answered_however_many_came_before(many: LessonStore) -> None:
    """What ended the last search must not end the next, while that begins or ends its look at the index."""
    live = LiveSearch(many.open_reader)
    try:
        for number in range(400):
            assert live.ask(LessonQuery(f"request{' response' * (number % 2)}")).result(timeout=10).hits
    finally:
        live.close()


def test_a_search_that_nobody_waits_for_stops(many: LessonStore) -> None:
    reader = many.open_reader()
    try:
        with pytest.raises(SearchStoppedError):
            reader.search(LessonQuery("request response"), stopped=lambda: True)
        assert reader.search(LessonQuery("request")).hits
    finally:
        reader.close()


def test_a_failing_reader_fails_the_question_and_no_more(many: LessonStore) -> None:
    state = SimpleNamespace(broken=True)

    def open_reader():  # type: ignore[no-untyped-def]
        if state.broken:
            raise UsageError("no index")
        return many.open_reader()

    live = LiveSearch(open_reader)
    try:
        assert isinstance(live.ask(LessonQuery("a")).exception(timeout=10), UsageError)
        state.broken = False
        assert live.ask(LessonQuery("request")).result(timeout=10).hits
    finally:
        live.close()


def test_searching_goes_on_while_lessons_are_added_and_rebuilt(many: LessonStore) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def look() -> None:
        while not stop.is_set():
            try:
                many.search(LessonQuery("request", failure_type="timeout"), budget=AMPLE)
                many.most_frequent(5)
                many.for_task(type="fix_bug", text="request")
            except BaseException as error:
                failures.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(30):
            many.add("tune", "verify", "crash", f"request {'abcdefgh'[number % 8]} crashed")
        many.rebuild()
    finally:
        stop.set()
        thread.join()
    assert failures == []
    assert many.search(LessonQuery("request crashed", failure_type="crash"), budget=AMPLE).hits
