"""The scripts of findings/ have the form that its README states; `make findings` runs them, no test does."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from checks.tree import ROOT

SCRIPTS = sorted((ROOT / "findings").glob("*.sh"))
STATED = ("Guess:", "Seen:", "Means:", "Version:")
PACKAGES = "cluster_logs foundation lucid_\\w+ mlflow_access pipeline simulator live_scheduler profiler_jobs"
PRODUCT = "|".join((*PACKAGES.split(), "local_stack"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_finding_is_standalone_and_states_what_was_guessed_and_seen(script: Path) -> None:
    text = script.read_text()
    assert os.access(script, os.X_OK)
    comment = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    assert [word for word in STATED if f"# {word}" not in comment] == []
    assert re.findall(r"https?://|/(?:work|root|home)/", text) == []
    assert re.findall(rf"\b(?:import|from) (?:{PRODUCT})\b", text) == []
    assert re.findall(r"(?<!# )apt(?:-get)? install", text) == []


@pytest.mark.parametrize(
    ("code", "status", "said"), [(0, 0, ""), (77, 0, "skipped"), (1, 2, "FAILED")], ids=str
)
def test_a_finding_that_changed_fails_the_run_and_a_skipped_one_does_not(
    code: int, status: int, said: str, tmp_path: Path
) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    folder = tmp_path / "findings"
    folder.mkdir()
    for name, ends in (("a", code), ("b", 0)):
        script = folder / f"{name}.sh"
        script.write_text(f"#!/bin/sh\necho ran {name}\nexit {ends}\n")
        script.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    made = subprocess.run(["make", "findings"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == status
    assert said in made.stdout
    assert "ran b" in made.stdout


def test_the_findings_are_outside_of_what_every_change_runs() -> None:
    assert "findings" not in (ROOT / ".ci" / "run").read_text()
