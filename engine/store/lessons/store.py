"""The lessons as the rest of the engine uses them: add, resolve, find, follow."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.errors import StoreError, UsageError
from engine.figures import LessonFigures
from engine.store.database import DatabaseError, open_database, set_database_aside
from engine.store.lessons.file import LessonsFile
from engine.store.lessons.finder import LessonFinder
from engine.store.lessons.fingerprint import fingerprint, pattern_of
from engine.store.lessons.follow import follow_file
from engine.store.lessons.fresh import FreshLessons
from engine.store.lessons.imports import IMPORTED_AT_ONCE, ImportReport, lines_to_import, read_lessons
from engine.store.lessons.index import LessonIndex, Source, Step, id_for, mark_of, read_source
from engine.store.lessons.keys import without_keys
from engine.store.lessons.malformed import MalformedLine, malformed_lines
from engine.store.lessons.record import Lesson, encode_line, merge
from engine.store.lessons.schema import SCHEMA
from engine.store.lessons.search import LessonReader
from engine.store.lessons.stats import LEFT, LessonStats, share_indexed, stats_of

if TYPE_CHECKING:
    from engine.store.database import Connection

MAX_MESSAGE = 8000
"""Characters of a message that `add` keeps, most of them from its end; the whole output is in the task's log."""

_TIDIED = 64 << 20  # bytes taken in at once, about, after which the index is tidied


