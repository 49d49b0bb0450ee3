"""The two tables that measurements end in: one row a configuration, one row a colocated pair.

Speeds of the solo table are the workload's own unit per second; speeds of the pair table are normalised
(colocated / solo), so 1 means undisturbed. Utilisations are percent, memory is MiB. `speed_cv` is the
coefficient of variation over the repeats and `measured_at` the time of the first window, both null where they
are not known (published tables; a simulated row has no time). `simulated` says that no GPU stands behind a
row, but the simulated device or a processor. `suspicious` marks pairs with a speed above 1.05: no job should
run faster in company than alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from foundation.csv_files import as_text, write_csv
from foundation.errors import BadInputError, NotFoundError
from foundation.outside_names import admitted, check_opened

PROFILE_SCHEMA = pa.schema(
    [
        pa.field("job_type", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("dataset", pa.string(), nullable=False),
        pa.field("batch_size", pa.int32(), nullable=False),
        pa.field("amp", pa.int32(), nullable=False),
        pa.field("speed", pa.float64(), nullable=False),
        pa.field("gpu_util_pct", pa.float64(), nullable=False),
        pa.field("gpu_mem_util_pct", pa.float64(), nullable=False),
        pa.field("gpu_mem_mib", pa.float64(), nullable=False),
        pa.field("device", pa.string(), nullable=False),
        pa.field("simulated", pa.bool_(), nullable=False),
        pa.field("speed_cv", pa.float64()),
        pa.field("measured_at", pa.timestamp("us", tz="UTC")),
    ]
)

PAIR_SCHEMA = pa.schema(
    [
        pa.field("job_type_1", pa.string(), nullable=False),
        pa.field("speed_1", pa.float64(), nullable=False),
        pa.field("job_type_2", pa.string(), nullable=False),
        pa.field("speed_2", pa.float64(), nullable=False),
        pa.field("gpu_util_pct", pa.float64(), nullable=False),
        pa.field("gpu_mem_util_pct", pa.float64(), nullable=False),
        pa.field("gpu_mem_mib", pa.float64(), nullable=False),
        pa.field("device", pa.string(), nullable=False),
        pa.field("simulated", pa.bool_(), nullable=False),
        pa.field("speed_cv_1", pa.float64()),
        pa.field("speed_cv_2", pa.float64()),
        pa.field("suspicious", pa.bool_(), nullable=False),
        pa.field("measured_at", pa.timestamp("us", tz="UTC")),
    ]
)

# Columns of the published layout (Lucid artifact) -> ours.
_PUBLISHED_SOLO = {
    "model": "model",
    "dataset": "dataset",
    "batchsize": "batch_size",
    "amp": "amp",
    "speed": "speed",
    "gpu_util": "gpu_util_pct",
    "gmem_util": "gpu_mem_util_pct",
    "gmem": "gpu_mem_mib",
}
_PUBLISHED_PAIR = {
    **{f"{name}{i}": f"{ours}_{i}" for i in (1, 2) for name, ours in list(_PUBLISHED_SOLO.items())[:5]},
    "gpu_util": "gpu_util_pct",
    "gmem_util": "gpu_mem_util_pct",
    "gmem": "gpu_mem_mib",
}
_PANDAS_TYPES: dict[pa.DataType, Literal["str", "bool", "int32", "float64"]] = {
    pa.string(): "str",
    pa.bool_(): "bool",
    pa.int32(): "int32",
    pa.float64(): "float64",
}
SPEED_SUSPICIOUS = 1.05
# What a table may lack, and how an unknown value is written.
_OPTIONAL: dict[str, Any] = {
    "speed_cv": math.nan,
    "speed_cv_1": math.nan,
    "speed_cv_2": math.nan,
    "suspicious": None,  # follows from the speeds
    "measured_at": pd.NaT,
}
OUT_OF_MEMORY_COLUMNS = ("job_type_1", "job_type_2", "needed_mib", "capacity_mib")
REJECTED_COLUMNS = ("task", "reason")


def _no_rows(columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(columns))


@dataclass(frozen=True)
class ProfileSet:
    """What one measuring campaign found.

    `solo` follows PROFILE_SCHEMA, `pairs` follows PAIR_SCHEMA; `out_of_memory` lists the configurations and
    pairs that did not fit: job_type_1, job_type_2 (null for a configuration alone), needed_mib (null where it
    is not known), capacity_mib; `rejected` lists what was measured and cannot be trusted: task, reason.
    """

    solo: pd.DataFrame
    pairs: pd.DataFrame
    out_of_memory: pd.DataFrame = field(default_factory=lambda: _no_rows(OUT_OF_MEMORY_COLUMNS))
    rejected: pd.DataFrame = field(default_factory=lambda: _no_rows(REJECTED_COLUMNS))

    @property
    def any_simulated(self) -> bool:
        """Whether a profile or a pair comes from the simulated device."""
        return bool(self.solo["simulated"].any() or self.pairs["simulated"].any())


@dataclass(frozen=True)
class ProfileReading:
    """A profile file read row by row: rows_in = len(table) + len(rejected)."""

    table: pd.DataFrame
    rejected: pd.DataFrame  # source_row (1-based, header not counted), reason
    rows_in: int


def read_solo_profiles(path: str | Path, *, device: str = "as published") -> pd.DataFrame:
    """Read solo profiles (published layout or our own, `.gz` accepted) into PROFILE_SCHEMA.

    A measured table is small and every row counts, so a row that cannot be used raises BadInputError with its
    number and reason; `load_solo_profiles` keeps the rest instead.
    """
    return _all_rows(load_solo_profiles(path, device=device), path)


def read_pair_profiles(path: str | Path, *, device: str = "as published") -> pd.DataFrame:
    """Read colocated pairs (published layout or ours, `.gz` too) into PAIR_SCHEMA; all rows or an error."""
    return _all_rows(load_pair_profiles(path, device=device), path)


def load_solo_profiles(path: str | Path, *, device: str = "as published") -> ProfileReading:
    """Read solo profiles and set unusable rows aside with a reason."""
    raw = _read_csv(path)
    own = "job_type" in raw.columns
    frame = _pick(raw, path, _own_columns(PROFILE_SCHEMA) if own else _PUBLISHED_SOLO)
    reasons: list[str] = [""] * len(frame)
    _take_optional(raw, frame, PROFILE_SCHEMA, reasons)
    _check_identity(frame, ("model", "dataset"), reasons)
    _check_numbers(frame, {"batch_size": (1, 1e9), "speed": (0, math.inf), **_metric_bounds()}, reasons)
    _mark(reasons, frame["batch_size"] % 1 != 0, "batch_size is not a whole number")
    _check_amp(frame, "amp", reasons)
    names = _job_types(frame, "")
    if own:
        _mark(reasons, (frame["job_type"] != names) & (names != ""), "job type contradicts its own columns")
    frame["job_type"] = names
    _mark(reasons, frame["job_type"].duplicated() & (names != ""), "configuration measured twice")
    return _finish(frame, reasons, PROFILE_SCHEMA, device, own, path)


def load_pair_profiles(path: str | Path, *, device: str = "as published") -> ProfileReading:
    """Read colocated pairs and set unusable rows aside with a reason."""
    raw = _read_csv(path)
    own = "job_type_1" in raw.columns
    frame = _pick(raw, path, _own_columns(PAIR_SCHEMA) if own else _PUBLISHED_PAIR)
    reasons: list[str] = [""] * len(frame)
    _take_optional(raw, frame, PAIR_SCHEMA, reasons)
    if own:
        _check_identity(frame, ("job_type_1", "job_type_2"), reasons)
    else:
        _check_identity(frame, ("model_1", "dataset_1", "model_2", "dataset_2"), reasons)
        _check_numbers(frame, {"batch_size_1": (1, 1e9), "batch_size_2": (1, 1e9)}, reasons)
        for i in (1, 2):
            _mark(reasons, frame[f"batch_size_{i}"] % 1 != 0, f"batch_size_{i} is not a whole number")
            _check_amp(frame, f"amp_{i}", reasons)
            frame[f"job_type_{i}"] = _job_types(frame, f"_{i}")
    _check_numbers(frame, {"speed_1": (0, math.inf), "speed_2": (0, math.inf), **_metric_bounds()}, reasons)
    return _finish(frame, reasons, PAIR_SCHEMA, device, own, path)


def write_profiles(profiles: ProfileSet, directory: str | Path) -> tuple[Path, Path]:
    """Write `solo_profiles.csv` and `pair_profiles.csv` in our own layout; the readers read them back."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    solo, pairs = folder / "solo_profiles.csv", folder / "pair_profiles.csv"
    write_csv(profiles.solo, solo)
    write_csv(profiles.pairs, pairs)
    return solo, pairs


