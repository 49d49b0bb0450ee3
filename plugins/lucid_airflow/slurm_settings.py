"""The Slurm beside Airflow: the environment of Airflow's processes says.

| what | environment |
| --- | --- |
| cluster with accounting that is read (its name in the lake) | LUCID_SLURM_CLUSTER (unset: none) |
| when accounting is read | LUCID_INGEST_SCHEDULE (default: @hourly; `none`, or no cluster: by hand) |
| partition to measure in | LUCID_SLURM_PARTITION (unset: no Slurm is configured) |
| how measurements are submitted | LUCID_SLURM_SETTINGS (a JSON object of `SlurmSite`'s fields) |
| Slurm's configuration | SLURM_CONF, and Slurm's programs on PATH, for workers and triggerers alike |

Job logs lie in `slurm/` below LUCID_STATE_DIR, unless the setting `log_dir` names another shared folder.
"""

import os
from typing import Any

from foundation.environment import read_json_object
from foundation.errors import BadInputError
from lucid_airflow import settings


def slurm_partition() -> str | None:
    """Return the partition to measure in, or None when no Slurm is configured. Reads no database."""
    return os.environ.get("LUCID_SLURM_PARTITION", "").strip() or None


def slurm_cluster() -> str | None:
    """Return the cluster that `ingest_logs` reads the accounting of, or None. Reads no database."""
    return os.environ.get("LUCID_SLURM_CLUSTER", "").strip() or None


def ingest_schedule() -> Any:
    """Return when `ingest_logs` runs by itself, None for never; a run is about the time since the last one.

    Without a Slurm to read there is nothing that a clock could ingest. Reads no database.
    """
    clock = settings.schedule("LUCID_INGEST_SCHEDULE", "@hourly") if slurm_cluster() else None
    if clock is None:
        return None
    from airflow.sdk import CronDataIntervalTimetable

    return CronDataIntervalTimetable(clock, timezone="UTC")


def slurm_site() -> Any:
    """Return the `SlurmSite`. Raises BadInputError when there is none, or it cannot be read."""
    from live_scheduler.slurm.measurement_job import read_site

    partition = slurm_partition()
    if partition is None:
        raise BadInputError(
            "No Slurm partition is configured to measure in.",
            remedy="Set LUCID_SLURM_PARTITION in Airflow's environment, or measure here.",
        )
    example = '{"gres": "gpu:a100:1", "options": ["--account=ml"]}'
    values = read_json_object("LUCID_SLURM_SETTINGS", example=example)
    log_dir = values.get("log_dir") or str(settings.state_dir() / "slurm")
    return read_site(partition, log_dir, values)
