"""Where a result comes from: inputs by hash, versions, seeds, commit, machine and command."""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

FORMAT_VERSION = 1
PACKAGES = (
    "lucid-mlops",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "interpret-core",
    "mlflow",
    "apache-airflow",
    "great-expectations",
)


def frame_sha256(frame: pd.DataFrame) -> str:
    """sha256 (hex) of a table's column names, in order, and its values, row by row."""
    digest = hashlib.sha256("\x1f".join(map(str, frame.columns)).encode())
    if len(frame):
        digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def run_manifest(
    *, inputs: Mapping[str, Any], seeds: Mapping[str, int], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The manifest of this run; `inputs` names each input and its sha256, with what else identifies it."""
    return {
        "format_version": FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "inputs": dict(inputs),
        "seeds": dict(seeds),
        "settings": dict(settings),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "code": git_commit(Path(__file__).resolve().parent),
        "packages": {name: _version(name) for name in PACKAGES},
        "environment": {
            "python": platform.python_version(),
            "system": platform.system(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
    }


def git_commit(folder: Path) -> dict[str, Any]:
    """The commit of the checkout that holds `folder` and whether files differ from it; else nulls.

    Pages in docs/ do not count: they change no result, and some are what is being written.
    """

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    outside_docs = (":(top)", ":(top,exclude)docs")
    changes = git("status", "--porcelain", "--untracked-files=no", "--", *outside_docs) if commit else None
    return {"git_commit": commit, "changed_files": None if changes is None else bool(changes)}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