def _all_rows(reading: ProfileReading, path: str | Path) -> pd.DataFrame:
    if len(reading.rejected):
        first = reading.rejected.iloc[0]
        raise BadInputError(
            f"{path}: {len(reading.rejected)} of {reading.rows_in} rows cannot be used; "
            f"the first is row {first.source_row}: {first.reason}.",
            remedy="Correct or remove these rows.",
        )
    return reading.table


def _read_csv(path: str | Path) -> pd.DataFrame:
    file = Path(admitted(str(path)))
    if not file.is_file():
        raise NotFoundError(f"There is no profile file {file}.", remedy="Check the path.")
    compression: Literal["gzip"] | None = "gzip" if file.suffix == ".gz" else None
    try:
        # As text: a value that is not a number must be reported, not silently turned into a missing one.
        with file.open("rb") as raw:
            check_opened(raw.fileno())
            frame = pd.read_csv(
                raw,
                dtype=str,
                keep_default_na=False,
                encoding="utf-8",
                compression=compression,
                skipinitialspace=True,
            )
    except pd.errors.EmptyDataError:
        raise BadInputError(
            f"{file} is empty.", remedy="Give a CSV with a header and at least one row."
        ) from None
    except UnicodeDecodeError as error:
        raise BadInputError(f"{file} is not UTF-8 text ({error}).", remedy="Convert it to UTF-8.") from error
    except (EOFError, OSError, pd.errors.ParserError) as error:
        raise BadInputError(
            f"{file} cannot be read as CSV: {error}.", remedy="Check that it is whole."
        ) from error
    if frame.empty:
        raise BadInputError(f"{file} has a header but no rows.", remedy="Give at least one measured row.")
    return frame.map(as_text)


