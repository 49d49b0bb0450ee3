"""Which code made a model: the distribution's version, and the commit when it runs from a checkout."""

import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@dataclass(frozen=True)
class CodeVersion:
    """`commit` is None outside of a checkout; `modified` says that files differ from it."""

    distribution: str
    commit: str | None
    modified: bool

    @property
    def text(self) -> str:
        """For people: `0.1.0`, `0.1.0+5b6aaab`, `0.1.0+5b6aaab-modified`."""
        if self.commit is None:
            return self.distribution
        return f"{self.distribution}+{self.commit[:12]}{'-modified' if self.modified else ''}"


@cache
def code_version() -> CodeVersion:
    """The version of the code that is running; never raises."""
    try:
        distribution = version("lucid-mlops")
    except PackageNotFoundError:
        distribution = "unknown"
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        # An installed copy may lie inside another repository, whose commit would be wrong.
        return CodeVersion(distribution, None, False)
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return CodeVersion(distribution, commit, bool(status))


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
