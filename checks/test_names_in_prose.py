"""Every module, file and command that prose names exists: in docs, in docstrings, in comments."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import typer

from checks.tree import ROOT, nodes, tracked
from lucid_cli.main import app

PACKAGES = (
    *("parts", "foundation", "cluster_logs", "profiler_jobs", "lucid_models", "simulator", "live_scheduler"),
    *(
        "local_stack",
        "mlflow_access",
        "pipeline",
        "lucid_cli",
        "lucid_airflow",
        "experiments",
        "benchmarks",
        "tests",
        "checks",
    ),
)
# History keeps the names of its day.
HISTORY = ("CHANGELOG.md", "docs/decisions/")
# Files that are not ours: what runs write, what users and other systems have.
OTHERS = re.compile(
    r"^(?:gpu_?check|slurm|sim|app|main|train|my_\w+|(?:.*/)?(?:widest_first|response_ratio|ledger)|jobs_file)\.py$"
)
_FILE = re.compile(r"(?<![\w/.*{<-])((?:[\w-]+/)*\w+\.py)\b(?![\w*])")
_MODULE = re.compile(rf"(?<![\w/.:-])((?:{'|'.join(PACKAGES)})(?:\.(?!(?:py|md)\b)\w+)+)")
_ATTRIBUTE = re.compile(r"(?<![\w./-])([a-z]+(?:_[a-z]+)+)\.(?!(?:md|csv|png|txt|html)\b|json)([A-Za-z_]\w*)")
# A word of code alone: parts of two letters and more, since one letter is mathematics (x_i).
_BARE = re.compile(r"(?<![\w/.*{<:$%-])([a-z][a-z0-9]+(?:_[a-z0-9]{2,})+)(?![\w*./(=-])")
_TEST = re.compile(r"`(test_\w+)`")
_COMMAND = re.compile(r"`(?:\.venv/bin/)?lucid ([a-z][a-z0-9 -]*)")


def prose_of(name: str) -> Iterator[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    if name.endswith(".md"):
        yield text
        return
    for node in nodes(name):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@cache
def is_there(module: str) -> bool:
    """Whether a dotted name is a module of ours, or something in one."""
    if module.startswith("parts.heat."):  # the part that CONTRIBUTING walks through
        module = module.replace("parts.", "tests.contributing.", 1)
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:end])
        for base in (path, ROOT / "plugins" / Path(*parts[:end])):
            if base.is_dir() and end == len(parts):
                return True
            source = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
            if source.is_file():
                named = set(re.findall(r"\w+", source.read_text(encoding="utf-8")))
                return set(parts[end:]) <= named
    return find_spec(parts[0]) is not None and parts[0] not in PACKAGES


@cache
def words() -> tuple[frozenset[str], frozenset[str]]:
    """Names of modules, folders and whatever code defines; and the words of the code's own texts, without its
    prose (columns, keys, settings), and of files of other kinds."""
    names = {part.removesuffix(".py") for name in tracked() for part in name.split("/")}
    texts: set[str] = set()
    for name in tracked():
        if not name.endswith((".py", ".md", ".png", ".gz", ".xz", ".parquet")):
            texts.update(re.findall(r"\w+", (ROOT / name).read_text(encoding="utf-8")))
        if not name.endswith(".py"):
            continue
        prose: set[int] = set()
        for node in nodes(name):
            match node:
                case ast.Name(id=word) | ast.arg(arg=word) | ast.Attribute(attr=word):
                    names.add(word)
                case ast.FunctionDef(name=word) | ast.ClassDef(name=word):
                    names.add(word)
                case ast.Expr(value=ast.Constant()):  # comes before what it holds
                    prose.add(id(node.value))
                case ast.Constant(value=str(text)) if id(node) not in prose:
                    texts.update(re.findall(r"\w+", text))
                case ast.keyword(arg=str(word)):
                    texts.add(word)
                case ast.alias(name=word):
                    texts.update(word.split("."))
    return frozenset(names), frozenset(texts)


def missing_in(text: str, name: str) -> Iterator[str]:
    for found in _FILE.findall(text):
        near = (ROOT / name).parent / found
        if (
            not near.exists()
            and not OTHERS.match(found)
            and not any(path == found or path.endswith(f"/{found}") for path in tracked())
        ):
            yield found
    yield from (module for module in _MODULE.findall(text) if not is_there(module))
    known, texts = words()
    yield from (f"{owner}.{word}" for owner, word in _ATTRIBUTE.findall(text) if owner not in known)
    yield from (test for test in _TEST.findall(text) if test not in known)
    if name.endswith(".py"):
        yield from (word for word in _BARE.findall(text) if word not in known and word not in texts)


NAMES = [name for name in tracked() if name.endswith((".py", ".md")) and not name.startswith(HISTORY)]


def test_files_and_modules_that_prose_names_exist() -> None:
    missing = {
        f"{name}: {found}" for name in NAMES for text in prose_of(name) for found in missing_in(text, name)
    }
    assert not missing


def test_a_module_that_is_gone_is_found_though_nothing_but_its_name_is_said() -> None:
    gone = "_".join(("duration", "features"))  # in pieces: what stands here is a word of the code
    said = f"Statistics of {gone} by user_history, x_i of them, see features.py."
    assert list(missing_in(said, "lucid_models/duration/model.py")) == [gone]


@cache
def commands() -> frozenset[str]:
    root = typer.main.get_command(app)

    def walk(command: object, path: str) -> Iterator[str]:
        yield path
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, f"{path} {name}".strip())

    return frozenset(walk(root, ""))


def test_commands_that_docs_name_exist() -> None:
    groups = {command.partition(" ")[0] for command in commands() if " " in command}
    missing = []
    for name in (name for name in NAMES if name.endswith(".md")):
        for said in _COMMAND.findall((ROOT / name).read_text(encoding="utf-8")):
            words = [word for word in said.split() if not word.startswith("-")]
            if words[0] in groups and len(words) > 1:
                known = f"{words[0]} {words[1]}" in commands()
            else:
                known = words[0] in commands() | groups
            if not known:
                missing.append(f"{name}: {said}")
    assert missing == []
