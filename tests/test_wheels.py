"""What is installed from a wheel is all there: `pip install .` and `pip install ./experiments`."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    *("foundation", "cluster_logs", "profiler_jobs", "lucid_models", "simulator", "live_scheduler"),
    *("local_stack", "pipeline", "lucid_cli", "plugins/lucid_airflow", "experiments"),
)
NOT_INSTALLED = {"experiments/pyproject.toml", "experiments/setup.py"}
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
# From the wheel, beside the product as it is here: the tree's modules are imported by all other tests.
IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(root), *sys.argv[2:]]
for path in sorted(root.glob("experiments/**/*.py")):
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    try:
        found = importlib.import_module(name).__file__
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("torch", "onnx_ir"):  # optional
            continue
        raise
    assert found == str(path), found
print("all imported")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Both wheels, built from a copy of what is tracked, and unpacked side by side."""
    source, wheels, site = (tmp_path_factory.mktemp(name) for name in ("source", "wheels", "site"))
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    for project in (source, source / "experiments"):
        subprocess.run(
            [sys.executable, "-c", BUILD, wheels], cwd=project, check=True, capture_output=True, timeout=120
        )
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(site)
    return site


def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "pyproject.toml", "README.md", *PACKAGES],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]


def test_every_file_of_a_package_is_in_its_wheel(installed):
    files = {name.removeprefix("plugins/") for name in tracked() if "/" in name} - NOT_INSTALLED
    assert not [name for name in files if not (installed / name).exists()]


@pytest.mark.slow
def test_every_module_of_the_experiments_is_imported_from_their_wheel(installed, tmp_path):
    shutil.copytree(installed / "experiments", tmp_path / "experiments")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, tmp_path, ROOT, ROOT / "plugins"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.endswith("all imported\n"), done.stderr[-2000:]
