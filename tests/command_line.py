"""Running `lucid` as its users do: arguments in; exit code, standard output and standard error out."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@pytest.fixture
def lucid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Lucid:
    """Run the program in an empty folder, without any setting from outside."""
    for name in ("LUCID_LAKE_URI", "LUCID_TRACKING_URI", "LUCID_STATE_DIR", "LUCID_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    from lucid_cli.main import main  # for tests of commands alone

    def run(*arguments: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["lucid", *map(str, arguments)])
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return run
