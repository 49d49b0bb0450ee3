"""The tree that is checked: its folders of code, its pages, what is tracked."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FOLDERS = (
    *("foundation", "cluster_logs", "profiler_jobs", "lucid_models", "simulator", "live_scheduler"),
    *("local_stack", "mlflow_access", "pipeline", "plugins", "lucid_cli", "dags", "parts", "experiments"),
)

_TESTS_OF_PARTS = re.compile(r"parts/\w+/tests/")


@cache
def tracked() -> tuple[str, ...]:
    """Names of the files that are tracked, or would be if they were added; relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(sorted(name for name in set(listed.splitlines()) if (ROOT / name).is_file()))


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """The syntax tree of a module, outer nodes before inner ones; made once for all checks."""
    return tuple(ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))))


def modules(*folders: str) -> list[str]:
    """The modules below these folders that people wrote, tests of parts aside."""
    below = tuple(f"{folder}/" for folder in folders)
    return [
        name
        for name in tracked()
        if name.startswith(below) and not _TESTS_OF_PARTS.match(name) and name.endswith(".py")
    ]


def page(name: str) -> str:
    """The text of docs/`name`.md."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def part(text: str, name: str) -> str:
    """What stands between a page's markers of a generated part."""
    return text.split(f"<!-- {name}: begin -->\n")[1].split(f"\n<!-- {name}: end -->")[0]
