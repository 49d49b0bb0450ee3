"""Sleeping nodes judged with the queue: buffers under several policies, on a fortnight of Philly's jobs.

    python -m experiments.policies.node_sleep_study --write parts/node_sleep/README.md

Needs the reference data. All days are in the tables: what is chosen here is not judged here.
"""

from pathlib import Path
from typing import Any

from experiments.pages import run_study
from foundation.markdown import markdown_table, number
from pipeline.studies.sweeps.run import RunReplayer
from pipeline.studies.sweeps.runs import SweepRun
from pipeline.studies.sweeps.spec import SweepSpec

POLICIES = ("fifo", "qssf", "srtf", "tiresias", "lucid")
BUFFERS = (1, 3, 5, 10, 20)
# 176 of Philly's 352 nodes: this copy of the log has smaller jobs than the cluster had.
NODE_SCALE = 0.5
COLUMNS = {
    "policy": "policy",
    "buffer": "buffer",
    "asleep": "nodes asleep",
    "wake_ups": "wake-ups a day",
    "each": "nodes each",
    "short": "node-minutes short",
    "waited": "jobs that waited for boots",
    "queuing": "mean queuing (s)",
    "added": "added (s)",
}


def tables(data: Path) -> dict[str, str]:
    """Return the tables by the markers that they stand between."""
    philly = data / "data" / "philly"
    spec = SweepSpec(
        jobs=str(philly / "philly_jobs.csv.gz"),
        format="philly-csv",
        nodes=str(philly / "philly_vc_nodes.csv"),
        start="2017-10-04",
        end="2017-10-18",
        policies=POLICIES,
        node_scales=(NODE_SCALE,),
        companions={"node_sleep": {"buffer_nodes": BUFFERS}},
    )
    failing = {"buffer_nodes": (5,), "boot_failure_share": (0.02, 0.1)}
    slower = {"buffer_nodes": (5,), "boot_s": (60, 600, 1_200)}
    replayer = RunReplayer(spec.read_inputs())
    rows = _rows(replayer, spec)
    boots = [
        row
        for values in (slower, failing)
        for row in _rows(replayer, spec.changed({"policies": ["fifo"], "node_sleep": values}))[1:]
    ]
    return {
        "node sleep by policy": markdown_table(
            list(COLUMNS.values()), [[row[key] for key in COLUMNS] for row in rows]
        ),
        "node sleep by boots": markdown_table(
            ["boot (s)", "boots that fail", *(COLUMNS[key] for key in ("short", "waited", "added"))],
            [[row[key] for key in ("boot_s", "failing", "short", "waited", "added")] for row in boots],
        ),
    }


def _rows(replayer: RunReplayer, spec: SweepSpec) -> list[dict[str, Any]]:
    """Replay every run; the first of each policy has all nodes awake."""
    rows = []
    awake_s = 0.0
    for run in spec.runs():
        figures = replayer.record(run)["figures"]
        queuing_s = figures["mean_queuing_delay_s"]
        if not run.companions:
            awake_s = queuing_s
        rows.append(_row(run, figures, queuing_s - awake_s))
    return rows


def _row(run: SweepRun, figures: dict[str, Any], added_s: float) -> dict[str, Any]:
    row = {"policy": run.policy, "queuing": number(figures["mean_queuing_delay_s"], 0)}
    if not run.companions:
        return {**dict.fromkeys(COLUMNS, number(None)), **row, "buffer": "all awake"}
    sleep = run.companions["node_sleep"]
    return {
        **row,
        "buffer": sleep["buffer_nodes"],
        "boot_s": sleep.get("boot_s", 300),
        "failing": f"{100 * sleep.get('boot_failure_share', 0):g} %",
        "asleep": number(figures["nodes_asleep_mean"], 1),
        "wake_ups": number(figures["wake_ups_per_day"], 1),
        "each": number(figures["nodes_per_wake_up"], 1),
        "short": number(figures["node_minutes_short"], 0),
        "waited": f"{figures['jobs_that_waited_for_boots']:,}",
        "added": number(added_s, 0),
    }


if __name__ == "__main__":
    run_study("experiments.policies.node_sleep_study", __doc__, tables)
