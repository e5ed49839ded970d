"""Lessons may lie in the repository: no key, token or password gets into them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.lessons import Lesson, LessonStore, secrets_of
from engine.store.lessons.keys import without_keys
from engine.store.lessons.record import encode_line

# Put together here, so that no scanner takes this file for a leak.
SHAPED = [
    "sk-" + "ant-api03-Ab_cd-0123456789abcdef",
    "sk-" + "proj-0123456789abcdefABCDEF",
    "gh" + "p_0123456789abcdefABCDEF0123456789abcd",
    "github" + "_pat_0123456789abcdefABCDEF",
    "AK" + "IA0123456789ABCDEF",
    "xo" + "xb-123456789012-abcdefghijkl",
    "ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA " + "PRIVATE KEY-----",
]
ORDINARY = [
    "KeyError: 'token' raised by parse_token() after 3 of 9 tokens",
    "src/auth/token.py:41: AssertionError: secret != SECRET",
    "the header is `Authorization: Bearer`, and basic auth is refused",
    "https://example.org:8080/a@b and git@github.com:a/b.git",
    "task-1234567890123456789, sk-1, risk-of-an-unbounded-recursion-here",
    "MAX_TOKENS = 8 and API_KEY is not set",
]


@pytest.mark.parametrize("key", SHAPED)
def test_what_has_the_shape_of_a_key_is_taken_out(key: str) -> None:
    assert without_keys(f"before {key} after", ()) == "before [key] after"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("curl -H 'Authorization: Bearer abc.def-123456'", "curl -H 'Authorization: Bearer [key]'"),
        ("https://ann:hunter22@example.org/x", "https://[key]@example.org/x"),
        ("DB_PASSWORD=hunter22; then", "DB_PASSWORD=[key]; then"),
        ('{"API_KEY": "hunter22"}', '{"API_KEY": [key]'),
    ],
)
def test_only_the_value_goes_where_a_name_says_what_it_is(text: str, clean: str) -> None:
    assert without_keys(text, ()) == clean


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_stay(text: str) -> None:
    assert without_keys(text, ()) == text


def test_secrets_are_the_long_values_of_variables_with_telling_names() -> None:
    environ = {
        "OPENAI_API_KEY": "hunter22",
        "MY_TOKEN": "hunter22-and-more",
        "SHORT_SECRET": "1",
        "HOME": "/home/ann",
    }
    secrets = secrets_of(environ)
    assert secrets == ("hunter22-and-more", "hunter22")
    assert without_keys("401 for hunter22-and-more and hunter22", secrets) == "401 for [key] and [key]"


def test_neither_file_nor_index_ever_holds_a_key(tmp_path: Path) -> None:
    key = SHAPED[0]
    file, index = tmp_path / "lessons.jsonl", tmp_path / "idx.db"
    other = tmp_path / "other.jsonl"
    other.write_bytes(
        encode_line(Lesson("theirs", failure_msg=f"refused {key}", metadata={"url": f"x {key}"}))
    )
    with LessonStore(file, index, secrets=("hunter22",)) as store:
        one = store.add(
            "t", "a", "f", f"401 for {key}", resolution="use hunter22", metadata={"env": "hunter22"}
        )
        two = store.add("t", "a", "f", f"401 for {SHAPED[0][:-4]}zzzz")
        assert (two.id, two.times_seen) == (one.id, 2), "the key does not make another failure of it"
        store.resolve(one.id, f"set {key}")
        store.import_file(other)
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path != other)
    assert b"401 for [key]" in written
    assert b"refused [key]" in written
    assert b"hunter22" not in written
    assert b"ant-api03" not in written
