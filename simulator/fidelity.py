"""Measures agreement with the Lucid artifact's simulator, job by job.

`python -m simulator.fidelity DATA` prints a table; DATA is the folder that LUCID_REFERENCE_DATA names. With
`--write docs/simulator_fidelity.md` the table goes between that page's two markers.
"""

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cluster_logs.errors import NotFoundError
from cluster_logs.ingest import read_jobs_file
from cluster_logs.readers.nodes_file import read_nodes_file
from simulator.cluster import ClusterSpec
from simulator.engine import simulate
from simulator.workload import Workload

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
TOLERANCE_S = 2.0


@dataclass(frozen=True)
class Case:
    """A slice of the log, a policy and our rule set. Published means stand in where no schedule is kept."""

    slice: str
    policy: str
    rules: str
    published_mean_jct_s: float | None = None
    published_mean_queuing_s: float | None = None

    def __str__(self) -> str:
        return f"{self.slice}-{self.policy}-{self.rules}"


CASES = (
    Case("week1vc48", "fifo", "default"),
    Case("week1vc48", "sjf", "default"),
    Case("week1vc64", "fifo", "default", 32_226.5, 24_397.5),
    Case("week", "fifo", "default"),
    Case("week", "sjf", "default"),
    Case("week1vc48", "fifo", "lucid-artifact"),
    Case("week1vc48", "sjf", "lucid-artifact"),
    Case("week1vc48", "qssf", "lucid-artifact"),
    Case("week1vc48", "srtf", "lucid-artifact"),
    Case("week1vc48", "tiresias", "lucid-artifact"),
)


@dataclass(frozen=True)
class Agreement:
    """Our schedule beside the reference's; shares in [0, 1], None where only the means are known."""

    jobs: int
    starts_within_2s: float | None
    ends_within_2s: float | None
    mean_jct_s: float
    reference_mean_jct_s: float
    mean_queuing_s: float
    reference_mean_queuing_s: float
    preemptions: int
    reference_preemptions: int | None
    jobs_per_cpu_s: float


def compare(case: Case, folder: Path) -> Agreement:
    """Replay a case and compare it with the reference files in `folder`."""
    jobs_file = folder / ("week_jobs.csv.gz" if case.slice == "week" else "week1vc48_jobs.csv.gz")
    if not jobs_file.exists():
        raise NotFoundError(f"{jobs_file} is not there.", remedy="Point LUCID_REFERENCE_DATA at the data.")
    workload = Workload.from_jobs(read_jobs_file(str(jobs_file), "reference-csv")[0])
    if case.slice == "week":
        cluster = ClusterSpec.from_nodes(read_nodes_file(str(folder / "week_nodes.csv")))
    else:
        cluster = ClusterSpec({"philly": int(case.slice.removeprefix("week1vc"))}, 8)
    result = simulate(workload, cluster, case.policy, rules=case.rules)
    ours, summary = result.jobs, result.summary
    schedule = folder / f"{case.slice}_{case.policy}.csv.gz"
    starts = ends = preemptions = None
    jct_s, queuing_s = case.published_mean_jct_s, case.published_mean_queuing_s
    if schedule.exists():
        theirs = pd.read_csv(schedule, dtype={"job_id": str}).set_index("job_id").loc[ours["job_id"]]
        starts = _share_within(ours["first_start_time_s"], theirs["start_time"])
        ends = _share_within(ours["end_time_s"], theirs["end_time"])
        jct_s = float((theirs["end_time"] - theirs["submit_time"]).mean())
        queuing_s = float(theirs["queue"].mean())
        if "ckpt_times" in theirs.columns:
            preemptions = int(theirs["ckpt_times"].sum())
    if jct_s is None or queuing_s is None:
        raise NotFoundError(f"{schedule} is not there.")
    return Agreement(
        len(ours),
        starts,
        ends,
        summary["mean_jct_s"],
        jct_s,
        summary["mean_queuing_delay_s"],
        queuing_s,
        summary["preemptions"],
        preemptions,
        summary["jobs_per_cpu_s"],
    )


def _share_within(ours: pd.Series, theirs: pd.Series) -> float:
    return float((abs(ours.to_numpy() - theirs.to_numpy()) <= TOLERANCE_S).mean())


def table(folder: Path) -> str:
    """Return the Markdown table of all cases."""
    columns = (
        "slice",
        "policy",
        "rules",
        "starts within 2 s",
        "ends within 2 s",
        "mean JCT s, ours / reference",
        "mean queuing s, ours / reference",
        "preemptions, ours / reference",
    )
    lines = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    for case in CASES:
        found = compare(case, folder)
        lines.append(
            f"| {case.slice} | {case.policy} | {case.rules} | {_percent(found.starts_within_2s)} "
            f"| {_percent(found.ends_within_2s)} | {found.mean_jct_s:.1f} / {found.reference_mean_jct_s:.1f} "
            f"| {found.mean_queuing_s:.1f} / {found.reference_mean_queuing_s:.1f} "
            f"| {found.preemptions} / {found.reference_preemptions or 0} |"
        )
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "means only" if share is None else f"{100 * share:.2f} %"


def main(arguments: list[str]) -> int:
    """Print the table, or write it into a page."""
    parser = argparse.ArgumentParser(prog="python -m simulator.fidelity", description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=os.environ.get("LUCID_REFERENCE_DATA"))
    parser.add_argument("--write", type=Path, help="the page to write the table into")
    chosen = parser.parse_args(arguments)
    if chosen.data is None:
        parser.error("name the reference data, or set LUCID_REFERENCE_DATA")
    made = table(Path(chosen.data) / "reference" / "lucid")
    if chosen.write is None:
        print(made)
        return 0
    page = chosen.write.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    chosen.write.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
