"""How many rows of a log may be bad: beyond that it is most likely read in the wrong format.

The rows that count are those that were looked at as what the format holds: kept, quarantined, or whole and
outside the window that was asked for. Rows that a rule leaves out (a job's steps, another cluster's jobs) say
nothing.
"""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.quarantine import (
    OUTSIDE_WINDOW,
    REASONS,
    SKIP_RULES,
    UNBALANCED_QUOTES,
    WRONG_COLUMN_COUNT,
    Accounting,
)
from cluster_logs.readers.base import Reader
from foundation.errors import BadInputError, BadRow, TooManyBadRowsError

# A share of a handful of rows says little: fewer rows than this must all be bad.
FEW_ROWS = 100
# Reading stops before the end of the file from so many rows on.
ENOUGH_TO_STOP = 10_000
_REASONS_SHOWN = 3
_CHARACTERS_SHOWN = 200


def check_max_bad_share(share: float) -> float:
    """The share when it is one (0 to 1; 1: any number of bad rows is accepted); else BadInputError."""
    if not 0.0 <= share <= 1.0:
        raise BadInputError(f"A share of {share} bad rows.", remedy="Choose between 0 and 1.")
    return share


@dataclass
class BadRowLimit:
    """Watches the rows of one log go by, and ends its reading when too many of them are bad."""

    uri: str
    reader: Reader
    max_share: float
    examples: dict[str, BadRow] = field(default_factory=dict)

    def watch(self, account: Accounting, refused: pa.Table) -> None:
        """Take note of a chunk's refused rows (REFUSED_SCHEMA), which the account holds already.

        Raises TooManyBadRowsError once enough rows were read to tell.
        """
        for reason in pc.unique(refused.column("reason")).to_pylist():
            if reason not in self.examples:
                first = pc.index(refused.column("reason"), reason).as_py()
                row = refused.slice(first, 1).to_pylist()[0]
                self.examples[reason] = BadRow(
                    row["source_row"], reason, row["column"], row["value"], row["raw_row"]
                )
        if _judged(account) >= ENOUGH_TO_STOP:
            self._check(account, "so far")

    def check(self, account: Accounting) -> None:
        """Raise TooManyBadRowsError when the whole log has too many bad rows."""
        if _judged(account) >= FEW_ROWS or account.quarantined.total() == _judged(account):
            self._check(account, "")

    def check_some(self, account: Accounting) -> None:
        """Raise BadInputError when no row of the whole log was kept, and say where they all went.

        Where any number of bad rows is accepted, so is this.
        """
        if account.kept or self.max_share >= 1:
            return
        if not account.rows_in:
            raise BadInputError(
                f"{self.uri} holds no rows, read as {self.reader.name}.",
                remedy="Check how it was exported.",
            )
        reasons = {**REASONS, **SKIP_RULES}
        rules = "; ".join(
            f"{count:,} {name}: {reasons[name].rstrip('.')}"
            for name, count in (account.quarantined + account.skipped).most_common()
        )
        raise BadInputError(
            f"{self.uri}, read as {self.reader.name}: none of {account.rows_in:,} rows is kept. {rules}.",
            remedy="Check the file, its format and its cluster.",
        )

    def _check(self, account: Accounting, when: str) -> None:
        judged, bad = _judged(account), account.quarantined.total()
        if not bad or bad <= self.max_share * judged:
            return
        reasons = dict((+account.quarantined).most_common())
        example = self.examples.get(next(iter(reasons)))
        seen = f"{judged:,} rows {when}".rstrip()
        raise TooManyBadRowsError(
            f"{self.uri}, read as {self.reader.name}: {bad:,} of {seen} cannot be used "
            f"({100 * bad / judged:.3g} %, {100 * self.max_share:.3g} % allowed). {_in_words(reasons)}"
            f"{'' if example is None else _shown(example)} Nothing was written.",
            remedy=_remedy(self.reader, reasons, all_bad=bad == judged),
            judged=judged,
            quarantined=bad,
            reasons=reasons,
            example=example,
        )


def _judged(account: Accounting) -> int:
    return account.rows_in - account.skipped.total() + account.skipped[OUTSIDE_WINDOW]


def _remedy(reader: Reader, reasons: dict[str, int], *, all_bad: bool) -> str:
    """What helps: never to accept the loss of everything."""
    remedies = [f"Check that the format is {reader.name!r}."]
    if reader.export and next(iter(reasons)) in (WRONG_COLUMN_COUNT, UNBALANCED_QUOTES):
        remedies.append(f"Export it with a separator that no value holds:\n{reader.export}\n")
    if not all_bad:
        remedies.append(
            "If all this is so, accept the loss when it is read into the lake: "
            '`lucid ingest --max-bad-share 1` (in the form: "Most bad rows").'
        )
    return " ".join(remedies)


def _in_words(reasons: dict[str, int]) -> str:
    shown = list(reasons.items())[:_REASONS_SHOWN]
    more = len(reasons) - len(shown)
    sentence = "; ".join(f"{count:,} {reason}: {REASONS[reason].rstrip('.')}" for reason, count in shown)
    return f"{sentence}; and {more} other reasons." if more else f"{sentence}."


def _shown(example: BadRow) -> str:
    text = example.text
    text = text if len(text) <= _CHARACTERS_SHOWN else f"{text[:_CHARACTERS_SHOWN]}..."
    place = f"row {example.row}" + (f", column {example.column!r}" if example.column else "")
    value = "" if example.value is None else f" says {example.value[:_CHARACTERS_SHOWN]!r} in"
    return f" For example {place}{value or ' reads'} {text!r}."
