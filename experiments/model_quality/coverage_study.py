"""How well P50 and P90 of run times are calibrated, week by week, on four logs.

    python -m experiments.model_quality.coverage_study --write docs/run_time_coverage.md

Needs the reference data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.synthetic.generator import synthesize
from experiments.model_quality.run_time_coverage import coverage_of_test, outside
from experiments.pages import run_study
from foundation.markdown import markdown_table
from lucid_models.evaluation.duration import DurationTest
from lucid_models.evaluation.measures import Row

COLUMNS = (
    "week",
    "jobs",
    "within P50 before",
    "within P90 before",
    "P90 / P50 before",
    "within P50",
    "within P90",
    "P90 / P50",
    "outside of the aim",
)
_SHORT = {"coverage_p50": "P50", "coverage_p90": "P90"}


@dataclass(frozen=True)
class StudiedLog:
    """A log with the days that the model learns from."""

    name: str
    jobs: pd.DataFrame
    train_days: float


def logs(data: Path) -> Iterator[StudiedLog]:
    """Read the four logs, one after the other."""
    nasa, _ = read_jobs_file(str(data / "data/swf/NASA-iPSC-1993-3.1-cln.swf.gz"), "swf")
    yield StudiedLog("nasa", nasa, 30)
    philly, _ = read_jobs_file(str(data / "data/philly/philly_jobs.csv.gz"), "philly-csv")
    yield StudiedLog("philly", philly, 30)
    graham, _ = read_jobs_file(str(data / "data/drac_slurm/graham_jobs.csv.gz"), "queue")
    yield StudiedLog("graham", graham, 14)
    yield StudiedLog("venus", synthesize("helios-venus", 90, 1).jobs, 30)


def tables(data: Path) -> Mapping[str, str]:
    """Return a table a log."""
    made = {}
    for log in logs(data):
        test = DurationTest(log.jobs, log.train_days)
        rows = coverage_of_test(test, *test.measure(None))
        made[f"coverage_{log.name}"] = markdown_table(COLUMNS, map(_cells, rows))
    return made


def _cells(row: Row) -> list[str]:
    said = [
        f"{row[f'{name}{ending}']:{shown}}"
        for ending in ("_before", "")
        for name, shown in (("coverage_p50", ".1%"), ("coverage_p90", ".1%"), ("width", ".1f"))
    ]
    missed = ", ".join(_SHORT[name] for name in outside(row))
    return [str(row["week"]), f"{row['jobs']:,}", *said, missed or "–"]


if __name__ == "__main__":
    run_study("experiments.model_quality.coverage_study", __doc__, tables)
