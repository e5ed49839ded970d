"""Locks among many hosts, in a Redis (or Valkey) server."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

from engine.errors import LockStoreAwayError, SettingsError
from engine.locks import scripts
from engine.locks.records import WAITER_SILENCE, Holder, Party, Record, Sight

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")

TIMEOUT = 5.0  # seconds for one answer of the server
GRACE = 0.5
"""Seconds for which a cancelled caller waits for the answer that is under way."""
KEPT = 30 * 86400.0
"""Seconds for which counters and guarded values outlive their last use."""
KINDS = ("lock", "fence", "queue", "alive", "record")


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """How the server answers: round trip and its clock's lead over ours, both in seconds."""

    version: str
    latency: float
    skew: float


class RedisLocks:
    """A `LockStore` over hosts: `RedisLocks("redis://host:6379/0")`. Raises `SettingsError` without the extra.

    A server that fails over may forget the newest locks. Its tokens still grow, for they follow its clock.
    """

    def __init__(self, url: str, *, timeout: float = TIMEOUT) -> None:
        try:
            from redis.asyncio import Redis
        except ImportError as error:
            raise SettingsError(
                "[locks] url needs the redis package", "pip install 'taskyard[redis]'"
            ) from error
        self._redis: Redis = Redis.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout)
        self.address = _without_secret(url)
        """The address of the server, fit to be shown: without the password."""

    async def take(self, name: str, party: Party, lease: float, *, queue: bool = True) -> int | None:
        token = await self._run(
            scripts.TAKE,
            name,
            party.id,
            party.host,
            party.pid,
            _ms(lease),
            _ms(WAITER_SILENCE),
            int(queue),
            _ms(KEPT),
        )
        return None if token is None else int(token)

    async def renew(self, name: str, party: Party, lease: float, token: int) -> bool:
        kept = await self._run(
            scripts.RENEW, name, party.id, party.host, party.pid, _ms(lease), token, _ms(KEPT)
        )
        return bool(kept)

    async def release(self, name: str, party: Party) -> bool:
        return bool(await self._run(scripts.RELEASE, name, party.id))

    async def write_if(self, name: str, token: int, value: bytes) -> bool:
        return bool(await self._run(scripts.WRITE, name, token, value, _ms(KEPT)))

    async def read(self, name: str) -> Record | None:
        return _record(await self._ask(self._fields("record", name)))

    async def records(self, prefix: str) -> dict[str, Record]:
        return await self._ask(self._find_records(prefix))

    async def _find_records(self, prefix: str) -> dict[str, Record]:
        found: dict[str, Record] = {}
        async for name in self._names("record", prefix):
            record = _record(await self._fields("record", name))
            if record is not None:
                found[name] = record
        return dict(sorted(found.items()))

    async def holders(self, prefix: str = "") -> tuple[Holder, ...]:
        return await self._ask(self._find_holders(prefix))

    async def _find_holders(self, prefix: str) -> tuple[Holder, ...]:
        found: dict[str, Holder] = {}
        now = await self._now()
        async for name in self._names("lock", prefix):
            kept, left = await self._fields("lock", name), await self._redis.pttl(_key("lock", name))
            holder = _holder(name, kept, left, now)
            if holder is not None:
                found[name] = holder
        return tuple(found[name] for name in sorted(found))

    async def look(self, names: Collection[str]) -> Mapping[str, Sight]:
        wanted = tuple(names)
        asked = self._redis.pipeline(transaction=False)
        asked.time()
        for name in wanted:
            asked.hgetall(_key("lock", name))
            asked.pttl(_key("lock", name))
            asked.hgetall(_key("record", name))
        (seconds, micros), *rest = await self._ask(asked.execute())
        now = float(seconds) + float(micros) / 1e6
        return {
            name: Sight(_holder(name, kept, left, now), _record(record))
            for name, kept, left, record in zip(wanted, rest[::3], rest[1::3], rest[2::3], strict=True)
        }

    async def health(self) -> ServerHealth:
        """Ask the server how it is."""
        with self._reaching():
            about = await self._redis.info("server")
            asked, began = time.time(), time.perf_counter()
            now = await self._now()
            latency = time.perf_counter() - began
        version = str(about.get("valkey_version") or about.get("redis_version") or "?")
        return ServerHealth(version, latency, now - (asked + latency / 2))

    async def close(self) -> None:
        await self._redis.aclose()

    async def _fields(self, kind: str, name: str) -> dict[bytes, bytes]:
        return cast("dict[bytes, bytes]", await self._redis.hgetall(_key(kind, name)))

    async def _now(self) -> float:
        seconds, micros = await self._redis.time()
        return float(seconds) + float(micros) / 1e6

    async def _names(self, kind: str, prefix: str) -> AsyncIterator[str]:
        async for key in self._redis.scan_iter(match=f"{kind}:{{{_glob(prefix)}*", count=1000):
            name = unquote(str(key, "utf-8")[len(kind) + 2 : -1])
            if name.startswith(prefix):
                yield name

    async def _run(self, script: str, name: str, *args: str | int | bytes) -> Any:
        """Run the script on the server; it keeps it, so that only its digest travels the next time."""
        keys = [_key(kind, name) for kind in KINDS]
        return await self._ask(self._redis.register_script(script)(keys=keys, args=list(args)))

    async def _ask(self, question: Awaitable[T]) -> T:
        """Wait for the answer; who is cancelled meanwhile waits no longer, whatever becomes of the question.

        The client may swallow a cancellation while it connects, and what is under way may yet be granted: a release
        that follows must come behind it.
        """
        with self._reaching():
            asked = asyncio.ensure_future(question)
            try:
                return await asyncio.shield(asked)
            except asyncio.CancelledError:
                await asyncio.wait({asked}, timeout=GRACE)
                asked.add_done_callback(lambda done: done.cancelled() or done.exception())
                raise

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        from redis.exceptions import AuthenticationError, RedisError

        try:
            yield
        except AuthenticationError as error:
            raise LockStoreAwayError(
                f"{self.address} refuses the password ({error})", "mend [locks] url: redis://:PASSWORD@HOST"
            ) from error
        except (RedisError, OSError) as error:
            raise LockStoreAwayError(
                f"the lock server {self.address} does not answer ({error})",
                "start it, or mend [locks] url; nothing is done without the lock",
            ) from error


def _glob(prefix: str) -> str:
    """The pattern for names with this prefix: what means something in a pattern is quoted away or escaped."""
    return re.sub(r"([\\[\]?*^-])", r"\\\1", quote(prefix, safe="/:"))


def _key(kind: str, name: str) -> str:
    # Braces in a name would end the part that chooses the slot.
    return f"{kind}:{{{quote(name, safe='/:')}}}"


def _holder(name: str, kept: dict[bytes, bytes], left: int, now: float) -> Holder | None:
    """Give the holder by the fields of a lock and its time to live in ms; None when nobody holds it."""
    if not kept or left <= 0:
        return None
    since = int(kept[b"since"]) / 1000
    party = Party(kept[b"owner"].decode(), kept[b"host"].decode(), int(kept[b"pid"]))
    return Holder(name, party, int(kept[b"token"]), since, max(0.0, now - since), left / 1000)


def _record(kept: dict[bytes, bytes]) -> Record | None:
    return Record(int(kept[b"token"]), kept[b"value"]) if kept else None


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _without_secret(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
