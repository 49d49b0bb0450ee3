"""What became of the rows of a table that was read, told as the task's result."""

from collections.abc import Mapping
from typing import Any

from lucid_airflow.run_results import tell

_PARTS = ("kept", "quarantined", "skipped")


def tell_rows(context: Any, what: str, report: Mapping[str, Any], *, step: bool = True) -> None:
    """Tell how many rows of `what` came in and what became of each, with the reasons and remarks."""
    counts = {part: int(report[f"rows_{part}"]) for part in _PARTS}
    parts = " + ".join(f"{count:,} {part}" for part, count in counts.items())
    reasons = ", ".join(f"{count:,} {name}" for name, count in (report.get("reasons") or {}).items())
    account = f"{report['rows_in']:,} rows of {what} in = {parts}{f' ({reasons})' if reasons else ''}."
    sentence = " ".join([account, *map(str, report.get("remarks") or ())])
    tell(context, sentence, bars=("Rows", counts), step=step)
