"""What became of the rows of a table that was read, as a step's result."""

from collections.abc import Mapping
from typing import Any

from foundation.steps import Done

_PARTS = ("kept", "quarantined", "skipped")


def rows_read(what: str, report: Mapping[str, Any], *, on_the_way: bool = True) -> Done:
    """Return the account of the rows of `what`: how many came in, what became of each, with the reasons."""
    counts = {part: int(report[f"rows_{part}"]) for part in _PARTS}
    parts = " + ".join(f"{count:,} {part}" for part, count in counts.items())
    reasons = ", ".join(f"{count:,} {name}" for name, count in (report.get("reasons") or {}).items())
    account = f"{report['rows_in']:,} rows of {what} in = {parts}{f' ({reasons})' if reasons else ''}."
    sentence = " ".join([account, *map(str, report.get("remarks") or ())])
    return Done(dict(report), sentence, bars=("Rows", counts), on_the_way=on_the_way)
