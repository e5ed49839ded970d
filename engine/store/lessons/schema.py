"""The tables of the index over the lessons file."""

from __future__ import annotations

from engine.store.database import Schema
from engine.store.lessons.words import LONGEST_PREFIX

FIELDS = ("task_type", "activity_type", "failure_type", "pattern")
"""The fields whose names are stored once; their place here is their number in the table `name`."""

ZONE = 1024
"""Keys in one row of `zone`."""

SAMPLED = 64
"""One lesson in so many is counted in `frequency`, which only guides the choice of rare words."""

TABLES = f"""
CREATE TABLE source(
    one INTEGER PRIMARY KEY CHECK (one = 1), position BLOB NOT NULL, size INTEGER NOT NULL, malformed INTEGER NOT NULL,
    lessons INTEGER NOT NULL, sightings INTEGER NOT NULL, resolved INTEGER NOT NULL
);
CREATE TABLE name(
    key INTEGER PRIMARY KEY, field INTEGER NOT NULL, text TEXT NOT NULL, lessons INTEGER NOT NULL, UNIQUE(field, text)
);
-- What filters and ranks. The key rises with every mention, so that newest first is the key downwards.
CREATE TABLE lesson(
    key INTEGER PRIMARY KEY, task_type INTEGER NOT NULL, activity_type INTEGER NOT NULL, failure_type INTEGER NOT NULL,
    pattern INTEGER NOT NULL, times INTEGER NOT NULL, first REAL NOT NULL, last REAL NOT NULL
);
-- What is shown.
CREATE TABLE body(
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL, failure_msg TEXT NOT NULL,
    resolution TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE TABLE frequency(term TEXT PRIMARY KEY, lessons INTEGER NOT NULL) WITHOUT ROWID;
-- When the lessons of each 1,024 keys were seen: a time range is a range of keys, nearly.
CREATE TABLE zone(block INTEGER PRIMARY KEY, low REAL NOT NULL, high REAL NOT NULL);
CREATE INDEX body_fingerprint ON body(fingerprint);
CREATE INDEX lesson_last ON lesson(last);
CREATE INDEX lesson_times ON lesson(times, last);
CREATE INDEX lesson_t ON lesson(task_type, last);
CREATE INDEX lesson_a ON lesson(activity_type, last);
CREATE INDEX lesson_f ON lesson(failure_type, last);
CREATE INDEX lesson_p ON lesson(pattern, last);
CREATE INDEX lesson_ta ON lesson(task_type, activity_type, last);
CREATE INDEX lesson_tf ON lesson(task_type, failure_type, last);
CREATE INDEX lesson_af ON lesson(activity_type, failure_type, last);
CREATE INDEX lesson_taf ON lesson(task_type, activity_type, failure_type, last);
CREATE INDEX lesson_ptaf ON lesson(pattern, task_type, activity_type, failure_type, last);
CREATE VIRTUAL TABLE word USING fts5(
    text, content='', contentless_delete=1, detail=none, prefix='{" ".join(map(str, range(1, LONGEST_PREFIX + 1)))}',
    tokenize='unicode61 remove_diacritics 0'
);
CREATE VIRTUAL TABLE gram USING fts5(text, content='', contentless_delete=1, detail=none, tokenize='trigram');
-- Large transactions are written as one sorted piece each, which leaves less to merge.
INSERT INTO word(word, rank) VALUES('hashsize', 33554432);
INSERT INTO gram(gram, rank) VALUES('hashsize', 33554432);
INSERT INTO source VALUES(1, x'', 0, 0, 0, 0, 0);
"""

NAMES = ("source", "name", "lesson", "body", "frequency", "zone", "word", "gram")

SCHEMA = Schema((TABLES,))