def _own_columns(schema: pa.Schema) -> dict[str, str]:
    return {name: name for name in schema.names if name not in _OPTIONAL}


def _pick(raw: pd.DataFrame, path: str | Path, columns: Mapping[str, str]) -> pd.DataFrame:
    missing = [name for name in columns if name not in raw.columns]
    if missing:
        raise BadInputError(
            f"{path} lacks the columns {', '.join(missing)}; it has {', '.join(map(str, raw.columns))}.",
            remedy="Check the delimiter (a comma) and the header.",
        )
    return raw[list(columns)].rename(columns=dict(columns))


def _mark(reasons: list[str], bad: pd.Series, reason: str) -> None:
    for position in bad.to_numpy().nonzero()[0]:
        if not reasons[position]:
            reasons[position] = reason


def _check_identity(frame: pd.DataFrame, columns: Sequence[str], reasons: list[str]) -> None:
    for column in columns:
        _mark(reasons, frame[column].str.strip() == "", f"{column} is missing")


def _metric_bounds() -> dict[str, tuple[float, float]]:
    return {"gpu_util_pct": (-1e-9, 100), "gpu_mem_util_pct": (-1e-9, 100), "gpu_mem_mib": (0, math.inf)}


def _check_numbers(
    frame: pd.DataFrame, bounds: Mapping[str, tuple[float, float]], reasons: list[str]
) -> None:
    """Turn columns into float64 and mark what is not a finite number in (low, high]."""
    for column, (low, high) in bounds.items():
        numbers = pd.to_numeric(frame[column], errors="coerce").astype("float64")
        usable = numbers.map(math.isfinite) & (numbers > low) & (numbers <= high)
        for position in (~usable).to_numpy().nonzero()[0]:
            if not reasons[position]:
                reasons[position] = f"{column} is {frame[column].iloc[position]!r}, not a number in its range"
        frame[column] = numbers


