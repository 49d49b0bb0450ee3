"""A log of a few jobs that a test writes down, as it is characterised."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from cluster_logs.log_statistics.capacity import capacity_of
from cluster_logs.log_statistics.observed_log import (
    JOB_COLUMNS,
    ObservedLog,
    UtilisationRule,
    as_columns,
    running_in,
)
from parts.characterisation.inputs import find_window

DAY_0 = datetime(2020, 4, 1, tzinfo=UTC)
EPOCH_S = DAY_0.timestamp()


def job(
    submit_s: float, start_s: float | None = None, run_s: float | None = None, **facts: object
) -> dict[str, object]:
    """A job, in seconds from midnight; without a start only its duration is known."""
    start = None if start_s is None else _at(start_s)
    end = None if start_s is None or run_s is None else _at(start_s + run_s)
    plain: dict[str, object] = {
        "virtual_cluster": "vc1",
        "user": "ada",
        "gpus": 1,
        "cpus": 4,
        "state": "COMPLETED",
        "submit_time": _at(submit_s),
        "start_time": start,
        "end_time": end,
        "duration_s": run_s,
        "queuing_delay_s": None if start_s is None else start_s - submit_s,
        "time_limit_s": None,
    }
    return plain | facts


def observed(
    jobs: list[dict[str, object]],
    nodes: dict[str, int] | None = None,
    *,
    rule: UtilisationRule = UtilisationRule.HALF_OPEN,
    start: datetime | None = None,
    end: datetime | None = None,
) -> ObservedLog:
    """These jobs in UTC, on nodes of one GPU each."""
    frame = pd.DataFrame(jobs, columns=list(JOB_COLUMNS))
    for name in ("submit_time", "eligible_time", "start_time", "end_time"):
        frame[name] = pd.to_datetime(frame[name], utc=True).astype("datetime64[us, UTC]")
    for name in ("duration_s", "queuing_delay_s", "time_limit_s", "cpus"):
        frame[name] = frame[name].astype(float)
    columns = as_columns(frame)
    window = find_window(columns["submit_s"].to_numpy(), ZoneInfo("UTC"), start, end)
    rows = [
        {"virtual_cluster": name, "nodes": count, "gpus_per_node": 1, "from_s": -np.inf}
        for name, count in (nodes or {}).items()
    ]
    inside = columns[(columns["submit_s"] >= window.start_s) & (columns["submit_s"] < window.end_s)].copy()
    return ObservedLog(
        "small",
        window,
        inside,
        running_in(columns, window),
        capacity_of(pd.DataFrame(rows)) if rows else None,
        rule=rule,
    )


def _at(seconds: float) -> pd.Timestamp:
    return pd.Timestamp(EPOCH_S + seconds, unit="s", tz="UTC")
