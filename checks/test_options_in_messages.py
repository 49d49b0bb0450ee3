"""Options that messages name are options of the command that they name, or of some command at all."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
import typer

from checks.tree import FOLDERS, modules, nodes
from lucid_cli.main import app

# Of modules of models, which several commands reach: the one whose options a message may name without it.
OF_ONE_COMMAND = {
    "parts/waits/model/evaluation.py": "evaluate waits",
    "parts/horus/onnx_graph.py": "predict-profile",
    "lucid_models/releases/only_cluster.py": "release",
}
OPTION = re.compile(r"(?<![\w\"-])--[a-z][a-z-]+")
COMMAND = re.compile(r"\blucid((?: (?:[a-z][a-z0-9-]*|\.\.\.))+)((?:[^`.;]|\.(?! ))*)")
# Programs of others that messages give options of.
OTHERS = re.compile(
    r"\b(sacct|sacctmgr|scontrol|sinfo|squeue|sbatch|mlflow|airflow|uv|pip|git|kubectl|python3?|uvicorn|slurm\w*|"
    r"nvidia-smi|promtool|docker|srun|make|MLflow|server)\b"
)


@cache
def options() -> dict[str, frozenset[str]]:
    """The options of each command; of a group those of all below it."""
    found: dict[str, frozenset[str]] = {}

    def walk(command: object, path: str) -> frozenset[str]:
        own = frozenset(
            option
            for parameter in getattr(command, "params", ())
            for option in (*parameter.opts, *parameter.secondary_opts)
        )
        for name, child in getattr(command, "commands", {}).items():
            own |= walk(child, f"{path} {name}".strip())
        found[path] = own | {"--help"}
        return found[path]

    walk(typer.main.get_command(app), "")
    return found


def messages(code: tuple[ast.AST, ...]) -> Iterator[tuple[int, str]]:
    """Texts of code that name an option, but docstrings; what is put into them stands as {}."""
    prose = {
        id(node.value) for node in code if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    inner = {id(part) for node in code if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in code:
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner | prose:
            text = node.value
        else:
            continue
        if " " in text and OPTION.search(text):
            yield node.lineno, text


@cache
def declared() -> frozenset[str]:
    """Options that stand alone somewhere: of programs of ours beside `lucid`, and of those that we call."""
    return frozenset(
        node.value.partition("=")[0]
        for name in modules(*FOLDERS)
        for node in nodes(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and OPTION.match(node.value)
    )


def lacking(text: str) -> Iterator[str]:
    """What a message says of options that no command has."""
    for words, rest in COMMAND.findall(text):
        path = words.replace("...", "").split()
        while path and " ".join(path) not in options():
            path.pop()
        if path:  # else another program of ours, or prose
            for option in OPTION.findall(rest):
                if option not in options()[" ".join(path)]:
                    yield f"lucid {' '.join(path)} {option}"
    if not OTHERS.search(text):
        every = declared().union(*options().values())
        yield from (option for option in OPTION.findall(text) if option not in every)


@pytest.mark.parametrize("folder", FOLDERS)
def test_messages_name_options_that_there_are(folder: str) -> None:
    wrong = [
        f"{name}:{line}: {option}"
        for name in modules(folder)
        for line, text in messages(nodes(name))
        for option in lacking(text)
    ]
    assert wrong == []


def test_models_name_a_command_with_an_option() -> None:
    """A message of theirs was once told by a command that lacked the option (`train duration`)."""
    for place in modules("lucid_models"):
        for line, text in messages(nodes(place)):
            if COMMAND.search(text) or OTHERS.search(text) or "{}" in OPTION.split(text)[0]:
                continue
            assert place in OF_ONE_COMMAND, f"{place}:{line}: {text}"
            assert set(OPTION.findall(text)) <= options()[OF_ONE_COMMAND[place]], f"{place}:{line}: {text}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Use `lucid train duration --train-days 3`.", ["lucid train duration --train-days"]),
        ("Use `lucid train ... --hold-out-days 3`.", []),
        ("Choose --such-a-thing within the log.", ["--such-a-thing"]),
        ("Export it by sacct --parsable2.", []),
    ],
)
def test_an_option_that_a_command_lacks_is_found(text: str, says: list[str]) -> None:
    assert list(lacking(text)) == says
