"""What the paper says of its clusters and traces, beside what is true of the public data in their place."""

from pathlib import Path

import numpy as np

from experiments.reproduction.lyra.published import LyraRow, RowKey
from experiments.reproduction.lyra.schemes import FORTNIGHT
from experiments.reproduction.lyra.windows import GPUS_PER_SERVER, window_jobs, window_load
from parts.lending.replay.settings import LoanSettings

HOURS_A_DAY, BINS_AN_HOUR = 24, 12
LOAD = "ServeGen's m-small, an LLM fleet, in the place of ByteDance's inference"
JOBS = "Philly, 4-17 October 2017, in the place of ByteDance's jobs"
TAKEN = "taken over from the paper as a setting"


def input_rows(data: Path) -> dict[RowKey, LyraRow]:
    """Return the rows of Figure 1, of section 2 and of section 7.1 that public data answers."""
    rows = [*_load_rows(data), *_job_rows(data), *_setting_rows()]
    return {row.key: row for row in rows}


def _load_rows(data: Path) -> list[LyraRow]:
    usage = window_load(data, FORTNIGHT)["usage"].to_numpy()
    by_hour = usage.reshape(-1, HOURS_A_DAY, BINS_AN_HOUR).mean(axis=(0, 2))
    profile = f"{LOAD}; hours of the day, averaged over 14 days"
    burst = float(np.median(np.abs(np.diff(usage))))
    return [
        LyraRow.measured("Fig 1", "inference utilisation trough %", 100 * float(by_hour.min()), profile),
        LyraRow.measured("Fig 1", "inference utilisation peak %", 100 * float(by_hour.max()), profile),
        LyraRow.measured("Fig 1", "peak to trough", float(by_hour.max() / by_hour.min()), profile),
        LyraRow.measured("Fig 1", "mean utilisation %", 100 * float(usage.mean()), LOAD),
        LyraRow.measured(
            "7.1",
            "median inference burst in 5 min % of capacity",
            100 * burst,
            f"{LOAD}; published every ten minutes, linear in between",
        ),
    ]


def _job_rows(data: Path) -> list[LyraRow]:
    jobs = window_jobs(data, FORTNIGHT)
    gpu_time = jobs["gpus"] * jobs["duration_s"]
    elastic, fungible = jobs["elastic"] == 1, jobs["fungible"] == 1
    drawn = f"{JOBS}; flags are drawn so as to come near the paper's shares"
    return [
        LyraRow.measured(
            "2.1", "fungible share %", 100 * float(gpu_time[fungible].sum() / gpu_time.sum()), drawn
        ),
        LyraRow.measured("2.2", "elastic share of jobs %", 100 * float(elastic.mean()), drawn),
        LyraRow.measured(
            "2.2",
            "elastic share of resources %",
            100 * float(gpu_time[elastic].sum() / gpu_time.sum()),
            drawn,
        ),
        LyraRow.measured(
            "2.2",
            "mean run time of elastic jobs h",
            float(jobs["duration_s"][elastic].mean()) / 3600,
            drawn,
        ),
        LyraRow.measured("7.1", "jobs in 15 days", float(len(jobs)), f"{JOBS}: 14 days"),
    ]


def _setting_rows() -> list[LyraRow]:
    scaled = "chosen so that FIFO makes jobs wait about as long as in the paper"
    training, inference = FORTNIGHT.training_servers, FORTNIGHT.inference_servers
    return [
        LyraRow.measured("7.1", "training GPUs", float(GPUS_PER_SERVER * training), scaled),
        LyraRow.measured("7.1", "training servers", float(training), scaled),
        LyraRow.measured("7.1", "inference GPUs", float(GPUS_PER_SERVER * inference), scaled),
        LyraRow.measured("7.1", "headroom %", 100 * LoanSettings().headroom, TAKEN),
        LyraRow.measured("7.5", "preemption overhead s", 63.0, TAKEN),
        LyraRow.measured("7.5", "one training server = inference servers", 3.0, TAKEN),
    ]
