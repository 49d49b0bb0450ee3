"""Reads a waiting queue from the two CSV files that sites export: jobs, and snapshots of all that waited.

Columns are found by name in any order; only the id, the moment and the submission must be there. Times are as
the site writes them (naive local ones stay so) or seconds.
"""

import re
from typing import Any, Literal

import numpy as np
import pandas as pd

from cluster_logs.queue_log import JOB_COLUMNS, NAMES, SITE_NAMES, QueueLog
from foundation.errors import BadInputError
from foundation.storage import open_input, shown

_TIMES = ("moment_s", "submit_s", "eligible_s", "start_s", "end_s")
_TEXTS = ("job_id", "partition", "account")
_NEEDED = ("job_id", "moment_s", "submit_s")
_GPUS_OF_TRES = re.compile(r"gres/gpu(?::[^=,]+)?=(\d+)")


def read_queue_log(jobs: str, snapshots: str) -> QueueLog:
    """Read both files (CSV, may end in .gz).

    Raises BadInputError for a file without the needed columns or without a row that can be read, and errors
    of `open_input` for what is no file.
    """
    tables = [_table(jobs), _table(snapshots)]
    rows_in = sum(len(table) for table in tables)
    frame = pd.concat(
        [table.assign(whole=whole) for table, whole in zip(tables, (False, True), strict=True)],
        ignore_index=True,
    )
    frame, reasons = _without_refused(frame)
    if not frame["whole"].any():
        raise BadInputError(
            f"{shown(snapshots)} holds no waiting job that can be read: {reasons}.",
            remedy="Give snapshots of the pending queue, with submit_time and poll_time.",
        )
    frame = frame.sort_values(["moment_s", "submit_s", "job_id", "whole"], kind="stable")
    last = _last_known(frame)
    place = pd.Series(last.index, index=last["job_id"])
    names = {}
    for name in ("partition", "account"):
        codes, uniques = pd.factorize(last[name], sort=True)
        last[name], names[name] = codes, tuple(uniques)
    seen = {"job": place.loc[frame["job_id"]].to_numpy()}
    for name in ("moment_s", "priority", "whole", *(name for name in SITE_NAMES if name in frame)):
        seen[name] = frame[name].to_numpy()
    return QueueLog({name: last[name].to_numpy() for name in JOB_COLUMNS}, seen, names, rows_in, reasons)


def _without_refused(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    reasons: dict[str, int] = {}
    for reason, refused in _refusals():
        is_refused = refused(frame)
        if is_refused.any():
            reasons[reason] = int(is_refused.sum())
            frame = frame[~is_refused]
    return frame, reasons


def _last_known(frame: pd.DataFrame) -> pd.DataFrame:
    # Of a job counts what was known of it last: a later export says what an earlier one could not.
    last = frame.groupby("job_id", sort=False)[list(JOB_COLUMNS[1:])].last().reset_index()
    return last.sort_values(["submit_s", "job_id"], kind="stable", ignore_index=True)


def _table(path: str) -> pd.DataFrame:
    with open_input(path) as file:
        packed: Literal["gzip"] | None = "gzip" if path.endswith(".gz") else None
        try:
            raw = pd.read_csv(file, compression=packed, low_memory=False)
        except (ValueError, EOFError, OSError) as error:
            raise BadInputError(
                f"{shown(path)} cannot be read as CSV: {error}.", remedy="Check how it was exported."
            ) from error
    columns = {name: next((n for n in names if n in raw), None) for name, names in NAMES.items()}
    missing = [NAMES[name][0] for name in _NEEDED if columns[name] is None]
    if missing:
        raise BadInputError(
            f"{shown(path)} lacks the columns {', '.join(missing)}.",
            remedy="Give one row a waiting job and moment (job_id, poll_time, submit_time).",
        )
    table = pd.DataFrame(index=raw.index)
    for name, source in columns.items():
        values = raw[source] if source is not None else pd.Series(np.nan, index=raw.index)
        table[name] = _read(name, values)
    if columns["eligible_s"] is None:
        table["eligible_s"] = table["submit_s"]
    if columns["gpus"] is None and "req_tres" in raw:
        counts = raw["req_tres"].astype(str).str.extract(_GPUS_OF_TRES, expand=False)
        table["gpus"] = pd.to_numeric(counts).fillna(0.0)
    if columns["start_s"] is None and "poll_wait_sec" in raw:
        table["start_s"] = table["moment_s"] + pd.to_numeric(raw["poll_wait_sec"], errors="coerce")
    for name, source in SITE_NAMES.items():
        if source in raw:
            table[name] = pd.to_numeric(raw[source], errors="coerce").astype(float)
    return table


def _read(name: str, values: "pd.Series[Any]") -> "pd.Series[Any]":
    if name in _TIMES:
        return _seconds(values)
    if name in _TEXTS:
        return values.astype("string").fillna("").astype(object)
    return pd.to_numeric(values, errors="coerce").astype(float)


def _seconds(values: "pd.Series[Any]") -> "pd.Series[float]":
    if pd.api.types.is_numeric_dtype(values):
        return values.astype(float)
    times = pd.to_datetime(values, errors="coerce", format="ISO8601", utc=True)
    return (times - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)


def _refusals() -> list[tuple[str, Any]]:
    return [
        ("no_job_id", lambda rows: rows["job_id"] == ""),
        ("no_moment", lambda rows: rows["moment_s"].isna()),
        ("no_submit_time", lambda rows: rows["submit_s"].isna()),
        ("submitted_after_moment", lambda rows: rows["submit_s"] > rows["moment_s"]),
        ("started_before_moment", lambda rows: rows["start_s"] < rows["moment_s"]),
        ("end_before_start", lambda rows: rows["end_s"] < rows["start_s"]),
        ("duplicate", lambda rows: rows.duplicated(["job_id", "moment_s", "whole"])),
    ]
