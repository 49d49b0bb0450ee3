"""A newcomer who follows "Add a part" in CONTRIBUTING.md: one folder and one entry point, and it is there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SECTION = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## Add a part\n")[1].split("\n## ")[0]
USE = """
import sys
from types import SimpleNamespace
import pandas as pd
from cluster_logs.lake import Lake
from foundation.parts import hooks
from foundation.site import Site
from lucid_models.catalogue import catalogue
from lucid_models.model_format import make_document
from lucid_models.scoring import scorer_from_document

lake = sys.argv[1]
times = pd.date_range("2026-03-01", periods=48, freq="h", tz="UTC")
Lake(lake).write_series("gpu_heat", "small", pd.DataFrame({"time": times, "celsius": 60.0 + times.hour}))
assert len(Lake(lake).read_series("gpu_heat", "small")) == 48
assert scorer_from_document(catalogue()["heat"].model.fit([3], [70.0]).to_data()).predict(3) == 70.0
(check,) = (check for part, check in hooks("gate_check") if part.name == "heat")
found = check.check(SimpleNamespace(site=Site(lake=lake))).constraints
print([(each.name, each.passed, each.sentence) for each in found])
"""
DAGS = """
from lucid_airflow.dags_of_parts import dags_of_parts
print(sorted(dags_of_parts()["announce_heat"].task_dict))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The folder of the part and the entry point that the page shows, as an installer leaves them."""
    shutil.copytree(HERE / "heat", tmp_path / "parts" / "heat")
    (entry_point,) = re.findall(r"^ *```toml\n(.*?)^ *```$", SECTION, re.DOTALL | re.MULTILINE)
    header, line = (each.strip() for each in entry_point.strip().splitlines())
    info = tmp_path / "heat-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: heat\nVersion: 1.0\n")
    group = header.removeprefix("[project.entry-points.").removesuffix("]").strip('"')
    (info / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    return tmp_path


def python(folder: Path, *words: str) -> str:
    path = os.pathsep.join([str(folder), str(ROOT), str(ROOT / "plugins")])
    home = {"AIRFLOW_HOME": str(folder / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, **home, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_page_shows_the_part_that_is_tried_here() -> None:
    (code,) = re.findall(r"^ *```python\n(.*?)^ *```$", SECTION, re.DOTALL | re.MULTILINE)
    assert code == (HERE / "heat" / "part.py").read_text("utf-8")


@pytest.mark.slow
def test_its_table_its_model_its_gate_check_its_command_and_its_dag_are_there(installed: Path) -> None:
    lake = str(installed / "lake")
    told = python(installed, "-c", USE, lake)
    assert told.strip() == "[('gpu_heat', True, 'The hottest GPU had 83 degrees, of at most 85.')]"
    assert "Say how hot a cluster's GPUs are" in python(installed, "-m", "lucid_cli.main", "--help")
    said = python(installed, "-m", "lucid_cli.main", "heat", lake, "small", "5")
    assert said.strip() == "65.0 degrees Celsius at 5 h"
    assert python(installed, "-c", DAGS).strip().endswith("['announce_heat']")
