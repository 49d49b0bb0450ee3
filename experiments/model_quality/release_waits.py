"""What a wait model is worth in a release: learned once, from a job table alone, then asked for some days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import process_time

import pandas as pd

from cluster_logs.ingest import ingest_log
from cluster_logs.log_span import submission_span
from foundation.csv_files import write_csv
from foundation.process_lock import scratch_folder
from foundation.progress import Progress, silent
from foundation.site import Site
from parts.waits.model.evaluation import MEDIAN, OURS
from parts.waits.model.fitting import TooFewWaitsError, WaitSettings
from parts.waits.model.job_queue import read_job_queue
from parts.waits.model.model import WaitModel
from parts.waits.model.wait_table import WaitTable
from parts.waits.steps.judged_waits import judge_waits
from pipeline.training.windows import training_window_end

_CLUSTER = "judged"


@dataclass(frozen=True)
class ReleaseWaits:
    """Forecasts of a model over days that it did not see; None: it has none.

    `until`: when the days end (UTC); `mae_log10`: mean error of P50, powers of ten; `coverage_p90`: share of
    waits within P90; `waits`: so many were judged; `fit_s`: CPU seconds of features, training, calibration.
    """

    until: str
    model: str
    mae_log10: float
    coverage_p90: float | None
    waits: int
    fit_s: float | None


def release_waits(
    files: Sequence[Path],
    hold_out_days: int,
    as_of: datetime | None = None,
    settings: WaitSettings | None = None,
    progress: Progress = silent,
) -> list[ReleaseWaits]:
    """Learn as `lucid train waits` does until `hold_out_days` before `as_of` (default: the last
    submission), and judge forecasts of those days as the gate does, beside the partition's median.

    `files`: CSV of jobs and of snapshots (format queue), which are one table of jobs here. Raises
    BadInputError where too few waits ended to learn from or to judge by.
    """
    with scratch_folder("release-waits") as folder:
        lake, jobs = str(folder / "lake"), folder / "jobs.csv"
        write_csv(pd.concat([pd.read_csv(file, dtype=str) for file in files]), jobs)
        ingest_log(
            source_format="queue", input_uri=str(jobs), cluster=_CLUSTER, lake_uri=lake, progress=progress
        )
        until = training_window_end(Site(lake=lake, cluster=_CLUSTER), hold_out_days, as_of)
        _, end = submission_span(lake, _CLUSTER, as_of)
        began = process_time()
        log = read_job_queue(Site(lake=lake, cluster=_CLUSTER), until)
        model = WaitModel(settings).fit(WaitTable.of(log), log.partition_name, progress=progress)
        fit_s = process_time() - began
        judged = judge_waits(Site(lake=lake, cluster=_CLUSTER), model.scorer, until, end)
    waits = int(judged.errors.size)
    if not waits:
        raise TooFewWaitsError(
            f"No wait that was forecast in the {hold_out_days} days to {end:%Y-%m-%d %H:%M} is over.",
            remedy="Hold out more days: --hold-out-days N.",
        )
    last = f"{end:%Y-%m-%d %H:%M}"
    return [
        ReleaseWaits(last, OURS, float(judged.errors.mean()), judged.coverage, waits, fit_s),
        ReleaseWaits(last, MEDIAN, float(judged.naive_errors.mean()), None, waits, None),
    ]
