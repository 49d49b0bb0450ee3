"""Writes results as files: one table a policy, and one summary of all."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from foundation.csv_files import write_csv
from simulator.results.metrics import by_group, rows_of
from simulator.results.result import SimulationResult
from simulator.scenario.companion import OverTime

# The columns of jobs_P.csv, in this order; scripts depend on them.
JOB_FILE_COLUMNS = [
    "job_id",
    "virtual_cluster",
    "gpus",
    "submit_time_s",
    "first_start_time_s",
    "end_time_s",
    "queuing_delay_s",
    "jct_s",
    "preemptions",
]
# With predictions, and for elastic jobs.
PREDICTION_COLUMNS = ["predicted_end_time_s", "fair_time_s", "resizes"]
MORE_JOB_FILE_COLUMNS = [
    "user",
    "duration_s",
    "estimated_duration_s",
    "colocated",
    "profiled",
    "state",
    "would_have_started",
]


def write_results(results: Mapping[str, SimulationResult], out_dir: Path) -> list[Path]:
    """Write DIR/jobs_P.csv for each policy P, and DIR/summary.json.

    Also DIR/NAME_P.csv for what companions kept over time: how many nodes were in which state, from when on.
    Returns the files.
    `summary.json` is a list in the order of `results`: each policy's summary and its figures by virtual
    cluster.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    written = []
    summaries = []
    for name, result in results.items():
        path = out_dir / f"jobs_{name}.csv"
        predicted = [column for column in PREDICTION_COLUMNS if column in result.jobs]
        write_csv(result.jobs[[*JOB_FILE_COLUMNS, *predicted, *MORE_JOB_FILE_COLUMNS]], path)
        written.append(path)
        for kept in result.kept.values():
            if isinstance(kept, OverTime):
                path = out_dir / f"{kept.name}_{name}.csv"
                write_csv(pd.DataFrame(kept.columns()), path)
                written.append(path)
        counted = result.counted
        ended = rows_of(counted, counted["end_time_s"].notna().to_numpy())
        summaries.append(
            {**result.summary, "policy": name, "virtual_clusters": by_group(ended, "virtual_cluster")}
        )
    path = out_dir / "summary.json"
    path.write_text(json.dumps(summaries, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    written.append(path)
    return written
