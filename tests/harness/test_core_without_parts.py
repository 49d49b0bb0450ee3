"""With parts/ removed the core is whole: its commands run, its tests pass, and what is lacking is named. With
one part added the part's tests pass.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Editable installations lead to this checkout, parts and all.
SITE = """
import sys
sys.meta_path = [each for each in sys.meta_path if "__editable__" not in str(getattr(each, "__module__", ""))]
sys.path = [each for each in sys.path if "__editable__" not in each]
"""
# Of each layer what knows of parts.
TESTS = (
    "tests/foundation",
    "tests/simulator/test_policies_conformance.py",
    "tests/simulator/test_policies_golden.py",
    "tests/simulator/test_companions.py",
    "tests/simulator/test_workers.py",
    "tests/live_scheduler/test_adapters.py",
    "tests/live_scheduler/test_capability.py",
    "tests/live_scheduler/test_decision_maker.py",
    "tests/pipeline/overview/test_release_contents.py",
    "tests/pipeline/overview/test_what_if_form.py",
    "tests/pipeline/planning/test_capacity_plan.py",
    "tests/pipeline/planning/test_planned_parts.py",
    "tests/pipeline/release/test_release_settings.py",
    "tests/pipeline/training/test_training_plan.py",
    "tests/pipeline/validation/test_release_validation.py",
    "tests/lucid_cli/test_part_options.py",
    "tests/dags/test_dag_policies.py",
)

PARTS = sorted(path.parent.name for path in ROOT.glob("parts/*/part.py"))


def copy_tracked(copy: Path, *folders: str, without: tuple[str, ...] = ()) -> None:
    """Copy what is tracked in these folders, or in all, into another folder."""
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in listed.splitlines():
        if not name.startswith(without) and (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is tracked, without parts/."""
    copy = tmp_path_factory.mktemp("core")
    copy_tracked(copy, without=("parts/", "docs/"))
    (copy / "sitecustomize.py").write_text(SITE)
    return copy


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another, without the part that the experiments are: their policies need parts of their own."""
    copy = tmp_path_factory.mktemp("alone")
    copy_tracked(copy, without=("parts/", "docs/", "experiments/part.py"))
    (copy / "sitecustomize.py").write_text(SITE)
    return copy


def python(core: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(core), str(core / "plugins")])
    return subprocess.run(
        [sys.executable, *words],
        cwd=core,
        env={**os.environ, "PYTHONPATH": path, "AIRFLOW_HOME": str(core / "airflow"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.mark.slow
def test_a_replay_runs_and_what_is_lacking_is_named(core: Path) -> None:
    log = ("--jobs", "tests/cluster_logs/data/philly-csv.csv", "--format", "philly-csv", "--gpus", "64")
    replay = (*("-m", "lucid_cli.main", "simulate"), *log, "--out", str(core / "out"), "--policy")
    done = python(core, *replay, "fifo", "easy")
    assert done.returncode == 0, done.stderr
    for policy, part in (("pcs", "elastic"), ("lyra", "lending"), ("horus", "horus")):
        done = python(core, *replay, policy)
        assert done.returncode == 1
        assert f"belongs to the part '{part}'" in done.stderr
        assert f"pip install ./parts/{part}" in done.stderr


QUICK = ("-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tests", [TESTS, ("tests/lucid_models", "--tier=quick")], ids=["parts", "models"])
def test_tests_of_the_core_pass(core: Path, tests: tuple[str, ...]) -> None:
    done = python(core, "-m", "pytest", *QUICK, *tests)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", PARTS)
def test_tests_of_a_part_pass_where_it_is_alone(alone: Path, part: str) -> None:
    shutil.rmtree(alone / "parts", ignore_errors=True)
    copy_tracked(alone, f"parts/{part}")
    done = python(alone, "-m", "pytest", *QUICK, f"parts/{part}/tests")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
