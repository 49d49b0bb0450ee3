"""Buckets of similar job names (Lucid section 3.5.3): which bucket a name belongs to, with NumPy alone.

A name belongs to the bucket of the nearest *exemplar*, a name that stands for its bucket. Names are compared
as families (lower case, every run of digits as `#`), by Levenshtein distance relative to the longer of the
two. A name from which every exemplar is farther than `most_distance` is in no bucket: it is new. How
exemplars are found: `bucket_learning`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.model_format import Fields

# A run time below one second is counted as one second, so that its logarithm is not negative.
MIN_DURATION_S = 1.0
KEY_SEPARATOR = "\x1f"
UNNAMED = "(no name)"
_DIGITS = re.compile(r"[0-9]+")


def name_family(name: str) -> str:
    """The family of a job name: lower case, every run of digits as `#` (`ResNet50_lr3` -> `resnet#_lr#`)."""
    return _DIGITS.sub("#", name.lower())


def size_key(gpus: float, cpus: float | None) -> str:
    """How large a job is: its GPUs, or its CPU cores when it has no GPU."""
    if gpus > 0:
        return f"{gpus:g}"
    return "cpu" if cpus is None else f"cpu{cpus:g}"


def amount_key(amount: float) -> str | None:
    """An amount that was asked for (of run time, of memory) in its unit; None without one."""
    return f"{amount:g}" if amount > 0 else None


def text_or_none(value: object) -> str | None:
    """A text, or None for what stands for a missing one (None, NaN, empty)."""
    if value is None or value == "" or value != value:
        return None
    return str(value).replace(KEY_SEPARATOR, " ")


def number_or_nan(value: object) -> float:
    """A finite number, or NaN for anything that is not one."""
    if value is None or isinstance(value, bool):
        return math.nan
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def log_duration(duration_s: float) -> float:
    """Natural logarithm of a run time of at least one second."""
    return math.log(max(duration_s, MIN_DURATION_S))


def join_key(parts: Sequence[str | None]) -> str | None:
    """The parts of a key as one text; None when one of them is unknown."""
    try:
        return KEY_SEPARATOR.join(parts)  # type: ignore[arg-type]
    except TypeError:
        return None


MOST_EXEMPLARS = 4_096
# Looked-up families are remembered up to this number; then the memory starts anew.
_MOST_REMEMBERED = 100_000
# Letters beyond this length distinguish names no more.
LONGEST = 128
_SYMBOLS = 40
_WORD_BITS = 64
_ONE = np.uint64(1)


class NameBuckets:
    """Exemplars, and which of them a name is nearest to."""

    def __init__(self, exemplars: Sequence[str], most_distance: float) -> None:
        self.exemplars = tuple(exemplars)
        self.most_distance = most_distance
        self._counts = np.array([_symbol_counts(one) for one in self.exemplars], dtype=np.int16).reshape(
            len(self.exemplars), _SYMBOLS
        )
        self._lengths = self._counts.sum(axis=1, dtype=np.int64)
        self._bucket_of_family: dict[str, str | None] = {}

    @cached_property
    def _rows(self) -> "BitRows":
        """Made for the first family that is near any exemplar: few holders of a model ask for one."""
        return BitRows(self.exemplars)

    def bucket_of(self, name: str) -> str | None:
        """The exemplar of a name's bucket; None when it has no name or is near no exemplar."""
        if name == UNNAMED:
            return None
        family = name_family(name)[:LONGEST]
        bucket = self._bucket_of_family.get(family, "")
        if bucket == "":
            if len(self._bucket_of_family) >= _MOST_REMEMBERED:
                self._bucket_of_family.clear()
            bucket = self._bucket_of_family[family] = self._nearest(family)
        return bucket

    def _nearest(self, family: str) -> str | None:
        """The nearest exemplar, the first on ties.

        Two names differ in at least as many letters as their counts of letters do, which rules out most
        exemplars before any distance is computed.
        """
        counts = _symbol_counts(family)
        surplus = np.maximum(self._counts - counts, 0).sum(axis=1)
        longest = np.maximum(np.maximum(self._lengths, len(family)), 1)
        # What one name has too many of, the other must change; the longer one's surplus is the larger.
        least = np.maximum(surplus, surplus - self._lengths + len(family)) / longest
        near = np.flatnonzero(least <= self.most_distance)
        if not near.size:
            return None
        distances = self._rows.distances(family, near) / longest[near]
        best = int(distances.argmin())
        return self.exemplars[near[best]] if distances[best] <= self.most_distance else None

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"exemplars": list(self.exemplars), "most_distance": self.most_distance}

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | Fields) -> "NameBuckets":
        """Read what `to_data` wrote; raises CorruptModelError."""
        fields = data if isinstance(data, Fields) else Fields(data, "buckets")
        exemplars = fields.texts("exemplars", most=MOST_EXEMPLARS, unique=True)
        if any(len(one) > LONGEST for one in exemplars):
            raise fields.fail("exemplars", f"holds a name of more than {LONGEST} letters")
        return cls(exemplars, fields.number("most_distance", 0.0, 1.0))


