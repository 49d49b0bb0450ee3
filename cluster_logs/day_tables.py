"""Tables of a lake that parts bring: rows over time, a file a day."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pandas as pd
import pyarrow as pa

from cluster_logs.cluster_writes import LogOrigin
from cluster_logs.expectations.suite import Suite
from foundation.errors import UnknownNameError
from foundation.parts import at_place, lacking, offered


@dataclass(frozen=True)
class DayTable:
    """One table (`foundation.parts.Part.tables`).

    - `name`: also of its folder in the lake and of its suite of expectations; `what`: what it holds.
    - `field`: of the form of `ingest_logs` that names a file of it; `other_sources`: words after it, such as
      ", or Prometheus".
    - `schema`: with the column `cluster`; `time`: the column that gives a row's day; `key`: the columns
      that identify a row.
    - `merge`: of a day's older and newer rows what is kept, by time.
    - `logs_of`: of which logs rows are, real or synthetic ones.
    - `synthetic(first_day, days, seed, nodes)`: rows for a synthetic log; None: such a log has none.
    """

    name: str
    what: str
    schema: pa.Schema
    time: str
    key: tuple[str, ...]
    merge: Callable[[pa.Table, pa.Table], pa.Table]
    logs_of: Callable[[pa.Table], Iterator[LogOrigin]]
    suite: Suite
    field: str
    other_sources: str = ""
    synthetic: Callable[[datetime, int, int, int], pd.DataFrame] | None = None


def day_tables() -> dict[str, DayTable]:
    """The tables that installed parts bring, by name."""
    return {name: at_place(place) for name, place in offered("tables").items()}


def day_table(name: str) -> DayTable:
    """A table by its name; raises NotFoundError without its part, UnknownNameError for none."""
    tables = day_tables()
    if name not in tables:
        raise lacking().get(f"table {name}") or UnknownNameError("table", name, tables)
    return tables[name]
