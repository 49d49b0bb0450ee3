"""How far replays of public logs under their site's order are like the logs: grades, and what explains them.

`python -m experiments.policies.wait_grades DATA` prints the table; DATA is the folder that
LUCID_REFERENCE_DATA names. `--write docs/gate.md` puts it between that page's markers.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from cluster_logs.site.rules import SiteRules
from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT
from cluster_logs.synthetic.generator import synthesize
from experiments.pages import run_study
from experiments.policies.many_logs import GRAHAM_NODES, SYNTHETIC_DAYS, SYNTHETIC_LIKE, SYNTHETIC_SEED
from foundation.human_times import human_duration
from foundation.markdown import markdown_table
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.site_grade import grade_jobs, grade_log
from simulator.wait_fidelity.grade import WaitGrade


def _log(path: str, source_format: str, size: ClusterSize) -> Callable[[Path], WaitGrade]:
    def grade(data: Path) -> WaitGrade:
        nodes = None if size.nodes is None else str(data / "data" / size.nodes)
        there = ClusterSize(nodes, size.gpus, size.gpus_per_node, size.servers)
        return grade_log(LogFile(str(data / "data" / path), source_format), there)

    return grade


def _synthetic(declared: SiteRules | None) -> Callable[[Path], WaitGrade]:
    def grade(_: Path) -> WaitGrade:
        made = synthesize(SYNTHETIC_LIKE, SYNTHETIC_DAYS, SYNTHETIC_SEED)
        return grade_jobs(made.jobs, made.nodes.assign(from_time=None), declared)

    return grade


LOGS: Mapping[str, Callable[[Path], WaitGrade]] = {
    "Philly": _log(
        "philly/philly_jobs.csv.gz", "philly-csv", ClusterSize(nodes="philly/philly_vc_nodes.csv")
    ),
    "LLNL Atlas, one pool of 9,216": _log("swf/LLNL-Atlas-2006-cln.swf.gz", "swf", ClusterSize(gpus=9_216)),
    f"Graham's GPU jobs, {GRAHAM_NODES} nodes of 8 (its own are not published)": _log(
        "drac_slurm/graham_jobs.csv.gz", "queue", ClusterSize(servers=GRAHAM_NODES)
    ),
    "synthetic Venus, as declared": _synthetic(FIRST_IN_FIRST_OUT),
    "synthetic Venus, nothing declared": _synthetic(None),
}
COLUMNS = (
    "log",
    "site's order",
    "grade",
    "jobs",
    "mean wait: log",
    "replay",
    "P90: log",
    "replay",
    "within x2 (%)",
    "tau",
    "what explains most",
)


def row(name: str, grade: WaitGrade) -> tuple[str, ...]:
    """Return a grade as the table shows it."""
    if grade.grade is None:
        return (name, grade.order or "–", "none", *("–",) * 7, grade.why)
    waits = grade.waits[0]
    tau = "–" if grade.kendall_tau is None else f"{grade.kendall_tau:.2f}"
    return (
        name,
        grade.order,
        grade.grade,
        f"{grade.jobs:,}",
        *(
            human_duration(figure)
            for figure in (waits.logged.mean, waits.replayed.mean, waits.logged.p90, waits.replayed.p90)
        ),
        f"{grade.within_x2_pct:.0f}",
        tau,
        grade.explains[0].sentence if grade.explains else "there is no difference",
    )


def tables(data: Path) -> dict[str, str]:
    """Return the table of all logs' grades."""
    rows = [row(name, grade(data)) for name, grade in LOGS.items()]
    return {"grades": markdown_table(COLUMNS, rows, align_numbers=False)}


if __name__ == "__main__":
    run_study("experiments.policies.wait_grades", __doc__, tables)
