"""The packing measurements in their published layout (Lucid artifact), as its simulator uses them.

A job type is `model/dataset/batchsize/amp`, as in a `reference-csv`.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from foundation.errors import BadInputError, NotFoundError
from simulator.workload.job import JobProfile

TYPE_COLUMNS = ("model", "dataset", "batchsize", "amp")


def read_labelled_profiles(path: Path) -> dict[str, JobProfile]:
    """Return each job type's profile alone, its sharing score being the table's own label (0, 1 or 2)."""
    table = _read(path, (*TYPE_COLUMNS, "gpu_util", "gmem_util", "gmem", "label"))
    figures = table[["gpu_util", "gmem_util", "gmem", "label"]].astype("float64")
    return {
        kind: JobProfile(float(util), float(mem_util), float(mem), amp == "1", kind, int(label))
        for kind, amp, (util, mem_util, mem, label) in zip(
            _types(table, ""), table["amp"], figures.itertuples(index=False, name=None), strict=True
        )
    }


def read_published_pairs(path: Path) -> pd.DataFrame:
    """Return the pairs' speeds relative to alone: job_type_1, speed_1, job_type_2, speed_2."""
    columns = [f"{column}{i}" for i in (1, 2) for column in (*TYPE_COLUMNS, "speed")]
    table = _read(path, columns)
    return pd.DataFrame(
        {
            "job_type_1": _types(table, "1"),
            "speed_1": table["speed1"].astype("float64"),
            "job_type_2": _types(table, "2"),
            "speed_2": table["speed2"].astype("float64"),
        }
    )


def has_labels(path: Path) -> bool:
    """Say whether a table of solo profiles is in the published layout with its labels."""
    return "label" in _read(path, ()).columns


def _read(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    if not path.is_file():
        raise NotFoundError(f"There is no {path}.", remedy="Check the path.")
    try:
        table = pd.read_csv(path, dtype=str)
    except (OSError, ValueError) as error:  # pandas' errors of reading are ValueErrors
        raise BadInputError(
            f"{path} cannot be read as CSV: {error}.", remedy="Give the published table."
        ) from error
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise BadInputError(
            f"{path} lacks {', '.join(missing)}.", remedy="Give the table in its published layout."
        )
    return table


def _types(table: pd.DataFrame, suffix: str) -> list[str]:
    parts = [table[f"{column}{suffix}"] for column in TYPE_COLUMNS]
    return ["/".join(row) for row in zip(*parts, strict=True)]
