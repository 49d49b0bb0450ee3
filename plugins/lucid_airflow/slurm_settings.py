"""Where measurements are submitted to: the environment of Airflow's processes says.

| what | environment |
| --- | --- |
| partition to measure in | LUCID_SLURM_PARTITION (unset: no Slurm is configured) |
| how | LUCID_SLURM_SETTINGS, a JSON object of `live_scheduler.slurm.measurement_job.SlurmSite`'s fields |
| the cluster | SLURM_CONF, and Slurm's programs on PATH, for workers and triggerers alike |

Job logs lie in `slurm/` below LUCID_STATE_DIR, unless the setting `log_dir` names another shared folder.
"""

import json
import os
from typing import Any

from cluster_logs.errors import BadInputError
from lucid_airflow import settings


def slurm_partition() -> str | None:
    """Return the partition to measure in, or None when no Slurm is configured. Reads no database."""
    return os.environ.get("LUCID_SLURM_PARTITION", "").strip() or None


def slurm_site() -> Any:
    """Return the `SlurmSite`. Raises BadInputError when there is none, or it cannot be read."""
    from live_scheduler.slurm.measurement_job import read_site

    partition = slurm_partition()
    if partition is None:
        raise BadInputError(
            "No Slurm partition is configured to measure in.",
            remedy="Set LUCID_SLURM_PARTITION in Airflow's environment, or measure here.",
        )
    text = os.environ.get("LUCID_SLURM_SETTINGS", "").strip()
    remedy = 'Write it as {"gres": "gpu:a100:1", "options": ["--account=ml"]}.'
    try:
        values = json.loads(text) if text else {}
    except json.JSONDecodeError as error:
        raise BadInputError(f"LUCID_SLURM_SETTINGS is not JSON: {error}.", remedy=remedy) from error
    if not isinstance(values, dict):
        raise BadInputError(f"LUCID_SLURM_SETTINGS is {values!r}, not an object.", remedy=remedy)
    log_dir = values.get("log_dir") or str(settings.state_dir() / "slurm")
    return read_site(partition, log_dir, values)
