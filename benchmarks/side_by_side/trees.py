"""Trees of this project to measure: the one at hand, and an older revision beside it."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.side_by_side.measured import Run, run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Tree:
    """A checkout, and what it is called in the table."""

    name: str
    folder: Path

    @property
    def revision(self) -> str:
        """Its commit and the commit's date; `+` where files differ from it."""
        said = _git(self.folder, "log", "-1", "--format=%h of %cs")
        changed = _git(self.folder, "status", "--porcelain", "--untracked-files=no")
        return said + ("+" if changed else "")

    def python(self, *words: str | Path, folder: Path, settings: Mapping[str, str] | None = None) -> Run:
        """Run Python with this tree's packages, whatever is installed."""
        path = f"{self.folder}:{self.folder / 'plugins'}"
        return run(
            [sys.executable, "-P", *words],
            folder=folder,
            environment={"PYTHONPATH": path, "LUCID_STATE_DIR": str(folder / "state"), **(settings or {})},
        )

    def lucid(self, *words: str | Path, folder: Path, settings: Mapping[str, str] | None = None) -> Run:
        """Run a command of this tree's `lucid`."""
        return self.python("-m", "lucid_cli", *words, folder=folder, settings=settings)


@contextmanager
def older_tree(revision: str) -> Iterator[Tree | None]:
    """Check a revision out for as long as the block runs; None, said on standard error, where it is not."""
    with tempfile.TemporaryDirectory(prefix="lucid-before-") as scratch:
        folder = Path(scratch) / "tree"
        try:
            _git(ROOT, "worktree", "add", "--quiet", "--detach", str(folder), revision)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or str(error)
            print(f"Nothing is measured beside today's: {said.strip()}", file=sys.stderr)
            yield None
            return
        try:
            yield Tree("before", folder)
        finally:
            _git(ROOT, "worktree", "remove", "--force", str(folder))


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words], check=True, capture_output=True, text=True
    ).stdout.strip()
