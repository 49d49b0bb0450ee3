"""What the files of a folder may hold."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from checks.tree import ROOT, modules, nodes
from foundation.parts import installed_parts


def dag_modules() -> list[str]:
    """The files that wire DAGs: those of Airflow's folder, and those of the parts."""
    dags = [dag for part in installed_parts() for dag in part.dags]
    names = {f"{dag.place.partition(':')[0].replace('.', '/')}.py" for dag in dags}
    of_parts = [file for file in modules("parts", "plugins") if file.removeprefix("plugins/") in names]
    assert len(of_parts) == len(names)
    return [*modules("dags"), *of_parts]


@pytest.mark.parametrize("file", dag_modules())
def test_a_dag_file_is_wiring_only(file: str) -> None:
    for node in nodes(file):
        assert not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda), (
            node.lineno
        )
        if isinstance(node, ast.ImportFrom):
            package = (node.module or "").split(".")[0]
            assert package in {"airflow", "lucid_airflow", "datetime", "parts"}, node.module
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= {"datetime"}
    module = nodes(file)[0]
    assert isinstance(module, ast.Module)
    assert ast.get_docstring(module)


def test_an_operator_takes_keywords_and_only_assigns_them() -> None:
    """Every template field is an argument of its own name, as Airflow wants it."""
    from lucid_airflow.operators import approval, profile_on_slurm, rest, step

    seen = 0
    for module in (approval, profile_on_slurm, rest, step):
        for name, operator in vars(module).items():
            if not (name.endswith("Operator") and getattr(operator, "__module__", "") == module.__name__):
                continue
            seen += 1
            signature = inspect.signature(inspect.unwrap(operator.__init__))
            kinds = {parameter.kind for key, parameter in signature.parameters.items() if key != "self"}
            assert kinds <= {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}, name
    assert seen >= 4
    for file in modules("plugins/lucid_airflow/operators"):
        for node in nodes(file):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                allowed = (ast.Assign, ast.AnnAssign, ast.Expr)
                assert all(isinstance(statement, allowed) for statement in node.body), f"{file}:{node.lineno}"


def test_the_folder_mlflow_hides_no_package() -> None:
    assert modules("mlflow") == []
    found = find_spec("mlflow")
    assert found is not None
    assert Path(str(found.origin)).parent != ROOT / "mlflow"


def test_a_module_defines_each_of_its_names_once() -> None:
    """A second constant of a name that is taken changes what the functions above it read."""
    twice = [
        f"{file}: {name}"
        for file in modules("foundation", "cluster_logs", "lucid_models", "simulator", "pipeline", "parts")
        for name, count in Counter(_defined(ast.parse((ROOT / file).read_text(encoding="utf-8")))).items()
        if count > 1
    ]
    assert twice == []


def _defined(module: ast.Module) -> Iterator[str]:
    """Functions, classes and constants of a module, each time that they are defined."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
