"""Where the rows of one source of measurements went, with the refused ones as evidence."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from cluster_logs.job_table import REFUSED_SCHEMA
from cluster_logs.quarantine import Accounting


@dataclass(kw_only=True)
class SourceAccount(Accounting):
    """The account of a source, filled while it is read."""

    source_format: str
    source_file: str
    evidence: list[dict[str, Any]] = field(default_factory=list)

    def refuse(
        self, reason: str, row: int, raw: str, *, column: str | None = None, value: Any = None
    ) -> None:
        """Quarantine one row; `row` counts from 1."""
        self.quarantined[reason] += 1
        self.evidence.append(
            {
                "reason": reason,
                "column": column,
                "value": None if value is None else str(value),
                "source_format": self.source_format,
                "source_file": self.source_file,
                "source_row": row,
                "raw_row": raw,
            }
        )

    def refused(self) -> pa.Table:
        """The refused rows (REFUSED_SCHEMA)."""
        return pa.Table.from_pylist(self.evidence, schema=REFUSED_SCHEMA)
