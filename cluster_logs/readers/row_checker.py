"""One chunk of rows on its way through the checks: columns in, good rows and refused rows out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.quarantine_table import REFUSED_SCHEMA
from cluster_logs.readers.values import (
    FloatArray,
    Instants,
    IntArray,
    Mask,
    instants_of_seconds,
    is_missing,
    parse_instants,
    parse_instants_or_seconds,
    parse_numbers,
)


@dataclass(frozen=True)
class MalformedRow:
    """One row that could not even be split into columns."""

    row: int
    reason: str
    column: str | None
    value: str | None
    raw: str


@dataclass(frozen=True)
class RawChunk:
    """Rows of one file as columns of text (or bytes, or typed values), before any meaning is given to them.

    `rows` are 1-based row numbers in the file; `raw(i)` is the i-th row of the chunk as it stands in the
    file; `malformed` are the rows of this part of the file that have no columns. `rows_in` counts both,
    independently, and `beside_table`: lines above the header, and headers that come again.
    """

    columns: Mapping[str, pa.Array]
    rows: npt.NDArray[np.int64]
    raw: Callable[[int], str]
    malformed: Sequence[MalformedRow] = ()
    rows_in: int = 0
    beside_table: int = 0
    objects: Sequence[Any] = ()


@dataclass
class RowChecker:
    """The rows of a chunk and, for each, the first reason against it (if any)."""

    chunk: RawChunk
    source_file: str
    time_zone: str
    noted: Counter[str] = field(default_factory=Counter)
    _verdicts: list[tuple[str, str | None, bool]] = field(default_factory=list)
    _texts: dict[str, pa.Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._verdict = np.zeros(len(self.chunk.rows), dtype=np.int16)

    def __len__(self) -> int:
        return len(self._verdict)

    def __contains__(self, column: str) -> bool:
        return column in self.chunk.columns

    def first_of(self, columns: str) -> str:
        """The first of the columns `a|b` that the source has; without any, the first."""
        names = columns.split("|")
        return next((name for name in names if name in self), names[0])

    # Columns -------------------------------------------------------------------------------------------

    def text(self, column: str) -> pa.Array:
        """A column as text; a row whose bytes are not UTF-8 is refused and null here."""
        if column not in self._texts:
            self._texts[column] = self._decode(column)
        return self._texts[column]

    def optional_text(self, column: str) -> pa.Array | None:
        """A column as text with null where the source says nothing; None when the source lacks the column."""
        if column not in self:
            return None
        text = self.text(column)
        missing = is_missing(text)
        return pc.if_else(pa.array(missing), None, text) if missing.any() else text

    def number(self, column: str) -> FloatArray:
        """A column as numbers, NaN where it is empty; rows with something else are refused."""
        numbers = parse_numbers(self._values(column))
        self.reject(numbers.unreadable, q.UNREADABLE_NUMBER, column)
        return numbers.values

    def count(
        self, column: str, most: float, *, step: int = 1, between_steps: str = q.UNREADABLE_NUMBER
    ) -> FloatArray:
        """A column of counts from 0 to `most`, multiples of `step`; other rows are refused."""
        counts = self.number(column)
        self.reject(np.isnan(counts), q.MISSING_COUNT, column)
        self.reject(counts < 0, q.NEGATIVE_COUNT, column)
        self.reject(counts > most, q.IMPLAUSIBLE_COUNT, column)
        self.reject(counts != step * np.floor(counts / step), between_steps, column)
        return counts

    def instant(self, column: str) -> IntArray:
        """A column as UTC microseconds, NOT_A_TIME where it is empty; rows with something else are
        refused.
        """
        return self._checked(parse_instants(self._values(column), self.time_zone), column)

    def instant_or_seconds(self, column: str) -> IntArray:
        """The same; a column that holds numbers counts seconds since 1970 (UTC), whatever the time zone."""
        return self._checked(parse_instants_or_seconds(self._values(column), self.time_zone), column)

    def seconds(self, column: str, *, since_s: float = 0.0, time_zone: str = "UTC") -> IntArray:
        """A column of seconds as UTC microseconds: `since_s` and the column add up to the seconds since 1970
        on the clock of `time_zone`.

        NOT_A_TIME where it is empty; rows with something else are refused.
        """
        return self._checked(instants_of_seconds(self.number(column) + since_s, time_zone), column)

    def mapped(self, column: str, translate: Callable[[str], object], kind: pa.DataType) -> pa.Array:
        """A column with each distinct text translated once; null stays null."""
        encoded = pc.dictionary_encode(self.text(column))
        translated = pa.array([translate(word) for word in encoded.dictionary.to_pylist()], kind)
        return translated.take(encoded.indices)

    def mapped_numbers(self, column: str, translate: Callable[[str], float | None]) -> FloatArray:
        """A column of texts that hold a number each, NaN where unknown."""
        values = self.mapped(column, translate, pa.float64())
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)

    # Verdicts ------------------------------------------------------------------------------------------

    def reject(self, mask: Mask, reason: str, column: str | None) -> None:
        """Refuse rows; the first reason against a row is the one that is recorded."""
        self._judge(mask, reason, column, skip=False)

    def skip(self, mask: Mask, rule: str) -> None:
        """Leave rows out by a named rule."""
        self._judge(mask, rule, None, skip=True)

    def note(self, mask: Mask, note: str) -> None:
        """Count rows of which something is to be said, and nothing against."""
        self.noted[note] += int(mask.sum())

    def kept(self) -> Mask:
        """The rows that nothing has been said against so far."""
        return np.equal(self._verdict, 0)

    def skipped(self) -> Counter[str]:
        """How many rows each rule left out."""
        counts = np.bincount(self._verdict, minlength=len(self._verdicts) + 1)
        totals: Counter[str] = Counter()
        for code, (name, _, skip) in enumerate(self._verdicts, start=1):
            if skip and counts[code]:
                totals[name] += int(counts[code])
        return totals

    def refused(self, source_format: str) -> pa.Table:
        """The refused rows as a table of REFUSED_SCHEMA, in the file's order."""
        refusals = list(self.chunk.malformed)
        for index in np.flatnonzero(self._verdict):
            name, column, skip = self._verdicts[self._verdict[index] - 1]
            if not skip:
                value = None if column is None else self._shown(column, int(index))
                row = int(self.chunk.rows[index])
                refusals.append(MalformedRow(row, name, column, value, self.chunk.raw(int(index))))
        refusals.sort(key=lambda refusal: refusal.row)
        return pa.table(
            {
                "reason": [r.reason for r in refusals],
                "column": [r.column for r in refusals],
                "value": [
                    None if r.value is None else q.cut_evidence(r.value, q.MAX_VALUE_BYTES) for r in refusals
                ],
                "source_format": [source_format] * len(refusals),
                "source_file": [self.source_file] * len(refusals),
                "source_row": [r.row for r in refusals],
                "raw_row": [q.cut_evidence(r.raw) for r in refusals],
            },
            schema=REFUSED_SCHEMA,
        )

    # Inside --------------------------------------------------------------------------------------------

    def _checked(self, instants: Instants, column: str) -> IntArray:
        self.reject(instants.unreadable, q.UNREADABLE_TIME, column)
        self.reject(instants.implausible, q.IMPLAUSIBLE_TIME, column)
        return instants.values

    def _judge(self, mask: Mask, name: str, column: str | None, *, skip: bool) -> None:
        hit = mask & (self._verdict == 0)
        if not hit.any():
            return
        verdict = (name, column, skip)
        if verdict not in self._verdicts:
            self._verdicts.append(verdict)
        self._verdict[hit] = self._verdicts.index(verdict) + 1

    def _values(self, column: str) -> pa.Array:
        values = self.chunk.columns[column]
        return self.text(column) if pa.types.is_binary(values.type) else values

    def _decode(self, column: str) -> pa.Array:
        values = self.chunk.columns[column]
        if not pa.types.is_binary(values.type):
            return values.cast(pa.string())
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            decoded = [_decoded(value) for value in values.to_pylist()]
        text = pa.array(decoded, pa.string())
        self.reject(np.array([value is None for value in decoded]), q.NON_UTF8_TEXT, column)
        return text

    def _shown(self, column: str, index: int) -> str | None:
        values = self.chunk.columns.get(column)
        if values is None:
            return None
        value = values[index].as_py()
        return q.cut_evidence(value if isinstance(value, bytes) else str(value), q.MAX_VALUE_BYTES)


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
