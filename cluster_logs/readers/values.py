"""Text columns to numbers and instants, vectorised; what cannot be read is marked, never guessed."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs.readers.time_zones import END_US, FIRST_US, NOT_A_TIME, local_to_utc

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
