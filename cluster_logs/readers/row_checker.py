"""One chunk of rows on its way through the checks: columns in, good rows and refused rows out.

Text becomes numbers and instants a column at a time; what cannot be read is marked, never guessed.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.job_facts import DECISIVE_FACTS, JobFact, Kind
from cluster_logs.job_table import REFUSED_SCHEMA
from cluster_logs.readers.source import END_US, FIRST_US, NOT_A_TIME, MalformedRow, RawChunk, local_to_utc

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# What sources write where they have no value.
_MISSING_WORDS = pa.array(
    ["", "-", "None", "none", "null", "NULL", "(null)", "NaN", "nan", "NaT", "N/A", "Unknown", "unknown"]
)
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DATE_AND_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
_NAIVE_TIME = _DATE_AND_TIME + "$"
_ZONED_TIME = _DATE_AND_TIME + r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"

_NAIVE = pa.timestamp("us")
_ZONED = pa.timestamp("us", tz="UTC")
# What a translator of cells may raise for one that it cannot read.
_UNTRANSLATABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Numbers(NamedTuple):
    """Values with NaN where there is none, and the rows that hold something else than a finite number."""

    values: FloatArray
    unreadable: Mask


class Instants(NamedTuple):
    """UTC microseconds with NOT_A_TIME where there is none; unreadable rows; rows outside 1970 to 2099."""

    values: IntArray
    unreadable: Mask
    implausible: Mask


def as_mask(values: pa.Array) -> Mask:
    """A boolean column as a mask; null is False."""
    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), dtype=bool)


def is_missing(text: pa.Array) -> Mask:
    """Whether the source has no value in a text column."""
    return as_mask(pc.is_null(text)) | as_mask(pc.is_in(pc.utf8_trim_whitespace(text), _MISSING_WORDS))


def parse_numbers(column: pa.Array) -> Numbers:
    """Numbers from text (or from a column that holds numbers already)."""
    try:
        parsed = column.cast(pa.float64())
        readable = np.ones(len(column), dtype=bool)
    except pa.ArrowInvalid:
        text = pc.utf8_trim_whitespace(column)
        readable = as_mask(pc.match_substring_regex(text, _NUMBER))
        parsed = pc.if_else(pa.array(readable), text, None).cast(pa.float64())
        readable |= is_missing(text)
    values = parsed.to_numpy(zero_copy_only=False).astype(np.float64)
    infinite = np.isinf(values)
    return Numbers(np.where(infinite, np.nan, values), ~readable | infinite)


def parse_instants(column: pa.Array, time_zone: str) -> Instants:
    """UTC instants from text; a time without an offset of its own is read on the clock of `time_zone`."""
    if pa.types.is_timestamp(column.type):
        return _checked(
            _to_us(column.cast(_ZONED if column.type.tz else _NAIVE)), time_zone, column.type.tz is None
        )
    whole = _parse_whole(column, time_zone)
    if whole is not None:
        return whole
    text = pc.utf8_trim_whitespace(column)
    readable = is_missing(text)
    values = np.full(len(text), NOT_A_TIME, dtype=np.int64)
    implausible = np.zeros(len(text), dtype=bool)
    for pattern, kind in ((_NAIVE_TIME, _NAIVE), (_ZONED_TIME, _ZONED)):
        rows = np.flatnonzero(as_mask(pc.match_substring_regex(text, pattern)))
        parsed, good = _cast_what_can_be(text.take(pa.array(rows)), kind)
        checked = _checked(parsed, time_zone, kind == _NAIVE)
        values[rows] = checked.values
        implausible[rows] = checked.implausible
        readable[rows] |= good
    return Instants(values, ~readable, implausible)


def instants_of_seconds(seconds: FloatArray, time_zone: str = "UTC") -> Instants:
    """UTC instants from seconds since 1970-01-01 00:00 on the clock of `time_zone`; NaN is no time."""
    is_number = ~np.isnan(seconds)
    us = np.clip(np.round(np.where(is_number, seconds, 0.0) * 1e6), FIRST_US - 1, END_US)
    return _checked(np.where(is_number, us.astype(np.int64), NOT_A_TIME), time_zone, local=True)


def parse_instants_or_seconds(column: pa.Array, time_zone: str) -> Instants:
    """UTC instants from text, or from numbers where most of the column's values are such: seconds since 1970.

    A column is read in one way: a date among numbers is unreadable, and so is a number among dates.
    """
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return parse_instants(column, time_zone)
    whole = _parse_whole(column, time_zone)
    if whole is not None:  # no number among them
        return whole
    numbers = parse_numbers(column)
    stated = ~is_missing(column)
    if 2 * (stated & ~numbers.unreadable).sum() <= stated.sum():
        return parse_instants(column, time_zone)
    instants = instants_of_seconds(numbers.values)
    return instants._replace(unreadable=numbers.unreadable)


def _parse_whole(column: pa.Array, time_zone: str) -> Instants | None:
    """The instants of a column of text in which every value is one, written alike; None of any other."""
    for kind in (_NAIVE, _ZONED):
        try:
            # A cast builds an error for every value that it cannot read: try a few before all.
            column.slice(0, 16).cast(kind)
            return _checked(_to_us(column.cast(kind)), time_zone, kind == _NAIVE)
        except pa.ArrowInvalid:
            continue
    return None


def _to_us(column: pa.Array) -> IntArray:
    return pc.fill_null(column.cast(pa.int64()), NOT_A_TIME).to_numpy()  # type: ignore[no-any-return]


def _checked(values: IntArray, time_zone: str, local: bool) -> Instants:
    """Refuse what lies outside as it is read and, on a local clock, as the instant that it is."""
    implausible = _outside(values)
    values = np.where(implausible, NOT_A_TIME, values)
    if local:
        values = local_to_utc(values, time_zone)
        implausible |= _outside(values)
        values = np.where(implausible, NOT_A_TIME, values)
    return Instants(values, np.zeros(len(values), dtype=bool), implausible)


def _outside(values: IntArray) -> Mask:
    return np.asarray((values != NOT_A_TIME) & ((values < FIRST_US) | (values >= END_US)), dtype=bool)


def _cast_what_can_be(text: pa.Array, kind: pa.DataType) -> tuple[IntArray, Mask]:
    """Cast, finding the few texts that look like times and are none (30 February) by halving."""
    try:
        return _to_us(text.cast(kind)), np.ones(len(text), dtype=bool)
    except pa.ArrowInvalid:
        if len(text) == 1:
            return np.array([NOT_A_TIME]), np.zeros(1, dtype=bool)
    half = len(text) // 2
    first_half, left_good = _cast_what_can_be(text.slice(0, half), kind)
    right, right_good = _cast_what_can_be(text.slice(half), kind)
    return np.concatenate([first_half, right]), np.concatenate([left_good, right_good])


@dataclass
class RowChecker:
    """The rows of a chunk and, for each, the first reason against it (if any).

    A cell that cannot be used refuses its row where it holds the job's identity, times or size. A method that
    is given the `fact` it reads for makes the value of any other unknown instead, and counts it.
    """

    chunk: RawChunk
    source_file: str
    time_zone: str
    _noted: dict[str, Mask] = field(default_factory=dict)
    _lost: dict[str, Mask] = field(default_factory=dict)
    _verdicts: list[tuple[str, str | None, bool]] = field(default_factory=list)
    _texts: dict[str, pa.Array] = field(default_factory=dict)
    _undecodable: dict[str, Mask | None] = field(default_factory=dict)

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

    def text(self, column: str, *, fact: str | None = None) -> pa.Array:
        """A column as text, null where its bytes are not UTF-8, which cannot be used."""
        if column not in self._texts:
            self._texts[column], self._undecodable[column] = self._decode(column)
        undecodable = self._undecodable[column]
        if undecodable is not None:
            self.cannot_use(undecodable, q.NON_UTF8_TEXT, column, fact)
        return self._texts[column]

    def optional_text(self, column: str, *, fact: str | None = None) -> pa.Array | None:
        """A column as text with null where the source says nothing; None when the source lacks the column."""
        if column not in self:
            return None
        text = self.text(column, fact=fact)
        missing = is_missing(text)
        return pc.if_else(pa.array(missing), None, text) if missing.any() else text

    def number(self, column: str, *, fact: str | None = None) -> FloatArray:
        """A column as numbers, NaN where it is empty; what else stands there cannot be used."""
        numbers = parse_numbers(self._values(column, fact))
        self.cannot_use(numbers.unreadable, q.UNREADABLE_NUMBER, column, fact)
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

    def instant(self, column: str, *, fact: str | None = None) -> IntArray:
        """A column as UTC microseconds, NOT_A_TIME where it is empty; what else stands there cannot be
        used.
        """
        return self._checked(parse_instants(self._values(column, fact), self.time_zone), column, fact)

    def instant_or_seconds(self, column: str, *, fact: str | None = None) -> IntArray:
        """The same; a column that holds numbers counts seconds since 1970 (UTC), whatever the time zone."""
        values = self._values(column, fact)
        return self._checked(parse_instants_or_seconds(values, self.time_zone), column, fact)

    def seconds(self, column: str, *, since_s: float = 0.0, time_zone: str = "UTC") -> IntArray:
        """A column of seconds as UTC microseconds: `since_s` and the column add up to the seconds since 1970
        on the clock of `time_zone`.

        NOT_A_TIME where it is empty; rows with something else are refused.
        """
        return self._checked(instants_of_seconds(self.number(column) + since_s, time_zone), column)

    def value_of(
        self, fact: JobFact, column: str, unknown: int | None = None
    ) -> pa.Array | FloatArray | IntArray | None:
        """A column read by the kind of the fact that it holds; `unknown` stands for an unknown number or
        text.
        """
        if fact.kind is Kind.TIME:
            return self.instant(column, fact=fact.name)
        if fact.kind is Kind.TEXT:
            text = self.text(column) if fact.required else self.optional_text(column, fact=fact.name)
            return text if unknown is None else pc.if_else(pc.equal(text, str(unknown)), None, text)
        numbers = self.number(column, fact=fact.name)
        return numbers if unknown is None else np.where(numbers == unknown, np.nan, numbers)

    def mapped(
        self, column: str, translate: Callable[[str], object], kind: pa.DataType, *, fact: str | None = None
    ) -> pa.Array:
        """A column with each distinct text translated once; null stays null.

        A text at which `translate` fails cannot be used, and is null here.
        """
        encoded = pc.dictionary_encode(self.text(column, fact=fact))
        words = [_translated(translate, word) for word in encoded.dictionary.to_pylist()]
        failed = pa.array([word is _FAILED for word in words], pa.bool_())
        if failed.true_count:
            self.cannot_use(as_mask(failed.take(encoded.indices)), q.UNREADABLE_VALUE, column, fact)
        values = pa.array([None if word is _FAILED else word for word in words], kind)
        return values.take(encoded.indices)

    def translated_number(
        self,
        column: str,
        translate: Callable[[str], float | None],
        *,
        fact: str | None = None,
        missing: Collection[str] = (),
    ) -> FloatArray:
        """A column of texts that hold a number each, NaN where it is empty or says one of the words `missing`
        (in any case).

        A text that `translate` makes no finite number of, or fails at, cannot be used.
        """
        numbers = self.parsed(column, translate, fact=fact, missing=missing)
        self.cannot_use(numbers.unreadable, q.UNREADABLE_NUMBER, column, fact)
        return numbers.values

    def parsed(
        self,
        column: str,
        translate: Callable[[str], float | None],
        *,
        fact: str | None = None,
        missing: Collection[str] = (),
    ) -> Numbers:
        """The same, without a verdict on what cannot be read: for a fact that is made of several columns."""

        def number(word: str) -> float:
            translated = _translated(translate, word)
            value = translated if isinstance(translated, int | float) else np.nan
            return float(value) if np.isfinite(value) else np.nan

        encoded = pc.dictionary_encode(self.text(column, fact=fact))
        amounts = pa.array(map(number, encoded.dictionary.to_pylist()), pa.float64())
        taken = amounts.take(encoded.indices).to_numpy(zero_copy_only=False)
        said = ~is_missing(encoded.dictionary)
        if missing:
            said &= ~as_mask(
                pc.is_in(
                    pc.utf8_upper(encoded.dictionary), pa.array(sorted(word.upper() for word in missing))
                )
            )
        stated = as_mask(pa.array(said).take(encoded.indices))
        return Numbers(np.where(stated, taken, np.nan), stated & np.isnan(taken))

    # Verdicts ------------------------------------------------------------------------------------------

    def reject(self, mask: Mask, reason: str, column: str | None) -> None:
        """Refuse rows; the first reason against a row is the one that is recorded."""
        self._judge(mask, reason, column, skip=False)

    def cannot_use(self, mask: Mask, reason: str, column: str | None, fact: str | None = None) -> None:
        """Rows with a cell that cannot be used: refused, unless a job may be without the `fact` in it."""
        if fact is None or fact in DECISIVE_FACTS:
            self.reject(mask, reason, column)
        elif mask.any():
            self._lost[fact] = self._lost.get(fact, False) | mask

    def within(
        self,
        amounts: FloatArray,
        bounds: tuple[float, float],
        reasons: tuple[str, str],
        column: str,
        fact: str | None = None,
    ) -> FloatArray:
        """The amounts, NaN where they lie below or above the bounds: for each of both there is a reason."""
        below, above = amounts < bounds[0], amounts > bounds[1]
        self.cannot_use(below, reasons[0], column, fact)
        self.cannot_use(above, reasons[1], column, fact)
        return np.where(below | above, np.nan, amounts)

    def skip(self, mask: Mask, rule: str) -> None:
        """Leave rows out by a named rule."""
        self._judge(mask, rule, None, skip=True)

    def note(self, mask: Mask, note: str) -> None:
        """Mark rows of which something is to be said, and nothing against."""
        self._noted[note] = self._noted.get(note, False) | mask

    def kept(self) -> Mask:
        """The rows that nothing has been said against so far."""
        return np.equal(self._verdict, 0)

    def notes(self) -> Counter[str]:
        """How many kept rows there are of each note."""
        return self._counts(self._noted)

    def unknown_values(self) -> Counter[str]:
        """How many values of each optional fact of kept rows could not be used, and are unknown."""
        return self._counts(self._lost)

    def _counts(self, marked: Mapping[str, Mask]) -> Counter[str]:
        kept = self.kept()
        return +Counter({name: int((mask & kept).sum()) for name, mask in sorted(marked.items())})

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

    def _checked(self, instants: Instants, column: str, fact: str | None = None) -> IntArray:
        self.cannot_use(instants.unreadable, q.UNREADABLE_TIME, column, fact)
        self.cannot_use(instants.implausible, q.IMPLAUSIBLE_TIME, column, fact)
        return instants.values

    def _judge(self, mask: Mask, name: str, column: str | None, *, skip: bool) -> None:
        hit = mask & (self._verdict == 0)
        if not hit.any():
            return
        verdict = (name, column, skip)
        if verdict not in self._verdicts:
            self._verdicts.append(verdict)
        self._verdict[hit] = self._verdicts.index(verdict) + 1

    def _values(self, column: str, fact: str | None) -> pa.Array:
        values = self.chunk.columns[column]
        return self.text(column, fact=fact) if pa.types.is_binary(values.type) else values

    def _decode(self, column: str) -> tuple[pa.Array, Mask | None]:
        """A column as text, and the rows that are none (None: all are)."""
        values = self.chunk.columns[column]
        try:
            return values.cast(pa.string()), None
        except pa.ArrowInvalid:
            if not pa.types.is_binary(values.type):
                raise
        decoded = [_decoded(value) for value in values.to_pylist()]
        return pa.array(decoded, pa.string()), np.array([value is None for value in decoded])

    def _shown(self, column: str, index: int) -> str | None:
        values = self.chunk.columns.get(column)
        if values is None:
            return None
        value = values[index].as_py()
        return q.cut_evidence(value if isinstance(value, bytes) else str(value), q.MAX_VALUE_BYTES)


_FAILED = object()


def _translated(translate: Callable[[str], object], word: str) -> object:
    try:
        return translate(word)
    except _UNTRANSLATABLE:
        return _FAILED


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
