"""A plan varies what installed parts offer, and names none."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from foundation import parts
from foundation.errors import NotFoundError, UnknownNameError
from foundation.parts import Part
from foundation.site import Site
from pipeline.planning.planned_log import PlannedLog
from pipeline.planning.planned_part import AskedOfLog, PlannedPart
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.planner import plan_capacity, settings_of_form
from pipeline.planning.questions import PlanAnswer, Questions
from tests.pipeline.planning.test_capacity_plan import asked, write_log

JOBS = [("vc0", 8, 60 * i, 600) for i in range(40)]


class Toys(PlannedPart):
    """So many toys stand in the room, and change nothing."""

    key = "toys"
    absent = 0
    nothing = 0
    fields = ("toys",)

    def of_form(self, stated: Mapping[str, Any]) -> int:
        """Return how many."""
        return int(stated.get("toys", 0))

    def check(self, asked: int, run: PlannedRun) -> PlannedRun:
        """Any number will do."""
        return run

    def for_log(self, asked: int, run: PlannedRun, log: PlannedLog) -> AskedOfLog:
        """Say that there are toys."""
        return AskedOfLog(asked, run, (f"There are {asked} toys.",))

    def values(self, asked: int) -> tuple[int, ...]:
        """None, and all."""
        return (0, asked) if asked else (0,)

    def words(self, value: int) -> str:
        """How many."""
        return f"{value} toys" if value else ""

    def command_words(self, value: int) -> list[str]:
        """The same for a command."""
        return ["--toys", str(value)] if value else []

    def answers(
        self, questions: Questions, run: PlannedRun, nodes: Sequence[PlanAnswer], sizes: Mapping[str, int]
    ) -> list[PlanAnswer]:
        """Say what toys change."""
        if not run.value_of(self):
            return []
        size = sizes["the present"]
        replays = questions.sized(run, size), questions.sized(run.with_part(self, 0), size)
        return [questions.changed("toys", "What do toys change?", "By {}.", {"asked": len(nodes)}, replays)]


TOYS = Toys()


def test_a_part_adds_a_variant_with_its_answers_and_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "installed_parts", lambda: (Part("toys", "Toys", planned=f"{__name__}:TOYS"),))
    request = write_log(tmp_path, JOBS, {"vc0": 2})
    report = plan_capacity(request, asked(asked={"toys": 3}), tmp_path / "out", name="one")
    assert {row["variant"] for row in report.plan.rows} == {"awake", "3 toys"}
    assert "There are 3 toys." in report.plan.remarks
    (toys,) = [answer for answer in report.plan.answers if answer.kind == "toys"]
    assert toys.answer in ("By 0.0 s (0.0 to 0.0).", "By 0.0 s.")
    assert "--toys 3" in (toys.command or "")
    form = settings_of_form(Site(registry="", cluster="c"), {"policy": "fifo", "toys": 2})
    assert form.asked == {"toys": 2}


def test_without_parts_a_plan_asks_for_nodes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "installed_parts", lambda: ())
    request = write_log(tmp_path, JOBS, {"vc0": 2})
    report = plan_capacity(request, asked(), tmp_path / "out", name="one")
    assert {answer.kind for answer in report.plan.answers} == {"nodes"}
    assert {row["variant"] for row in report.plan.rows} == {"awake"}
    with pytest.raises(UnknownNameError, match="toys"):
        settings_of_form(Site(registry="", cluster="c"), {"policy": "fifo", "toys": 2})
    with pytest.raises(NotFoundError, match=r"pip install \./parts/node_sleep"):
        settings_of_form(Site(registry="", cluster="c"), {"policy": "fifo", "node_sleep": {"boot_s": 1}})
    with pytest.raises(NotFoundError, match=r"pip install \./parts/node_sleep"):
        plan_capacity(request, asked(asked={"node_sleep": ({"boot_s": 1},)}), tmp_path / "out", name="one")
