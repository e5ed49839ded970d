"""The tools of the Implementer's loop: their schemas for the model, and the doing of one call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from engine.llm.blocks import Tool, ToolResult, ToolUse
from engine.llm.schemas import json_schema
from engine.roles.workspace import RefusedError, Workspace


class ListFiles(msgspec.Struct, frozen=True, tag="list_files", tag_field="tool"):
    """List the files under a folder (`.` for all), without what git ignores."""

    path: str = "."


class ReadFile(msgspec.Struct, frozen=True, tag="read_file", tag_field="tool"):
    """Read a text file whole."""

    path: str


class Search(msgspec.Struct, frozen=True, tag="search", tag_field="tool"):
    """Find the lines that match an extended regular expression, under a folder or in a file (`.` for all)."""

    pattern: str
    path: str = "."


class WriteFile(msgspec.Struct, frozen=True, tag="write_file", tag_field="tool"):
    """Make a file hold exactly this content; the file and its folders are made as needed."""

    path: str
    content: str


class EditFile(msgspec.Struct, frozen=True, tag="edit_file", tag_field="tool"):
    """Replace `old`, which must occur in the file exactly once, by `new`."""

    path: str
    old: str
    new: str


class RunCheck(msgspec.Struct, frozen=True, tag="run_check", tag_field="tool"):
    """Run the task's verification command and give its exit status and the end of its output."""


Call = ListFiles | ReadFile | Search | WriteFile | EditFile | RunCheck

_TYPES: tuple[type[Call], ...] = (ListFiles, ReadFile, Search, WriteFile, EditFile, RunCheck)
_BY_NAME: dict[str, type[Call]] = {str(kind.__struct_config__.tag): kind for kind in _TYPES}


def tool_definitions() -> tuple[Tool, ...]:
    """Give the tools as the model sees them, in a fixed order: a prompt cache needs the same bytes each time."""
    return tuple(
        Tool(name, (kind.__doc__ or "").strip(), _schema(kind)) for name, kind in sorted(_BY_NAME.items())
    )


def _schema(kind: type) -> str:
    """The schema without the tag: the tool's name already says which it is."""
    schema = msgspec.json.decode(json_schema(kind))
    schema["properties"].pop("tool", None)
    schema["required"] = [name for name in schema["required"] if name != "tool"]
    schema.pop("description", None)
    return msgspec.json.encode(schema, order="sorted").decode()


class Tools:
    """Do tool calls in one workspace. `check` runs the verification and gives its report."""

    def __init__(
        self, workspace: Workspace, check: Callable[[], Awaitable[str]], progress: Callable[[str], None]
    ) -> None:
        self._workspace = workspace
        self._check = check
        self._progress = progress

    async def use(self, use: ToolUse) -> ToolResult:
        """Do one call. Whatever is wrong with it becomes an error result that the model can read."""
        kind = _BY_NAME.get(use.name)
        if kind is None:
            return ToolResult(
                use.id, f"there is no tool {use.name!r}; there are {', '.join(sorted(_BY_NAME))}", True
            )
        try:
            call = use.decode(kind)
        except (msgspec.DecodeError, ValueError) as error:
            return ToolResult(use.id, f"the input does not fit: {error}", True)
        try:
            return ToolResult(use.id, await self._do(call) or "(empty)")
        except RefusedError as error:
            return ToolResult(use.id, str(error), True)

    async def _do(self, call: Call) -> str:
        match call:
            case ListFiles(path):
                self._progress(f"list {path}")
                return await self._workspace.list(path)
            case ReadFile(path):
                self._progress(f"read {path}")
                await self._workspace.bring(path)
                text = self._workspace.read(path)
                if text is None:
                    raise RefusedError(f"{path!r} does not exist")
                return text
            case Search(pattern, path):
                self._progress(f"search {pattern}")
                return await self._workspace.search(pattern, path)
            case WriteFile(path, content):
                self._progress(f"write {path}")
                self._workspace.write(path, content)
                return f"{path} is written"
            case EditFile(path, old, new):
                self._progress(f"edit {path}")
                await self._workspace.bring(path)
                self._workspace.edit(path, old, new)
                return f"{path} is edited"
            case RunCheck():
                self._progress("run the check")
                return await self._check()
