"""How the text of lessons becomes entries of the two full-text indexes, and typed words become questions to them.

The word index is SQLite's FTS5 over what `indexed_text` gives: the words of the text, and invented words from
Unicode's private range for what a word index cannot see:

- every punctuation mark, symbol and emoji, so that `C++`, `100%` or `@` are found without reading a million lessons;
- each character and each pair of characters of scripts that are written without blanks (漢字 is found in 常用漢字表);
- the names of the fields and files, so that words and filters are one intersection of sorted lists.

The gram index is FTS5's trigram index over the plain text, for what stands inside a word.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

FACET = "\ue000"
SYMBOL = "\ue001"
LONGEST_PREFIX = 8
"""Letters of the longest prefix that the word index holds a list for; merging lists takes 130 ms at a million."""

MAX_QUESTIONS = 24  # words that the index is asked for; the texts are looked at for the rest
_PRIVATE = re.compile("[\ue000\ue001]")

# Thai, Lao, Burmese, Khmer, and all from the CJK radicals on but surrogates and private use: Han, kana, Hangul, emoji.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufeff\uff01-\U000effff"
_ASCII_SYMBOLS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_SYMBOL_WORDS = {c: f" {SYMBOL}{ord(c):x}" for c in _ASCII_SYMBOLS}
_ASCII_QUESTIONS = frozenset(f'"{word.strip()}"' for word in _SYMBOL_WORDS.values())


@cache  # Python takes milliseconds to compile so many characters: nobody waits for that who only starts a run.
def _unspaced() -> re.Pattern[str]:
    """A run of such characters."""
    return re.compile(f"[{_UNSPACED}]+")


@cache
def _piece() -> re.Pattern[str]:
    """What of a typed word is asked for by itself: such a run, letters and digits of other scripts, or a symbol."""
    return re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_])+|\S")


def facet(field: str, name: str | int) -> str:
    """The invented word for the name of a field (its key in the index) or for a file."""
    if isinstance(name, int):
        return f"{FACET}{field}{name:x}"
    return f"{FACET}{field}{hashlib.blake2b(name.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"


def file_facets(files: Iterable[str]) -> list[str]:
    """The invented words for files: each by its path, its name and its folder."""
    words: dict[str, None] = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        for word in (facet("f", path), facet("n", name), facet("d", folder)):
            words[word] = None
    return list(words)


def clean(text: str) -> str:
    """The text without what cannot be stored (lone surrogates) and without our invented characters."""
    if text.isascii():
        return text
    return _PRIVATE.sub(" ", text.encode("utf-8", "replace").decode())


def indexed_text(text: str, facets: Iterable[str]) -> str:
    """What the word index reads for a lesson with this clean text and these facets."""
    if text.isascii():
        symbols = "".join([_SYMBOL_WORDS[c] for c in _ASCII_SYMBOLS.intersection(text)])
        return f"{text} {' '.join(facets)}{symbols}"
    extra = [symbol_word(c) for c in set(text) if is_symbol(c)]
    for run in _unspaced().findall(text):
        extra += _unspaced_words(run)
        extra += [symbol_word(c) for c in run.lower()]
    return f"{_unspaced().sub(' ', text)} {' '.join(facets)} {' '.join(extra)}"


def is_symbol(c: str) -> bool:
    """Whether the character is none of a word and no blank."""
    return not (c.isalnum() or c.isspace())


def symbol_word(c: str) -> str:
    """The invented word for one character."""
    return f"{SYMBOL}{ord(c):x}"


def _unspaced_words(run: str) -> list[str]:
    run = run.lower()
    return [f"{SYMBOL}{ord(a):x}g{ord(b):x}" for a, b in pairwise(run)]


def grams(text: str) -> set[str]:
    """The trigrams of a text as the gram index folds them."""
    text = text.lower()
    return {text[i : i + 3] for i in range(len(text) - 2)}


_WORD = re.compile(r"[^\W\d_][^\W_]{2,40}")


def word_set(text: str) -> set[str]:
    """The words of a text that tell one lesson from another: three letters or more, lower case."""
    return set(_WORD.findall(text.lower()))


@dataclass(frozen=True, slots=True)
class Term:
    """One typed word. `questions` to the word index, which every lesson that holds the word satisfies."""

    text: str
    questions: tuple[str, ...]
    exact: bool
    """Whether the questions are satisfied by no other lesson, so that its text need not be read."""
    lowered: str
    """The word in lower case."""
    bounded: bool
    """Whether it must stand at the start of a word; one that begins with a symbol stands anywhere."""


def at_word_start(text: str, at: int) -> bool:
    """Whether a word begins at this place of the text; in scripts without blanks, each character is a word."""
    before = text[at - 1 : at]
    return not before.isalnum() or (not before.isascii() and _unspaced().match(before) is not None)


def terms(words: Iterable[str]) -> tuple[Term, ...]:
    """The terms for typed words."""
    return tuple(_term(cleaned) for word in words for cleaned in clean(word).split())


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the word index: how many lists it intersects, and whether its answers need no second look."""

    expression: str
    parts: int
    exact: bool


def question_for(found: Iterable[Term], facets: Sequence[str] = (), *, few: bool = False) -> Question:
    """The question for all the terms and facets. `few`: there are so few lessons that no list is too long."""
    parts: dict[str, bool] = {}
    exact = True
    for term in found:
        exact = exact and term.exact
        for question in term.questions:
            parts[question] = not few and _is_common(question)
    kept = [question for question, common in parts.items() if not common]
    if kept:
        # Nearly every lesson has them: cheaper to look for in the texts that are left.
        exact = exact and len(kept) == len(parts)
    else:
        kept = list(parts)
    exact = exact and len(kept) <= MAX_QUESTIONS
    asked = [*(f"({facet})" for facet in facets), *kept[:MAX_QUESTIONS]]
    return Question(" AND ".join(asked), len(asked), exact)


def _is_common(question: str) -> bool:
    """Whether it asks for a punctuation mark, or for words that begin with one or two letters."""
    short_prefix = question.endswith("*") and len(question) <= 5
    return short_prefix or question in _ASCII_QUESTIONS


def _term(word: str) -> Term:
    pieces = _piece().findall(word)
    questions: dict[str, None] = {}
    previous = ""
    for number, piece in enumerate(pieces):
        following = pieces[number + 1] if number + 1 < len(pieces) else ""
        # What follows a combining mark is no word of its own.
        if not (previous and unicodedata.combining(previous)):
            questions.update(dict.fromkeys(_questions(piece, following)))
        previous = piece[-1]
    exact = len(pieces) == 1 and word.isascii() and word.isalnum() and len(word) <= LONGEST_PREFIX
    bounded = word[0].isalnum() and not _unspaced().match(word[0])
    return Term(word, tuple(questions), exact, word.lower(), bounded)


def _questions(piece: str, following: str) -> list[str]:
    if _unspaced().match(piece):
        words = _unspaced_words(piece) or [symbol_word(c) for c in piece.lower()]
        return [f'"{word}"' for word in words]
    if is_symbol(piece[0]):
        return [f'"{symbol_word(piece)}"']
    # Before an ASCII symbol a word has ended. Anything else might go on: `caf` and `é`, a combining mark, an emoji.
    if following != "" and following in _ASCII_SYMBOLS:
        return [f'"{piece}"']
    return [f'"{piece[:LONGEST_PREFIX]}"*']
