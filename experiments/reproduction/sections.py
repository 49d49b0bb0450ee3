"""A part of a report: a table or a figure under the paper's number, with what must be said about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import pandas as pd
from matplotlib.figure import Figure

HOUR_S = 3_600.0

# Policies under their published names (docs/concepts.md); others appear by their registry key.
NAMES: Mapping[str, str] = {
    "fifo": "FIFO",
    "sjf": "SJF (oracle)",
    "srtf": "SRTF (oracle)",
    "qssf": "QSSF",
    "horus": "Horus",
    "tiresias": "Tiresias",
    "lucid": "Lucid",
    "clarity": "Clarity (ours)",
    "easy": "EASY",
    "tsafrir_easy": "Tsafrir + EASY",
    "fair_share": "fair share",
}


@dataclass(frozen=True)
class Section:
    """`tidy` goes to KEY.csv; `shown` is the table that people read, `notes` stand below it.

    A section that could not be measured has neither and says why in its notes.
    """

    key: str
    title: str
    tidy: pd.DataFrame
    shown: pd.DataFrame
    notes: tuple[str, ...] = ()
    figure: Figure | None = None


def not_measured(key: str, title: str, reason: str) -> Section:
    """Return a section that says why it is empty."""
    return Section(key, title, pd.DataFrame(), pd.DataFrame(), (f"Not measured: {reason}.",))


def name_of(policy: str) -> str:
    """Return a policy's published name."""
    return NAMES.get(policy, policy)


def hours(seconds: float | None) -> float | None:
    """Return seconds as hours; nothing stays nothing."""
    return None if seconds is None else seconds / HOUR_S


def ordered_policies(policies: Sequence[str], first: Sequence[str]) -> list[str]:
    """Return the policies, those of `first` before the others."""
    return [*(name for name in first if name in policies), *(name for name in policies if name not in first)]


class RemarkLetters:
    """Remarks on rows of a table, each told once below it under a letter."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def of(self, remark: str) -> str:
        """Return the letter of a remark: a to z, then aa, ab, ...; none of no remark."""
        if not remark:
            return ""
        if remark not in self._letters:
            rounds, place = divmod(len(self._letters), len(ascii_lowercase))
            self._letters[remark] = (ascii_lowercase[rounds - 1] if rounds else "") + ascii_lowercase[place]
        return self._letters[remark]

    def notes(self) -> list[str]:
        """Return the notes that stand below the table."""
        return [f"{letter}: {remark}." for remark, letter in self._letters.items()]
