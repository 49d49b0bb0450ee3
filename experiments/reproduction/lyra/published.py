"""What Lyra's paper (EuroSys '23) printed, and what public data can say of each number.

The numbers are read from the reference data (`reference/lyra/published.csv`), so that every one of them has a
row in the report: measured, or with the reason why not.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd

from foundation.errors import BadInputError

FOLDER = Path("reference") / "lyra"
PUBLISHED_FILE = "published.csv"
# (table, scenario, scheme, metric)
RowKey = tuple[str, str, str, str]


@dataclass(frozen=True)
class LyraRow:
    """A number of the paper beside ours; None: not published, or not measured, and `remark` says why.

    `ours` is the mean over windows, `low` and `high` the lowest and the highest of them, and `fortnight` what
    the comparison's fortnight alone says, where it was replayed.
    """

    table: str
    scenario: str
    scheme: str
    metric: str
    published: float | None
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    fortnight: float | None = None
    remark: str = ""

    @property
    def key(self) -> RowKey:
        """What the row is about."""
        return self.table, self.scenario, self.scheme, self.metric

    @classmethod
    def measured(
        cls, table: str, metric: str, ours: float, remark: str, *, scenario: str = "", scheme: str = "Lyra"
    ) -> "LyraRow":
        """Return a number of ours that is not a mean over windows."""
        return cls(table, scenario, scheme, metric, None, ours, remark=remark)


@dataclass(frozen=True)
class PublishedNumber:
    """A printed number, what public data can say of it (`verdict`), and what is to be noted of it."""

    row: LyraRow
    verdict: str
    note: str


def read_published(data: Path) -> list[PublishedNumber]:
    """Return every published number, in the paper's order; `data` is the public reference data.

    Raises BadInputError where the data lacks them.
    """
    path = data / FOLDER / PUBLISHED_FILE
    if not path.is_file():
        raise BadInputError(
            f"{path} is not there.",
            remedy="Name the public reference data: --data DIR or LUCID_REFERENCE_DATA.",
        )
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            PublishedNumber(
                LyraRow(row["where"], row["scenario"], row["scheme"], row["metric"], float(row["published"])),
                row["with_public_data"],
                row["note"],
            )
            for row in csv.DictReader(stream)
        ]


def set_beside(
    published: Iterable[PublishedNumber], measured: Mapping[RowKey, LyraRow], reasons: Mapping[RowKey, str]
) -> list[LyraRow]:
    """Return the published numbers with what was measured, or with the reason why nothing was.

    A note on a published number (a fault of the paper, say) joins the remark. Raises KeyError for a number
    that has neither: a row without one would look like a measured nothing.
    """
    rows = []
    for number in published:
        key = number.row.key
        ours = measured.get(key)
        remark = reasons[key] if ours is None else ours.remark
        remark = "; ".join(part for part in (remark, number.note) if part)
        row = replace(number.row, remark=remark)
        if ours is not None:
            row = replace(row, ours=ours.ours, low=ours.low, high=ours.high, fortnight=ours.fortnight)
        rows.append(row)
    return rows


def frame_of(rows: Iterable[LyraRow]) -> pd.DataFrame:
    """Return rows as a table, a column a field."""
    columns = list(LyraRow.__dataclass_fields__)
    return pd.DataFrame([asdict(row) for row in rows], columns=columns)
