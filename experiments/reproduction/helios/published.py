"""What Helios' paper (SC '21) printed, and what of it public data can be set beside.

The numbers are read from the reference data (`reference/helios/published_*.csv`: tables, and Figure 13 by
virtual cluster), so that every one of them has a row in the report: measured, or with the reason why not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd

from foundation.errors import BadInputError

FOLDER = Path("reference") / "helios"
SCHEMES = ("FIFO", "SJF", "SRTF", "QSSF")
NO_JOB_LOG = "the job logs of SenseTime's clusters are not among the data"
OTHER_PHILLY = (
    "another copy of Philly: fewer, smaller and shorter jobs, no attempts; light on these nodes, so that "
    "absolute times cannot agree"
)
NO_SERIES = "no public series of this cluster's nodes"


@dataclass(frozen=True)
class HeliosRow:
    """A number of the paper beside ours; None: not published, or not measured, and `remark` says why."""

    table: str
    scheme: str
    metric: str
    published: float | None
    ours: float | None = None
    remark: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What the row is about."""
        return self.table, self.scheme, self.metric


def published_rows(data: Path) -> list[HeliosRow]:
    """Return every published number of tables 1 to 5, of the text of sections 3 and 4.3.3, and of Figure 13.

    Raises BadInputError for reference data without them.
    """
    rows = []
    for _, table, row, column, value in read_published(data, "published_tables.csv").itertuples():
        scheme = next((name for name in SCHEMES if row.endswith(f" {name}")), "")
        about = row.removesuffix(f" {scheme}") if scheme else row
        if table.startswith("Table 4"):
            table, scheme, about = "Table 4", "FIFO / QSSF", f"queuing of jobs {row}"
        elif table == "Table 5":
            scheme = "CES"
        rows.append(HeliosRow(table, scheme, f"{about}, {column}", float(value)))
    per_vc = read_published(data, "published_philly_per_vc.csv")
    for scheme in ("FIFO", "SJF", "SRTF", "QSSF"):
        for _, vc, measure, value in per_vc[["vc", "measure", scheme.lower()]].itertuples():
            rows.append(HeliosRow("Figure 13", scheme, f"{measure}, Philly {vc}", float(value)))
    return rows


def set_beside(
    published: Iterable[HeliosRow], measured: Mapping[tuple[str, str, str], tuple[float, str]]
) -> list[HeliosRow]:
    """Return the published rows with what was measured; the others say why they were not."""
    rows = []
    for row in published:
        if row.key in measured:
            ours, remark = measured[row.key]
            rows.append(replace(row, ours=ours, remark=remark))
        else:
            rows.append(replace(row, remark=_why_not(row)))
    return rows


def frame_of(rows: Iterable[HeliosRow]) -> pd.DataFrame:
    """Return rows as a table {table, scheme, metric, published, ours, remark}."""
    columns = ["table", "scheme", "metric", "published", "ours", "remark"]
    return pd.DataFrame([asdict(row) for row in rows], columns=columns)


def _why_not(row: HeliosRow) -> str:
    if row.table == "Table 5":
        return NO_SERIES
    if row.table == "4.3.3":
        return "a fact or a figure of the data centre's operation, not of public data"
    if row.table == "Figure 1b":
        return "this copy of Philly has no final states"
    if "Philly" in row.metric:
        return "not in this copy of the log"
    return NO_JOB_LOG


def read_published(data: Path, name: str) -> pd.DataFrame:
    """Return a file of published numbers, names as text; raises BadInputError where it is not there."""
    path = data / FOLDER / name
    if not path.is_file():
        raise BadInputError(
            f"{path} is not there.",
            remedy="Name the public reference data: --data DIR or LUCID_REFERENCE_DATA.",
        )
    texts = ("vc", "row", "column", "table", "figure", "series", "x", "unit")
    return pd.read_csv(path, dtype=dict.fromkeys(texts, str))
