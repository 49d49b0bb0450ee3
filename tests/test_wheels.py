"""What is installed from a wheel is all there: `pip install .`, `./parts/NAME` and `./experiments`."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.wheels import ROOT, build_wheel, tracked

NOT_INSTALLED = re.compile(
    r"experiments/(pyproject\.toml|setup\.py)|parts/\w+/(tests/.*|pyproject\.toml|\w+\.md)"
)
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
    """All wheels, unpacked side by side."""
    wheels, site = (tmp_path_factory.mktemp(name) for name in ("wheels", "site"))
    parts = sorted(path.parent for path in ROOT.glob("parts/*/pyproject.toml"))
    for project in (ROOT, *parts, ROOT / "experiments"):
        with zipfile.ZipFile(build_wheel(project, wheels)) as file:
            file.extractall(site)
    return site


def test_every_file_of_a_package_is_in_its_wheel(installed):
    files = {name.removeprefix("plugins/") for name in tracked() if "/" in name}
    wanted = {name for name in files if not NOT_INSTALLED.fullmatch(name)}
    assert not [name for name in wanted if not (installed / name).exists()]


@pytest.mark.thorough("the experiments")
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
