"""The names that each package keeps: a name that goes, or moves to another package, is a breaking change.

A new one is added to public_names.txt and to the package's docstring; what goes is said in CHANGELOG.md.
"""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

KEPT: dict[str, list[str]] = {}
for line in Path(__file__).with_name("public_names.txt").read_text(encoding="utf-8").split():
    KEPT.setdefault(line.partition(".")[0], []).append(line.partition(".")[2])
# What takes long to import, or is not there in a light installation.
HEAVY = (
    *("airflow", "fastapi", "fsspec", "great_expectations", "httpx", "interpret", "matplotlib"),
    *("mlflow", "numpy", "onnx", "optuna", "pandas", "pyarrow", "pydantic", "scipy", "sklearn", "torch"),
    *("typer", "yaml"),
)


@pytest.mark.parametrize("package", KEPT)
def test_the_names_are_those_that_are_kept(package: str) -> None:
    assert importlib.import_module(package).__all__ == KEPT[package]


@pytest.mark.parametrize("package", KEPT)
def test_every_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert dir(module) == module.__all__


def test_importing_a_package_imports_no_library() -> None:
    code = f"import sys, {', '.join(KEPT)}; print(*({set(HEAVY)!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_star_imports_the_names_that_are_kept() -> None:
    names: dict[str, object] = {}
    exec("from live_scheduler import *", names)
    assert names.keys() - {"__builtins__"} == set(KEPT["live_scheduler"])


def test_a_name_that_is_not_kept_is_an_attribute_error() -> None:
    import simulator

    with pytest.raises(AttributeError, match="'simulator' has no attribute 'nothing'"):
        _ = simulator.nothing
    with pytest.raises(ImportError):
        exec("from simulator import nothing")