class BitRows:
    """Edit distances of one text to many at once.

    A text's row of the table of distances is the bits of one word (`levenshtein`), so that one pass over the
    letters of the other text advances the rows of all. A text of more letters than a word has bits is
    compared alone.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._lengths = np.array([len(text) for text in texts], dtype=np.int64)
        self._fits = (self._lengths > 0) & (self._lengths <= _WORD_BITS)
        self._last = np.where(self._fits, _ONE << np.maximum(self._lengths - 1, 0).astype(np.uint64), 0)
        # Of each letter the places in each text that hold it.
        self._places: dict[str, NDArray[np.uint64]] = {}
        for row in np.flatnonzero(self._fits).tolist():
            for place, letter in enumerate(texts[row]):
                if letter not in self._places:
                    self._places[letter] = np.zeros(len(texts), dtype=np.uint64)
                self._places[letter][row] |= _ONE << np.uint64(place)

    def distances(self, text: str, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """The edit distance of `text` to each of these texts."""
        result = self._lengths[rows]
        last, minus = self._last[rows], np.zeros(rows.size, dtype=np.uint64)
        plus = ~minus
        for letter in text:
            places = self._places.get(letter)
            match = np.zeros_like(minus) if places is None else places[rows]
            diagonal = (((match & plus) + plus) ^ plus) | match | minus
            rises = minus | ~(diagonal | plus)
            falls = plus & diagonal
            result += (rises & last) != 0
            result -= (falls & last) != 0
            rises = rises << _ONE | _ONE
            plus = falls << _ONE | ~(diagonal | rises)
            minus = rises & diagonal
        for position in np.flatnonzero(~self._fits[rows]).tolist():
            result[position] = levenshtein(text, self._texts[rows[position]])
        return result


def levenshtein(one: str, other: str) -> int:
    """Edit distance by bit-parallel rows (Myers, 1999; Hyyrö, 2003)."""
    if not one:
        return len(other)
    where: dict[str, int] = {}
    for position, letter in enumerate(one):
        where[letter] = where.get(letter, 0) | 1 << position
    full = (1 << len(one)) - 1
    last = 1 << (len(one) - 1)
    plus, minus, distance = full, 0, len(one)
    for letter in other:
        match = where.get(letter, 0)
        diagonal = (((match & plus) + plus) ^ plus) | match | minus
        rises = minus | ~(diagonal | plus)
        falls = plus & diagonal
        if rises & last:
            distance += 1
        if falls & last:
            distance -= 1
        rises = rises << 1 | 1
        plus = (falls << 1 | ~(diagonal | rises)) & full
        minus = rises & diagonal & full
    return distance


def _symbol_counts(family: str) -> NDArray[np.int16]:
    """How often each letter occurs, with rare symbols folded together, shape (_SYMBOLS,)."""
    counts = [0] * _SYMBOLS
    for letter in family:
        code = ord(letter)
        counts[code - 97 if 97 <= code <= 122 else 26 + code % (_SYMBOLS - 26)] += 1
    return np.array(counts, dtype=np.int16)