def _check_amp(frame: pd.DataFrame, column: str, reasons: list[str]) -> None:
    _mark(reasons, ~frame[column].isin(["0", "1"]), f"{column} is neither 0 nor 1")


def _take_optional(raw: pd.DataFrame, frame: pd.DataFrame, schema: pa.Schema, reasons: list[str]) -> None:
    """Add the schema's optional columns that the file has; an empty cell is unknown, another text is not."""
    for column in set(_OPTIONAL) & set(schema.names) & set(raw.columns) - {"suspicious"}:
        text = raw[column].str.strip()
        optional: pd.Series = (
            pd.to_datetime(text, utc=True, errors="coerce", format="ISO8601")
            if column == "measured_at"
            else pd.to_numeric(text, errors="coerce")
        )
        _mark(reasons, optional.isna() & (text != ""), f"{column} cannot be read")
        frame[column] = optional


def _job_types(frame: pd.DataFrame, suffix: str) -> pd.Series:
    """Return `model/dataset/batch_size/amp`, or an empty string where the batch size is not a number."""
    batch = frame[f"batch_size{suffix}"]
    names = (
        frame[f"model{suffix}"]
        + "/"
        + frame[f"dataset{suffix}"]
        + "/"
        + batch.fillna(0).astype("int64").astype(str)
        + "/"
        + frame[f"amp{suffix}"]
    )
    return names.where(batch.notna(), "")


def _finish(
    frame: pd.DataFrame, reasons: list[str], schema: pa.Schema, device: str, own: bool, path: str | Path
) -> ProfileReading:
    if not own:
        frame["device"] = device
        frame["simulated"] = False
    else:
        _mark(reasons, ~frame["simulated"].isin(["True", "False"]), "simulated is neither True nor False")
        frame["simulated"] = frame["simulated"] == "True"
    reason = pd.Series(reasons, dtype="object")
    good = (reason == "").to_numpy()
    rejected = pd.DataFrame(
        {"source_row": [i + 1 for i, keep in enumerate(good) if not keep], "reason": reason[~good].tolist()}
    )
    table = frame.loc[good].reset_index(drop=True)
    if table.empty:
        raise BadInputError(
            f"{path}: none of the {len(frame)} rows can be used; row 1: {reason.iloc[0]}.",
            remedy="Check that the file is a profile table.",
        )
    return ProfileReading(as_profile_frame(table, schema), rejected, len(frame))


def as_profile_frame(rows: pd.DataFrame, schema: pa.Schema) -> pd.DataFrame:
    """Return the rows with exactly the schema's columns and dtypes; optional columns may be absent."""
    frame: pd.DataFrame = rows.reindex(columns=schema.names)
    for column in schema.names:
        if column in _OPTIONAL and column not in rows:
            frame[column] = _OPTIONAL[column]
    if "suspicious" in frame and "suspicious" not in rows:
        frame["suspicious"] = (frame[["speed_1", "speed_2"]] > SPEED_SUSPICIOUS).any(axis=1)
    for column in schema.names:
        if column == "measured_at":
            frame[column] = pd.to_datetime(frame[column], utc=True).dt.as_unit("us")
        else:
            frame[column] = frame[column].astype(_PANDAS_TYPES[schema.field(column).type])
    return frame
