"""A real repository with a bare remote that counts its pushes, for tests."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SampleRepository:
    """A checkout at `path` whose `origin` is the bare repository at `remote`."""

    path: Path
    remote: Path

    def git(self, *args: str, at: Path | None = None) -> str:
        """Run git in the checkout (or `at`) and return its output without the last newline."""
        done = subprocess.run(["git", "-C", str(at or self.path), *args], capture_output=True, text=True)
        assert done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def write(self, files: Mapping[str, str]) -> None:
        """Write files of the checkout; line ends stay as given."""
        for name, text in files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, newline="")

    def commit(self, message: str, files: Mapping[str, str] | None = None) -> str:
        """Write `files`, commit everything, and return the commit id."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def pushes(self, branch: str = "main") -> int:
        """How often `branch` of the remote was moved, its creation included."""
        log = self.remote / "logs" / "refs" / "heads" / branch
        return len(log.read_text().splitlines()) if log.exists() else 0


def make_sample_repository(path: Path, files: Mapping[str, str]) -> SampleRepository:
    """Make the checkout, its first commit on `main`, and the bare remote beside it that it was pushed to."""
    remote = path.with_name(path.name + ".git")
    made = SampleRepository(path, remote)
    path.mkdir(parents=True)
    made.git("init", "--quiet", "--initial-branch=main")
    made.git("init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    made.git("config", "core.logAllRefUpdates", "always", at=remote)
    made.git("remote", "add", "origin", str(remote))
    made.commit("Begin", files)
    made.git("push", "--quiet", "--set-upstream", "origin", "main")
    return made
