"""Read the settings: flags over environment over taskyard.toml over defaults, and every mistake told by its place."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from engine.errors import SettingsError
from engine.model import Lane
from engine.regular import read_regular_text
from engine.settings.schema import RoleSettings, Settings
from engine.settings.values import Kind
from engine.toml import parse_toml, shown

FILE_NAME = "taskyard.toml"
_PREFIX = "TASKYARD_"
_Place = tuple[str, ...]
_S = TypeVar("_S", bound=msgspec.Struct)


def load_settings(
    root: Path, *, overrides: Mapping[str, object] | None = None, environ: Mapping[str, str]
) -> Settings:
    """Load the settings of the project at `root`.

    `overrides` are flags by dotted name (`{"run.max_concurrency": 4}`, text is read too, None means not given);
    `environ` holds variables such as `TASKYARD_RUN_MAX_CONCURRENCY=4` (empty means not set). Relative paths start at
    `root`. Raises `SettingsError` naming the file and line, the variable or the flag, and the nearest known key.
    """
    root = root.absolute()
    kinds = _kinds(Settings)
    values: dict[_Place, object] = {}
    origins: dict[_Place, str] = {}

    def take(place: _Place, value: object, origin: str, *, text: bool) -> None:
        values[place] = _read(kinds[place], value, f"{origin}: {'.'.join(place)}", text=text)
        origins[place] = origin

    file = root / FILE_NAME
    source = _source(file)
    for place, value in _flatten(parse_toml(source, file.name), kinds, source):
        take(place, value, _where(source, place), text=False)
    variables = {_PREFIX + "_".join(place).upper(): place for place in kinds}
    sections = tuple(f"{_PREFIX}{place[0].upper()}_" for place in kinds)
    for name, text in environ.items():
        if name in variables and text:
            take(variables[name], text, name, text=True)
        elif name.startswith(sections) and name not in variables:
            raise SettingsError(f"{name} is no setting", f"the nearest is {_nearest(name, variables)}")
    options = {".".join(place): place for place in kinds}
    for name, given in (overrides or {}).items():
        if name not in options:
            raise SettingsError(f"{name} is no setting", f"the nearest is {_nearest(name, options)}")
        if given is not None:
            take(options[name], given, "command line", text=isinstance(given, str))

    defaults = Settings(root=root, file=file if file.exists() else None)
    return _complete(_build(defaults, values, root), origins)


def _complete(settings: Settings, origins: Mapping[_Place, str]) -> Settings:
    """Check what concerns more than one setting, and fill in what follows from others."""
    for name in ("planner", "implementer", "judge"):
        role: RoleSettings = getattr(settings.roles, name)
        place = ("roles", name)
        if role.kind == "none" and name == "implementer":
            origin = origins.get((*place, "kind"), FILE_NAME)
            message = f'{origin}: roles.implementer.kind is "none", and nobody would do the work'
            raise SettingsError(message, 'use "anthropic" or "command"')
        if role.kind == "command" and not role.command:
            origin = origins.get((*place, "kind"), FILE_NAME)
            message = f'{origin}: roles.{name}.kind is "command", and there is none'
            raise SettingsError(message, f'add command = ["claude", "-p"] or the like to [roles.{name}]')
        if role.command and role.kind != "command":
            origin = origins.get((*place, "command"), FILE_NAME)
            message = f'{origin}: roles.{name}.command is set, but its kind is "{role.kind}"'
            raise SettingsError(message, f'add kind = "command" to [roles.{name}], or remove the command')
    for lane in settings.run.lane_limits:
        if lane not in set(Lane):
            origin = origins[("run", "lane_limits")]
            raise SettingsError(f"{origin}: there is no lane {lane}", 'the lanes are "fast" and "economy"')
    lessons = settings.lessons.file
    if lessons is not None and lessons.is_dir():
        message = f"{origins[('lessons', 'file')]}: lessons.file is {lessons}, which is a folder"
        raise SettingsError(message, f"name a file in it, such as {lessons / 'lessons.jsonl'}")
    if not settings.git.target:
        given = origins.get(("git", "target"))
        if given is not None:
            message = f"{given}: git.target is empty"
            raise SettingsError(
                message, "name a branch, or leave it out to land on one named after the board"
            )
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", settings.run.board.stem).strip("-") or "board"
        settings = replace(settings, git=replace(settings.git, target=f"taskyard/{name}"))
    return settings


def _kinds(struct: type[msgspec.Struct], above: _Place = ()) -> dict[_Place, Kind]:
    """List every setting by its place, in the order of the schema."""
    found: dict[_Place, Kind] = {}
    for name, hint in get_type_hints(struct, include_extras=True).items():
        place = (*above, name)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            found |= _kinds(hint, place)
        elif kind := _kind(hint):
            found[place] = kind
    return found


def _kind(hint: Any) -> Kind | None:
    if hint_args := [arg for arg in get_args(hint) if arg is not NoneType]:
        if get_origin(hint) is Literal:
            return _choice(hint_args)
        if get_origin(hint) is Annotated:
            return next((arg for arg in hint_args if isinstance(arg, Kind)), None)
        return _kind(hint_args[0])
    return None


def _choice(words: list[str]) -> Kind:
    def read(value: object) -> object:
        if value not in words:
            raise ValueError(value)
        return value

    quoted = [f'"{word}"' for word in words]
    return Kind(f"{', '.join(quoted[:-1])} or {quoted[-1]}", read)


def _read(kind: Kind, value: object, what: str, *, text: bool) -> object:
    """Read one value. Text from outside a file may stand for any TOML value but a string, or for itself."""
    candidates = [value]
    if text:
        with contextlib.suppress(tomllib.TOMLDecodeError):
            meant = tomllib.loads(f"value = {value}")["value"]
            if not isinstance(meant, str):
                candidates.insert(0, meant)
    for candidate in candidates:
        with contextlib.suppress(ValueError):
            return kind.read(candidate)
    raise SettingsError(f"{what} is {_shown(value)}", f"give it {kind.expected}")


def _shown(value: object) -> str:
    text = (
        f'"{value}"'
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
    return shown(text)


def _source(file: Path) -> str:
    """Read the settings file; a missing one is an empty one."""
    try:
        return read_regular_text(file, "utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file} is not UTF-8 (byte {error.start})", "save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{file} cannot be read ({error.strerror})", "make it a readable file") from error


def _flatten(
    table: Mapping[str, Any], kinds: Mapping[_Place, Kind], source: str, above: _Place = ()
) -> Iterator[tuple[_Place, object]]:
    """Yield every value of the file by its place. Raises for a key that is no setting."""
    for name, value in table.items():
        place = (*above, name)
        if place in kinds:
            yield place, value
        elif not any(known[: len(place)] == place for known in kinds):
            known_names = {".".join(known[:length]) for known in kinds for length in range(1, len(known) + 1)}
            nearest = _nearest(".".join(place), known_names)
            raise SettingsError(
                f"{_where(source, place)}: {'.'.join(place)} is no setting", f"the nearest is {nearest}"
            )
        elif isinstance(value, dict):
            yield from _flatten(value, kinds, source, place)
        else:
            what = f"{_where(source, place)}: {'.'.join(place)} is {_shown(value)}"
            raise SettingsError(what, f"it is a table: write [{'.'.join(place)}] and its keys below")


def _build(default: _S, values: Mapping[_Place, object], root: Path, above: _Place = ()) -> _S:
    """Put values into the tree of defaults; relative paths start at its root."""
    changes: dict[str, object] = {}
    for name in default.__struct_fields__:
        place = (*above, name)
        before = getattr(default, name)
        if isinstance(before, msgspec.Struct):
            after: object = _build(before, values, root, place)
        else:
            after = values.get(place, before)
            if isinstance(after, Path):
                after = root / after
        if after is not before:
            changes[name] = after
    return replace(default, **changes)


def _nearest(name: str, known: Iterable[str]) -> str:
    """Find the known name most like `name`, its last part counting as much as the whole."""
    import difflib  # only for messages

    def likeness(other: str) -> float:
        last = difflib.SequenceMatcher(None, name.rpartition(".")[2], other.rpartition(".")[2]).ratio()
        return last + difflib.SequenceMatcher(None, name, other).ratio()

    return max(known, key=likeness)


def _where(source: str, place: _Place) -> str:
    """Give "taskyard.toml:12" for a key, as near as the text shows it."""
    table: _Place = ()
    best = (0, 0)
    for number, line in enumerate(source.split("\n"), 1):
        if header := re.match(r"\s*\[\[?([^\[\]]+)\]", line):
            table = _names(header[1])
            here = table
        elif key := re.match(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*'|\s*\.\s*)+?)\s*=", line):
            here = table + _names(key[1])
        else:
            continue
        if here == place[: len(here)] and len(here) > best[0]:
            best = len(here), number
    return f"{FILE_NAME}:{best[1]}" if best[1] else FILE_NAME


def _names(dotted: str) -> _Place:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
