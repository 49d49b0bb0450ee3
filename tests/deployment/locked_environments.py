"""Environments with some of our extras, from the wheel and the hashed lock, as on a scheduler's machine."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from uv import find_uv_bin

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_PIN = re.compile(r"^([\w.-]+)==\S+ \\\n(?:    --hash=\S+(?: \\)?\n)+", re.MULTILINE)


def declared(extras: Iterable[str] = ()) -> list[Requirement]:
    """What the light client needs, and what these extras add; extras of ours are opened."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = []
    for requirement in map(Requirement, lines):
        found += declared(requirement.extras) if requirement.name == PROJECT["name"] else [requirement]
    return found


def distributions(extras: Iterable[str] = ()) -> set[str]:
    """The distributions that an installation with these extras has, as those here depend on another."""
    seen: set[tuple[str, frozenset[str]]] = set()
    pending = declared(extras)
    while pending:
        requirement = pending.pop()
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if key in seen:
            continue
        seen.add(key)
        for each in map(Requirement, requires(requirement.name) or []):
            wanted = [{"extra": extra} for extra in requirement.extras or {""}]
            if each.marker is None or any(each.marker.evaluate(extra) for extra in wanted):
                pending.append(each)
    return {name for name, _ in seen}


@dataclass(frozen=True)
class Installation:
    """An environment of its own."""

    folder: Path

    def run(self, *command: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a program of the environment; nothing of this process' environment is seen but the locale."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=cwd,
            env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), "LANG": "C.UTF-8", **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )


def install(wheel: Path, folder: Path, extras: Iterable[str] = ()) -> Installation:
    """Install the wheel beside what the lock has of its extras; skips where nothing supplies that."""
    wanted = distributions(extras)
    pins = {
        match[1]: match[0]
        for match in _PIN.finditer((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    }
    lock = folder.with_suffix(".lock")
    lock.write_text("".join(pins[name] for name in sorted(wanted)), encoding="utf-8")
    _uv("venv", "--python", sys.executable, folder)
    locked = ("pip", "install", "--python", folder, "--require-hashes", "--requirement", lock)
    try:
        _uv(*locked, "--offline")  # what `make install` left in uv's cache
    except subprocess.CalledProcessError:
        try:
            _uv(*locked)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no package index and no cache has the locked distributions: {error.stderr[-300:]}")
    _uv("pip", "install", "--python", folder, "--no-deps", "--offline", wheel)
    return Installation(folder)


def install_image(wheels: Sequence[Path], folder: Path, name: str) -> Path:
    """Install wheels beside an image's own lock; returns the folder of its programs."""
    _uv("venv", "--python", sys.executable, folder)
    lock = ROOT / "docker" / f"requirements-{name}.lock"
    try:
        _uv("pip", "install", "--python", folder, "--require-hashes", "--requirement", lock)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no package index has the image's distributions: {error.stderr[-300:]}")
    _uv("pip", "install", "--python", folder, "--no-deps", "--offline", *wheels)
    return folder / "bin"


def _uv(*words: object) -> None:
    command = [find_uv_bin(), *map(str, words)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
