"""Capacity planned for a month of Philly: nodes that keep the P95 wait, and what sleep costs.

    python -m experiments.policies.capacity_study --write docs/planning.md

Needs the reference data.
"""

from pathlib import Path

from experiments.pages import run_study
from foundation.markdown import NO_VALUE, markdown_table, number
from foundation.process_lock import scratch_folder
from foundation.progress import silent
from pipeline.planning.capacity_plan import PlanSettings
from pipeline.planning.log_request import LogRequest
from pipeline.planning.planned_run import PlannedRun
from pipeline.planning.planner import plan_capacity
from pipeline.planning.questions import PlanAnswer
from pipeline.planning.report import CapacityReport
from pipeline.studies.wait_target import WaitTarget

TARGET = WaitTarget("p95", 600.0)
SLEEPS = ({"buffer_nodes": 5}, {"buffer_nodes": 20})
WORKERS = 2
ANSWERS = ("pool", "with", "nodes now", "nodes", "P95 wait (s)", "one fewer (s)", "nodes, interval")
SLEEP = ("nodes", "with", "asleep", "mean wait added (s)", "P95 wait (s)", "MWh saved", "wake-ups a day")


def tables(data: Path) -> dict[str, str]:
    """Return the tables by the markers that they stand between."""
    philly = data / "data" / "philly"
    request = LogRequest(
        str(philly / "philly_jobs.csv.gz"),
        "philly-csv",
        str(philly / "philly_vc_nodes.csv"),
        start="2017-10-01",
        end="2017-11-01",
    )
    settings = PlanSettings(PlannedRun("fifo"), TARGET, asked={"node_sleep": SLEEPS})
    with scratch_folder("capacity") as folder:
        report = plan_capacity(request, settings, folder, name="philly", workers=WORKERS, progress=silent)
    return {
        "capacity of philly": markdown_table(ANSWERS, _nodes(report)),
        "sleep of philly": markdown_table(SLEEP, _sleep(report)),
    }


def _nodes(report: CapacityReport) -> list[list[str]]:
    answers = [each for each in report.plan.answers if each.kind == "nodes"]
    return [_answer(each) for each in answers]


def _answer(answer: PlanAnswer) -> list[str]:
    figures, fewer = answer.figures, answer.fewer
    low, high = figures.get("nodes_low"), figures.get("nodes_high")
    return [
        answer.pool,
        answer.variant,
        number(figures["present_nodes"], 0),
        number(figures["nodes"], 0),
        number(figures[TARGET.column], 0),
        NO_VALUE if fewer is None else number(fewer[TARGET.column], 0),
        NO_VALUE if low is None or high is None else f"{low} to {high}",
    ]


def _sleep(report: CapacityReport) -> list[list[str]]:
    rows = {(row["nodes"], row["variant"]): row for row in report.plan.rows}
    costs = [each for each in report.plan.answers if each.kind == "sleep"]
    table = []
    for each in costs:
        row, mean = rows[each.figures["nodes"], each.variant], each.figures["added_wait"]["mean"]
        table.append(
            [
                number(each.figures["nodes"], 0),
                each.variant,
                number(row["nodes_asleep_mean"], 1),
                f"{mean['added_s']:.0f} ({mean['low']:.0f} to {mean['high']:.0f})",
                number(row[TARGET.column], 0),
                number(each.figures["saved_kwh"] / 1_000, 0),
                number(row["wake_ups_per_day"], 1),
            ]
        )
    return table


if __name__ == "__main__":
    run_study("experiments.policies.capacity_study", __doc__, tables)
