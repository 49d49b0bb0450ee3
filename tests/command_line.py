"""Running `lucid` as its users do: arguments in; exit code, standard output and standard error out."""

import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Lucid = Callable[..., Said]


def exit_code(words: tuple[str | Path, ...]) -> int:
    """Run the program to its end in this process."""
    from lucid_cli.main import main  # for tests of commands alone

    with patch.object(sys, "argv", ["lucid", *map(str, words)]):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


@pytest.fixture
def lucid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Lucid:
    """Run the program in an empty folder, without any setting from outside."""
    for name in ("LUCID_LAKE_URI", "LUCID_TRACKING_URI", "LUCID_STATE_DIR", "LUCID_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*words: str | Path) -> Said:
        capfd.readouterr()
        code = exit_code(words)
        return Said(code, *capfd.readouterr())

    return run


class Shell:
    """Runs `lucid` in one folder, command after command, with nothing set from outside.

    For fixtures of any scope; what the program keeps for itself lies below the folder.
    """

    def __init__(self, folder: Path, tracking_uri: str, **settings: str) -> None:
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LUCID_")}
        self.environment = inherited | {
            "LUCID_TRUST": "unsigned",
            "LUCID_TRACKING_URI": tracking_uri,
            "LUCID_STATE_DIR": str(folder / "state"),
            **settings,
        }

    def run(self, *words: str | Path) -> Said:
        """Run a command to its end, whatever its exit code."""
        out, err = io.StringIO(), io.StringIO()
        with ExitStack() as during:
            during.enter_context(patch.dict(os.environ, self.environment, clear=True))
            during.enter_context(chdir(self.folder))
            during.enter_context(redirect_stdout(out))
            during.enter_context(redirect_stderr(err))
            code = exit_code(words)
        return Said(code, out.getvalue(), err.getvalue())

    def document(self, *words: str | Path) -> Any:
        """What a command that succeeds says with --json: one document, and nothing else."""
        said = self.run(*words, "--json")
        assert said.code == 0, said.err
        return said.json
