"""The prompts of the roles: built in, or the repository's own, whose edits are picked up while a run goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.errors import TemplateError
from engine.regular import read_regular_text
from engine.templates import TemplateEngine

SUFFIX = ".md.j2"
BUILT_IN = Path(__file__).parent / "prompts"


class Refreshed(msgspec.Struct, frozen=True):
    """What a look at the prompt files found: the prompts that changed, and what is wrong with others."""

    changed: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class PromptLibrary:
    """The prompts by name, each from the repository's own file where there is one, else the built-in.

        prompts = PromptLibrary(TemplateEngine(), overrides=repository / ".taskyard" / "prompts")
        prompts.load()
        prompts.render("judge_task", task=task, diff=diff, ...)

    `overrides` may not exist; `refresh()` picks up what was edited, added or removed there since.
    """

    def __init__(
        self, engine: TemplateEngine, *, overrides: Path | None = None, built_in: Path = BUILT_IN
    ) -> None:
        self.engine = engine
        self.overrides = overrides
        self._built_in = built_in
        self._seen: dict[str, tuple[Path, int, int, int]] = {}

    @property
    def overridden(self) -> tuple[str, ...]:
        """The names of the prompts that come from the repository."""
        return tuple(sorted(_files(self.overrides)))

    def load(self) -> None:
        """Compile every prompt. Raises `TemplateError` for the first that does not compile."""
        self._seen.clear()
        for name, file in self._files().items():
            self._compile(name, file)

    def refresh(self) -> Refreshed:
        """Compile what changed on disk. Of a prompt that does not compile the last good version stays in use."""
        changed = []
        problems = []
        files = self._files()
        for name, file in files.items():
            try:
                if self._compile(name, file):
                    changed.append(name)
            except TemplateError as error:
                problems.append(str(error))
        for name in self._seen.keys() - files.keys():
            del self._seen[name]
            self.engine.remove(name)
            changed.append(name)
        return Refreshed(tuple(sorted(changed)), tuple(problems))

    def texts(self) -> dict[str, str]:
        """Give the text of every prompt in use, by name."""
        return {name: self.engine.text(name) for name in self.engine.names()}

    def render(self, name: str, /, **variables: object) -> str:
        """Render a prompt. Raises `TemplateError` naming file, line and what is missing."""
        return self.engine.render(name, **variables)

    def _files(self) -> dict[str, Path]:
        return _files(self._built_in) | _files(self.overrides)

    def _compile(self, name: str, file: Path) -> bool:
        """Compile a prompt if its file is not the one seen last; a broken file is told once, not at every look."""
        try:
            status = file.stat()
            stamp = (file, status.st_mtime_ns, status.st_size, status.st_ino)
            if self._seen.get(name) == stamp:
                return False
            text = read_regular_text(file, "utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(
                f"{file} cannot be read ({error})", "make it a readable UTF-8 file"
            ) from error
        self._seen[name] = stamp
        return self.engine.compile(name, text, str(file))


def _files(folder: Path | None) -> dict[str, Path]:
    found = sorted(folder.glob(f"*{SUFFIX}")) if folder else []
    return {file.name.removesuffix(SUFFIX): file for file in found}
