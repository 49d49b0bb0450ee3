"""Buckets of similar job names (Lucid section 3.5.3): which bucket a name belongs to, with NumPy alone.

A name belongs to the bucket of the nearest *exemplar*, a name that stands for its bucket. Names are compared
as families (lower case, every run of digits as `#`), by Levenshtein distance relative to the longer of the
two. A name from which every exemplar is farther than `most_distance` is in no bucket: it is new. How
exemplars are found: `bucket_learning`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lucid_models.duration.job_keys import UNNAMED, name_family
from lucid_models.model_format import Fields

MOST_EXEMPLARS = 4_096
# Looked-up names are remembered up to this number; then the memory starts anew.
_MOST_REMEMBERED = 100_000
# Letters beyond this length tell names apart no more.
LONGEST = 128
_SYMBOLS = 40


class NameBuckets:
    """Exemplars, and which of them a name is nearest to."""

    def __init__(self, exemplars: Sequence[str], most_distance: float) -> None:
        self.exemplars = tuple(exemplars)
        self.most_distance = most_distance
        self._counts = np.array([_symbol_counts(one) for one in self.exemplars], dtype=np.int16).reshape(
            len(self.exemplars), _SYMBOLS
        )
        self._lengths = self._counts.sum(axis=1)
        self._known: dict[str, str | None] = {}

    def bucket_of(self, name: str) -> str | None:
        """The exemplar of a name's bucket; None when it has no name or is near no exemplar."""
        found = self._known.get(name, "")
        if found != "":
            return found
        nearest = None if name == UNNAMED else self._nearest(name_family(name)[:LONGEST])
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[name] = nearest
        return nearest

    def _nearest(self, family: str) -> str | None:
        """The nearest exemplar, the first on ties.

        Two names differ in at least as many letters as their counts of letters do, which rules out almost
        all exemplars before any distance is computed.
        """
        if not self.exemplars:
            return None
        counts = _symbol_counts(family)
        surplus = np.maximum(self._counts - np.array(counts, dtype=np.int16), 0).sum(axis=1)
        longest = np.maximum(self._lengths, len(family))
        # What one name has too many of, the other must change; the longer one's surplus is the larger.
        least = np.maximum(surplus, surplus - self._lengths + len(family)) / np.maximum(longest, 1)
        best, best_distance = None, np.inf
        for position in np.argsort(least, kind="stable").tolist():
            if least[position] > min(best_distance, self.most_distance):
                break
            exemplar = self.exemplars[position]
            distance = levenshtein(family, exemplar) / max(len(family), len(exemplar), 1)
            if distance < best_distance or (distance == best_distance and position < (best or 0)):
                best, best_distance = position, distance
        return None if best is None or best_distance > self.most_distance else self.exemplars[best]

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
