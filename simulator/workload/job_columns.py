"""Columns of a job table as the values that a simulation takes."""

from collections.abc import Sequence
from datetime import UTC, datetime
from sys import intern
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster_logs.job_states import JobState
from foundation.errors import BadInputError
from simulator.workload.columns import NO_TEXT, Floats, Texts

if TYPE_CHECKING:
    import pandas as pd


# The columns of a job table (JOB_SCHEMA) that a replay reads, and those that it can do without.
READ_COLUMNS = (
    "job_id",
    "virtual_cluster",
    "gpus",
    "submit_time",
    "start_time",
    "end_time",
    "duration_s",
    "state",
    "job_type",
)
READ_IF_KNOWN = (
    "user",
    "estimated_duration_s",
    "time_limit_s",
    "source_state",
    "cpus",
    "name",
    "single_gpu_s",
    "order_in_vc",
    "gpu_util_pct",
    "gpu_mem_util_pct",
    "gpu_mem_mib",
    "account",
    "qos",
)
# When a job comes to a replay, where that is not at its submission; no value: then.
ARRIVAL = "arrival_time"


def require(frame: "pd.DataFrame", columns: Sequence[str]) -> None:
    """Raise BadInputError when a column is missing."""
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise BadInputError(
            f"The job table lacks {', '.join(missing)}.",
            remedy=f"It has: {', '.join(map(str, frame.columns))}.",
        )


def aware(instant: datetime) -> datetime:
    """Return an instant with a time zone: UTC unless it has one."""
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def instants_of(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Read times (UTC): instants, ISO 8601 text (naive: UTC), or numbers of seconds."""
    import pandas as pd

    try:
        if pd.api.types.is_numeric_dtype(column):
            return pd.to_datetime(column, unit="s", utc=True)
        if pd.api.types.is_datetime64_any_dtype(column):
            return pd.to_datetime(column, utc=True)
        return pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError) as error:
        raise BadInputError(
            f"submit_time cannot be read: {error}.", remedy="Write ISO 8601 times or seconds."
        ) from error


def estimates_of(values: np.ndarray | None, rows: np.ndarray) -> Floats:
    """Return the beliefs of these rows (s); NaN: none. Raises BadInputError for one that is infinite."""
    if values is None:
        return np.full(len(rows), np.nan)
    beliefs: Floats = np.asarray(values, dtype=np.float64)[rows]
    endless = np.flatnonzero(np.isinf(beliefs))
    if len(endless):
        raise BadInputError(
            f"The estimate of row {int(rows[endless[0]])} is {beliefs[endless[0]]} s.",
            remedy="Estimates are finite.",
        )
    return beliefs


def texts_of(frame: "pd.DataFrame", column: str) -> Texts:
    """Return one text a row; none where there is none, or no such column."""
    if column not in frame.columns:
        return Texts.none(len(frame))
    import pandas as pd

    codes, values = pd.factorize(frame[column])  # a row without a value has the code NO_TEXT
    names = Texts.of([intern(str(value)) for value in values])  # values that differ may read alike
    if not names.names:
        return Texts.none(len(frame))
    return Texts(np.where(codes == NO_TEXT, NO_TEXT, names.codes[codes]).astype(np.int32), names.names)


def strings_or_none(frame: "pd.DataFrame", column: str) -> list[str | None]:
    """Return one text a row; None where there is none, or no such column."""
    if column not in frame.columns:
        return [None] * len(frame)
    values = frame[column].astype(object)
    texts = values.where(values.notna(), None).tolist()
    # Users, names and types recur: each text is kept once.
    return [None if value is None else intern(str(value)) for value in texts]


def floats(frame: "pd.DataFrame", column: str) -> np.ndarray:
    """Return one number a row; NaN where there is none, or no such column."""
    if column not in frame.columns:
        return np.full(len(frame), np.nan)
    import pandas as pd

    return pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=np.float64)


def flags(frame: "pd.DataFrame", column: str) -> np.ndarray:
    """Return one truth value a row; False where there is none, or no such column."""
    if column not in frame.columns:
        return np.zeros(len(frame), dtype=bool)
    return frame[column].fillna(0).astype(bool).to_numpy()  # of a lake the column holds 0 and 1


def timed_out(frame: "pd.DataFrame") -> np.ndarray:
    """Say which jobs were stopped at their time limit; False where the source has no word for it."""
    if "source_state" not in frame.columns:
        return np.zeros(len(frame), dtype=bool)
    words = frame["source_state"].astype("str").str.strip().str.upper()
    return words.eq("TIMEOUT").to_numpy(dtype=bool, na_value=False)


def waited_until_cancelled_s(frame: "pd.DataFrame", submitted_us: np.ndarray) -> np.ndarray:
    """Return for how long a job waited (s) that left the queue without a run: cancelled, past its deadline,
    or refused; infinite where the log does not say when it left, NaN for all others.
    """
    waited_s = np.full(len(frame), np.nan)
    if not {"state", "start_time", "end_time"} <= set(frame.columns):
        return waited_s
    cancelled = (frame["state"] == JobState.CANCELLED.value).to_numpy(dtype=bool, na_value=False)
    failed = (frame["state"] == JobState.FAILED.value).to_numpy(dtype=bool, na_value=False)
    never_ran = cancelled | (failed & frame["duration_s"].isna().to_numpy())
    never_ran &= frame["start_time"].isna().to_numpy()
    has_end = frame["end_time"].notna().to_numpy()
    waited_s[cancelled & never_ran & ~has_end & frame["duration_s"].isna().to_numpy()] = np.inf
    pending = never_ran & has_end
    rows = np.flatnonzero(pending)
    ends = instants_of(frame["end_time"].iloc[rows]).to_numpy(dtype="datetime64[us]").astype(np.int64)
    waits = (ends - submitted_us[rows]) / 1e6
    waited_s[rows[waits >= 0]] = waits[waits >= 0]
    return waited_s
