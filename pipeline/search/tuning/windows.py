"""Which days tune: blocks to search on and, after them, days to validate on. All lie before the held-out
window, so the gate judges a tuned release on days that chose nothing.

    ... | warm-up | block 1 | block 2 | block 3 | validation | held-out window (the gate's)
                  ^ models learn until here                  ^ `until`
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from foundation.errors import BadInputError
from pipeline.validation.held_out_data import HeldOutWindow

VALIDATION = "validation"
SHORTEST_HISTORY = timedelta(days=1)  # before the first block: warm-up, and something to learn from


@dataclass(frozen=True)
class TuningWindows:
    """The replayed windows by name, in the order of time, and until when the log was read."""

    search: Mapping[str, HeldOutWindow]
    validation: HeldOutWindow
    until: datetime

    @property
    def start(self) -> datetime:
        """When the first block begins: no model has learned from what comes after."""
        return next(iter(self.search.values())).start

    @property
    def warm_up_start(self) -> datetime:
        """The first submission that may be replayed."""
        return next(iter(self.search.values())).warm_up_start

    def window(self, name: str) -> HeldOutWindow:
        """A block, or the validation window."""
        return self.validation if name == VALIDATION else self.search[name]

    def to_data(self) -> dict[str, Any]:
        """The windows as plain values."""
        blocks = {**self.search, VALIDATION: self.validation}
        return {
            "until": self.until.isoformat(),
            "blocks": {
                name: [window.warm_up_start.isoformat(), window.start.isoformat(), window.end.isoformat()]
                for name, window in blocks.items()
            },
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "TuningWindows":
        """The windows that `to_data` described."""
        windows = {
            name: HeldOutWindow(*map(datetime.fromisoformat, times)) for name, times in data["blocks"].items()
        }
        validation = windows.pop(VALIDATION)
        return cls(windows, validation, datetime.fromisoformat(data["until"]))


def tuning_windows(
    first: datetime,
    until: datetime,
    *,
    search_days: float,
    validation_days: float,
    blocks: int,
    warm_up_days: float,
) -> TuningWindows:
    """Divide the days before `until` (the end of training), of a log that begins at `first`.

    Raises BadInputError when the log is too short.
    """
    for name, value, least, most in (
        ("search_days", search_days, 1, 365),
        ("validation_days", validation_days, 1, 365),
        ("blocks", blocks, 1, 50),
        ("warm_up_days", warm_up_days, 0, 30),
    ):
        if not least <= value <= most:
            raise BadInputError(f"{name} is {value!r}.", remedy=f"Use {least} to {most}.")
    validated_from = until - timedelta(days=validation_days)
    start = validated_from - timedelta(days=search_days)
    if start - SHORTEST_HISTORY < first:
        has = (until - first) / timedelta(days=1)
        raise BadInputError(
            f"Tuning needs {search_days + validation_days + 1:g} days of log before the held-out window "
            f"({search_days:g} to search on, {validation_days:g} to validate on, 1 before them); there are "
            f"{has:.1f}.",
            remedy="Use fewer search or validation days, hold out fewer days, or ingest more of the log.",
        )
    warm_up = timedelta(days=warm_up_days)
    edges = [start + (validated_from - start) * i / blocks for i in range(blocks + 1)]
    search = {
        f"block {i + 1}": HeldOutWindow(max(first, edges[i] - warm_up), edges[i], edges[i + 1])
        for i in range(blocks)
    }
    return TuningWindows(search, HeldOutWindow(validated_from - warm_up, validated_from, until), until)
