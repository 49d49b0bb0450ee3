"""Whoever follows CONTRIBUTING.md, "Add a log reader", to the letter gets a reader that all parts know."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.thorough("a copy of the tree is changed as CONTRIBUTING says")]

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Add a log reader\n")[1]
SECTION = SECTION.split("\n## ")[0]


def block(language: str) -> str:
    (text,) = re.findall(rf"^ *```{language}\n(.*?)^ *```$", SECTION, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(text)


def line(pattern: str) -> str:
    (text,) = re.findall(rf"`({pattern})`", SECTION)
    return str(text)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree in which the page's steps were taken, and nothing else."""
    copy = tmp_path_factory.mktemp("tree")
    packages = [file.parent for file in ROOT.glob("*/__init__.py")]
    others = [ROOT / name for name in ("experiments", "parts", "plugins", "dags", "tests")]
    for folder in (*packages, *others):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, copy / folder.name, ignore=ignored, dirs_exist_ok=True)
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, copy)
    (copy / "cluster_logs/readers/ledger.py").write_text(block("python"), encoding="utf-8")
    (copy / line(r"tests/cluster_logs/data/[\w.]+")).write_text(block("csv"), encoding="utf-8")
    for path, table, entry in (
        (line(r"cluster_logs/readers/registry\.py"), "CLUSTER_LOGS", line(r'"ledger": "[^`]+')),
        (line(r"tests/cluster_logs/test_readers_\w+\.py"), "EXPECTED", line(r'"ledger": \([^`]+')),
    ):
        text = (copy / path).read_text(encoding="utf-8")
        begun = re.search(rf"^{table}\b.*\n", text, re.MULTILINE)
        assert begun
        (copy / path).write_text(f"{text[: begun.end()]}    {entry}\n{text[begun.end() :]}", encoding="utf-8")
    return copy


def python(tree: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the copy, which comes before the packages that are installed."""
    path = os.pathsep.join([str(tree), str(tree / "plugins")])
    return subprocess.run(
        [sys.executable, *args],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "AIRFLOW_HOME": str(tree / "airflow")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def ingest(tree: Path, source_format: str, lake: str) -> subprocess.CompletedProcess[str]:
    sample = str(tree / "tests/cluster_logs/data/ledger.csv")
    where = ("--input", sample, "--cluster", "ours", "--lake", str(tree / lake))
    return python(tree, "-m", "lucid_cli.main", "ingest", "--format", source_format, *where, "--json")


def test_the_command_reads_the_sample(tree: Path) -> None:
    done = ingest(tree, "ledger", "lake")
    assert done.returncode == 0, done.stderr
    account = json.loads(done.stdout)
    assert (account["rows_in"], account["rows_kept"]) == (4, 2)
    assert account["reasons"] == {"end_before_start": 1, "unknown_state": 1}
    assert account["first_submit"] == "2020-09-13T12:26:40+00:00"


def test_a_log_that_is_read_in_a_wrong_format_looks_like_it(tree: Path) -> None:
    done = ingest(tree, "helios", "other")
    assert done.returncode == 1
    assert "It looks like ledger: give that as --format." in done.stderr


def test_the_form_offers_it_and_the_help_names_it(tree: Path) -> None:
    script = """
import runpy
form = runpy.run_path("dags/ingest_logs.py")["dag"].params.get_param("source_format")
print(*form.schema["enum"])
"""
    done = python(tree, "-c", script)
    assert done.returncode == 0, done.stderr
    assert "ledger" in done.stdout.split()
    assert "ledger" in python(tree, "-m", "lucid_cli.main", "ingest", "--help").stdout


def test_the_tests_of_all_readers_run_over_it(tree: Path) -> None:
    files = [f"tests/cluster_logs/test_readers_{what}.py" for what in ("conformance", "guessing")]
    done = python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "ledger or case", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed.group(1)) >= 15