class LessonStore(LessonFinder):
    """The lessons file and its index. Any number of processes may hold one over the same two files.

        with LessonStore(file, index) as lessons:
            lesson = lessons.add("fix_bug", "verify", "timeout", output)
            lessons.search(parse_query("type:fix_bug timeout"))

    Opening takes in a small file (or what is new in it) at once; `catch_up` does so for one of any size. All methods
    may be called from any thread. Raises StoreError where a file cannot be read or written. `secrets`: texts that
    are never written, beside all that has the shape of a key.
    """

    def __init__(
        self,
        file: Path,
        index: Path,
        *,
        clock: Callable[[], float] = time.time,
        secrets: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.file = file
        self._secrets = secrets
        self.index = index
        self._clock = clock
        self._file = LessonsFile(file)
        self._index = LessonIndex(self._file)
        self._fresh = FreshLessons()
        self._adding = threading.Lock()
        self._open()
        if self._file.size() - self._source().position.offset <= LEFT:
            self.catch_up()

    def __enter__(self) -> LessonStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is queued and close the index. Safe to call twice."""
        with self._reading:
            self._reader.close()
        self._database.close()

    # Writing

    def add(
        self,
        task_type: str,
        activity_type: str,
        failure_type: str,
        failure_msg: str,
        *,
        resolution: str = "",
        pattern: str = "",
        about: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Lesson:
        """Write a sighting of a failure down, and give the lesson with all its sightings, which searches find already.

        The same failure as before, `about` the same (see `fingerprint`), is the same lesson, seen once more.
        `metadata["files"]`: the files concerned, separated by blanks.
        """
        storable = self._storable
        message = _kept(storable(failure_msg).strip())
        if not message:
            raise UsageError("a lesson needs a failure message")
        task_type, activity_type, failure_type = map(storable, (task_type, activity_type, failure_type))
        mark = fingerprint(task_type, activity_type, failure_type, message, storable(about))
        resolution, pattern = storable(resolution).strip(), storable(pattern)
        metadata = {storable(key): storable(value) for key, value in (metadata or {}).items()}
        with self._adding:
            known = self._known(mark)
            id_, pattern = (
                (known.id, pattern or known.pattern)
                if known
                else (id_for(mark), pattern or pattern_of(message))
            )
            now = self._clock()
            line = Lesson(
                id_,
                task_type,
                activity_type,
                failure_type,
                message,
                resolution,
                pattern,
                1,
                now,
                now,
                metadata,
            )
            return self._append(line, known)

    async def record(
        self,
        task_type: str,
        activity_type: str,
        failure_type: str,
        failure_msg: str,
        *,
        about: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Lesson:
        """`add`, without keeping the event loop waiting."""
        return await asyncio.to_thread(
            self.add, task_type, activity_type, failure_type, failure_msg, about=about, metadata=metadata
        )

    def resolve(self, id_: str, resolution: str) -> Lesson:
        """Write down what helped; it is no new sighting. Raises UsageError for an id that is not known."""
        with self._adding:
            self.catch_up()
            known = self.get(id_)
            if known is None:
                raise UsageError(f"there is no lesson {id_}", "see `taskyard lessons list`")
            line = msgspec.structs.replace(
                known, resolution=self._storable(resolution).strip(), times_seen=0, metadata={}
            )
            return self._append(line, known)

    def import_file(
        self, path: Path, *, progress: Callable[[int, int], bool | None] | None = None
    ) -> ImportReport:
        """Take over the lessons of another file: new ones, higher counts, and resolutions that are missing here.

        Importing the same file twice changes nothing. `progress(done, total)` in bytes is told how far it is, and
        ends the import after whole lessons when it answers False.
        """
        self.catch_up()
        if not path.is_file():
            raise UsageError(f"there is no file {path}")
        theirs, malformed = read_lessons(LessonsFile(path), self._storable, progress)
        report = ImportReport(malformed=malformed)
        waiting = iter(theirs)
        while group := list(islice(waiting, IMPORTED_AT_ONCE)):
            with self._read() as reader:
                known = [reader.get(one.id) or reader.with_fingerprint(mark_of(one)) for one in group]
            lines, report = lines_to_import(group, known, report)
            if lines:
                self._file.append(lines)
                self.catch_up()
        return report

    # Keeping up with the file

    def catch_up(self, *, progress: Callable[[int, int], bool | None] | None = None) -> int:
        """Take in all whole lines that the index does not have yet; gives their number.

        `progress(done, total)`, in bytes, is called after each part of a long build. When it answers False the build
        ends there; what was taken in stays, and the next call goes on.
        """
        lines = 0
        while True:
            step: Step = self._database.submit(self._index.step).result()
            lines += step.lines
            if progress is not None and step.lines:
                goes_on = progress(step.source.position.offset, step.source.size) is not False
                if not goes_on:
                    return lines
            if not step.more:
                break
        if lines * 400 > _TIDIED:
            self._tidy()
        return lines

    def rebuild(self, *, progress: Callable[[int, int], bool | None] | None = None) -> int:
        """Forget the index and build it from the file again; gives the number of lines. See `catch_up`."""

        def begin_anew(connection: Connection) -> Step:
            self._index.empty(connection)
            return self._index.step(connection)

        try:
            step = self._database.submit(begin_anew).result()
        except DatabaseError as error:
            if error.kind != "damaged":
                raise
            self.close()
            set_database_aside(self.index, self._database.identity)
            self._open()
            step = self._database.submit(self._index.step).result()
        if progress is not None and progress(step.source.position.offset, step.source.size) is False:
            return step.lines
        return step.lines + (self.catch_up(progress=progress) if step.more else 0)

    async def follow(
        self, stop: asyncio.Event, *, on_change: Callable[[LessonStats], object] | None = None
    ) -> None:
        """Take in what other processes append, as it comes, until `stop` is set; `on_change` hears of it."""

        async def changed() -> None:
            with suppress(StoreError):  # a full disk or a busy index: the next change, or second, tries again
                if self._file.unchanged_since(self._source().position):
                    return
                if await asyncio.to_thread(self.catch_up) and on_change is not None:
                    on_change(await asyncio.to_thread(self.stats))

        await follow_file(self.file, changed, stop)

    # About the store

    def figures(self) -> LessonFigures:
        """What the dashboard shows; cheap enough to ask every second."""
        source = self._source()
        size = self._file.size()
        return LessonFigures(source.lessons, source.malformed, size, share_indexed(source, size))

    def stats(self) -> LessonStats:
        """Sums over all lessons."""
        index_bytes = sum(
            LessonsFile(self.index.with_name(self.index.name + end)).size() for end in ("", "-wal")
        )
        with self._read() as reader:
            return stats_of(reader, self._file.size(), index_bytes)

    def check(self) -> tuple[MalformedLine, ...]:
        """Read the whole file and list the lines that are no lessons, an unfinished last one included."""
        return malformed_lines(self._file)

    def open_reader(self) -> LessonReader:
        """A reader of its own, for a thread that searches much; close it when done."""
        return LessonReader(self.index, clock=self._clock, fresh=self._fresh)

    def _open(self) -> None:
        self._database = open_database(self.index, schema=SCHEMA, synchronous="NORMAL", disposable=True)
        self._reader = LessonReader(self.index, clock=self._clock, fresh=self._fresh)

    def _append(self, line: Lesson, known: Lesson | None) -> Lesson:
        lesson = merge(known, line) if known else line
        self._file.append(encode_line(line))

        def take_in(connection: Connection) -> None:
            # While a long build is under way the file has the line, and that is enough.
            while self._file.size() - read_source(connection).position.offset <= LEFT:
                if not self._index.step(connection).more:
                    break

        self._fresh.put(lesson)
        try:
            taken = self._database.submit(take_in, urgent=False)
        except StoreError:  # closed meanwhile: the file is enough here, too
            self._fresh.drop(lesson)
        else:
            taken.add_done_callback(lambda _: self._fresh.drop(lesson))
        return lesson

    def _settle(self) -> None:
        if self._fresh.texts:
            with suppress(StoreError):  # an index without a disk or a lock takes nothing in
                self._database.flush()

    def _storable(self, text: str) -> str:
        # A lone surrogate, as in the name of a file that is no UTF-8, has no place in JSON.
        text = text if text.isascii() else text.encode("utf-8", "replace").decode()
        return without_keys(text, self._secrets)

    def _known(self, mark: str) -> Lesson | None:
        fresh = self._fresh.texts
        if id_for(mark) in fresh:
            return fresh[id_for(mark)].lesson
        try:
            with self._read(settled=False) as reader:
                known = reader.with_fingerprint(mark)
        except StoreError:
            return None  # an index that cannot be read is no reason to lose a lesson
        return fresh[known.id].lesson if known and known.id in fresh else known

    def _source(self) -> Source:
        with self._read(settled=False) as reader:
            return reader.source()

    def _tidy(self) -> None:
        while self._database.submit(self._index.tidy).result():
            pass


def _kept(message: str) -> str:
    if len(message) <= MAX_MESSAGE:
        return message
    head = MAX_MESSAGE // 4
    return f"{message[:head]}\n…\n{message[-(MAX_MESSAGE - head) :]}"
