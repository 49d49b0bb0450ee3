"""README's transcript of `make demo` is what the demo prints of the figures in it, to the letter."""

import re
from pathlib import Path
from typing import Any

import pytest

from checks.tree import ROOT, modules
from local_stack import stack
from local_stack.stack_config import StackConfig
from lucid_cli import demo

TRANSCRIPT = re.search(
    r"^```\n(\$ make demo\n.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)
PROGRESS = re.compile(r"\[ *(\d+) s\] (\S+) +(\S+) +(\S+)(?: +([\d.]+) s)?")


def lines() -> list[str]:
    assert TRANSCRIPT, "README.md shows what `make demo` prints"
    return TRANSCRIPT[1].splitlines()


def number(cell: str) -> float | str | None:
    if cell == "–":
        return None
    plain = cell.replace(",", "")
    return plain if re.search(r"[a-z]", plain) else float(plain) if "." in plain else int(plain)


def cells(border: str) -> list[list[str]]:
    """The table's lines with this border, cell by cell: ┃ stands beside the heading's, │ beside the rows'."""
    found = [line.split(border)[1:-1] for line in lines() if line.startswith(border)]
    return [[cell.strip() for cell in line] for line in found]


def policies() -> list[dict[str, Any]]:
    """The table's rows, by the names that its heading is broken from."""
    names = ["_".join(" ".join(parts).split()) for parts in zip(*cells("┃"), strict=True)]
    return [dict(zip(names, map(number, row), strict=True)) for row in cells("│")]


def said(name: str) -> str:
    """What follows a line's first word, over the lines into which README breaks it."""
    text = " ".join(line for line in lines() if line[:1] not in "┃│┏┡└")
    found = re.search(rf"\b{name}(.*?)(?= Constraints: | Verdict on release | Champion: | Airflow  |$)", text)
    assert found, name
    return " ".join(found[1].split())


def test_the_lines_of_tasks_are_of_tasks_that_there_are() -> None:
    told = [line for line in lines() if PROGRESS.fullmatch(line)]
    assert told
    for line in told:
        elapsed, dag_id, task_id, state, took = PROGRESS.fullmatch(line).groups()  # type: ignore[union-attr]
        took_s = float(took) if took else None
        assert demo.progress_line(float(elapsed), dag_id, task_id, state, took_s) == line
        assert dag_id in demo.CHAIN
        assert state in demo.TASK_STATES
        assert f'"{task_id}"' in "".join((ROOT / name).read_text("utf-8") for name in modules("dags"))


def test_the_outcome_is_printed_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LUCID_TRUST", raising=False)  # the demo signs
    account: dict[str, Any] = {
        f"rows_{what}": number(said(f"rows {what} +").split()[0])
        for what in ("in", "kept", "quarantined", "skipped")
    }
    account |= {"cluster": said("Rows of").split()[0], "reasons": {}}
    counted = re.match(r"(\d+) passed, none failed(?:; not measured: (.*?))?\. ", said("Constraints:"))
    assert counted, "a demo in which something fails is shown with what failed"
    unmeasured = [name.replace(" ", "_") for name in (counted[2] or "").split(", ") if name]
    version, _, sentence = said("Verdict on release").partition(". ")
    verdict = {
        "policies": policies(),
        "constraints": [{"name": "held", "passed": True}] * int(counted[1])
        + [{"name": name, "passed": None} for name in unmeasured],
        "version": version,
        "sentence": sentence,
    }
    demo.print_outcome(account, verdict, said("Champion:"))
    monkeypatch.setattr(stack, "admin_password", lambda config: "********")
    monkeypatch.setattr(stack, "mlflow_password", lambda config, account: "********")
    for line in stack.login_lines(StackConfig(Path("/home/you/lucid/.lucid"))):
        print(line)
    printed = capsys.readouterr().out
    _, begin, outcome = "\n".join(lines()).partition("Rows of ")
    assert (begin + outcome).split() == printed.split()  # README breaks the longest line
