"""Scores additive models (an EBM's shape functions) with NumPy alone.

The model is intercept + sum of f_i(x_i) + sum of f_ij(x_i, x_j); each shape function is a table over bins.
Bins as in the training library: index 0 holds missing values, bin k holds cuts[k-2] <= x < cuts[k-1] (a value
equal to a cut belongs to the bin above it), and the last entry of a table is kept for values that the library
calls unseen, which numbers never are.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.float_sums import add_in_order
from lucid_models.bin_finder import BinFinder, bin_of
from lucid_models.model_format import CorruptModelError, Fields, finite_list, rows_to_score

MAX_FEATURES = 1_024
MAX_TERMS = 4_096
MAX_TABLE = 1_100_000
LINKS = ("identity", "log")
# exp(700) is the last power of e that a double holds with room to spare.
_MAX_LOG = 700.0
_CHUNK_ROWS = 4_096


@dataclass(frozen=True)
class Term:
    """One shape function: the features that it reads, their cuts, and the score of each bin.

    `scores` has shape (len(cuts) + 3) per feature. Of the same shape are `weights`, the training rows
    (weighted) per bin: how much evidence a score has, and `spread`, the standard deviation of the score
    between the bags that it is averaged from: how sure it is (None: not recorded).
    """

    features: tuple[int, ...]
    cuts: tuple[NDArray[np.float64], ...]
    scores: NDArray[np.float64]
    weights: NDArray[np.float64]
    spread: NDArray[np.float64] | None = None


class AdditiveScorer:
    """Intercept plus shape functions over named numeric features."""

    def __init__(
        self,
        feature_names: Sequence[str],
        terms: Sequence[Term],
        intercept: float,
        link: str = "identity",
    ) -> None:
        self.feature_names = tuple(feature_names)
        self.terms = tuple(terms)
        self.intercept = float(intercept)
        self.link = link
        self.term_names = tuple(
            " x ".join(self.feature_names[i] for i in term.features) for term in self.terms
        )

    def among(
        self, feature_names: Sequence[str], places: Sequence[int] | NDArray[np.intp]
    ) -> "AdditiveScorer":
        """The same model of a table of more features, in which its own have these places."""
        terms = [
            replace(term, features=tuple(int(places[feature]) for feature in term.features))
            for term in self.terms
        ]
        return AdditiveScorer(feature_names, terms, self.intercept, self.link)

    def contributions(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score of each term for each row, shape (rows, terms), on the scale of the link."""
        matrix = rows_to_score(rows, self.feature_names, "model")
        result = np.empty((matrix.shape[0], len(self.terms)), order="F")
        for here, scores in self._plan.read(matrix):
            for position, score in enumerate(scores):
                result[here, position] = score
        return result

    def score(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of the terms and the intercept, shape (rows,), on the scale of the link."""
        matrix = rows_to_score(rows, self.feature_names, "model")
        total = np.full(matrix.shape[0], self.intercept)
        for here, scores in self._plan.read(matrix):
            for score in scores:
                total[here] += score
        return total

    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Prediction on the target's own scale, shape (rows,)."""
        score = self.score(rows)
        return np.exp(np.minimum(score, _MAX_LOG)) if self.link == "log" else score

    def contributions_one(self, values: Sequence[float]) -> list[float]:
        """Score of each term for one row; faster than `contributions` for a single row."""
        result = []
        for feature, cuts, scores, pair in self._lists:
            value = values[feature]
            index = 0 if value != value else bisect_right(cuts, value) + 1
            if pair is not None:
                feature, cuts, width = pair
                value = values[feature]
                index = index * width + (0 if value != value else bisect_right(cuts, value) + 1)
            result.append(scores[index])
        return result

    def score_one(self, values: Sequence[float]) -> float:
        """Score of one row on the scale of the link; added up as `score` does, so equal to the last bit."""
        return add_in_order(self.contributions_one(values), self.intercept)

    def importances(self) -> NDArray[np.float64]:
        """Mean absolute score of each term over the training rows (the usual global importance)."""
        result = np.zeros(len(self.terms))
        for position, term in enumerate(self.terms):
            total = term.weights.sum()
            if total > 0:
                result[position] = float((np.abs(term.scores) * term.weights).sum() / total)
        return result

    def to_data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "feature_names": list(self.feature_names),
            "intercept": self.intercept,
            "link": self.link,
            "terms": [
                {
                    "features": list(term.features),
                    "cuts": [finite_list(cuts) for cuts in term.cuts],
                    "scores": finite_list(term.scores),
                    "weights": finite_list(term.weights),
                    **({} if term.spread is None else {"spread": finite_list(term.spread)}),
                }
                for term in self.terms
            ],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any] | Fields, place: str = "scorer") -> "AdditiveScorer":
        """Read what `to_data` wrote; raises CorruptModelError naming the field that is wrong."""
        fields = data if isinstance(data, Fields) else Fields(data, place)
        names = fields.texts("feature_names", most=MAX_FEATURES, unique=True)
        terms = [_read_term(item, len(names)) for item in fields.children("terms", most=MAX_TERMS)]
        return cls(names, terms, fields.number("intercept", -1e15, 1e15), fields.text("link", choices=LINKS))

    @cached_property
    def _lists(
        self,
    ) -> list[tuple[int, list[float], list[float], tuple[int, list[float], int] | None]]:
        """Per term its feature, cuts and scores in one list; of a pair also the second feature, its cuts, and
        how many scores lie between two bins of the first.
        """
        return [
            (
                term.features[0],
                term.cuts[0].tolist(),
                term.scores.ravel().tolist(),
                None
                if len(term.features) == 1
                else (term.features[1], term.cuts[1].tolist(), term.scores.shape[1]),
            )
            for term in self.terms
        ]

    @cached_property
    def _plan(self) -> "_ReadingPlan":
        return _ReadingPlan(self.terms)


class _ReadingPlan:
    """How terms are looked up: every feature's bins once, however many terms share its cuts."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._finders: list[tuple[int, BinFinder]] = []
        self._tables: list[tuple[tuple[int, ...], int, NDArray[np.float64]]] = []
        rows_by_bytes: dict[tuple[int, bytes], int] = {}
        for term in terms:
            places = []
            for feature, cuts in zip(term.features, term.cuts, strict=True):
                key = (feature, cuts.tobytes())
                if key not in rows_by_bytes:
                    rows_by_bytes[key] = len(self._finders)
                    self._finders.append((feature, BinFinder(cuts)))
                places.append(rows_by_bytes[key])
            self._tables.append((tuple(places), term.scores.shape[-1], term.scores.ravel()))

    def read(self, matrix: NDArray[np.float64]) -> Iterator[tuple[slice, Iterator[NDArray[np.float64]]]]:
        """Rows in pieces that stay in the processor's cache: which rows, and their score of term by term."""
        for start in range(0, len(matrix), _CHUNK_ROWS):
            here = slice(start, start + _CHUNK_ROWS)
            columns = np.ascontiguousarray(matrix[here].T)
            yield here, self._scores([finder.of(columns[feature]) for feature, finder in self._finders])

    def _scores(self, bins: Sequence[NDArray[np.intp]]) -> Iterator[NDArray[np.float64]]:
        for places, width, table in self._tables:
            index = bins[places[0]]
            for place in places[1:]:
                index = index * width + bins[place]
            yield table.take(index)


def shape_function_values(
    values: NDArray[np.float64], cuts: NDArray[np.float64], scores: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Score of a one-feature term at each value; NaN is a missing value."""
    scores_at: NDArray[np.float64] = scores[bin_of(values, cuts)]
    return scores_at


def _read_term(fields: Fields, features: int) -> Term:
    indices = fields.array("features", fields.items("features", most=2), 0, features - 1)
    if indices.size not in (1, 2) or not np.array_equal(indices, np.floor(indices)):
        raise fields.fail("features", "does not name one or two features")
    listed = fields.items("cuts", most=2)
    if len(listed) != indices.size:
        raise fields.fail("cuts", "does not fit the term's features")
    cuts = tuple(fields.array("cuts", item) for item in listed)
    if any(one.size > 1 and not (np.diff(one) > 0).all() for one in cuts):
        raise fields.fail("cuts", "does not rise strictly")
    shape = tuple(one.size + 3 for one in cuts)
    if np.prod([float(side) for side in shape]) > MAX_TABLE:
        raise fields.fail("cuts", f"makes a table of more than {MAX_TABLE} entries")
    tables = []
    optional_parts = [("spread", 0.0)] if fields.has("spread") else []
    for name, low in (("scores", -1e15), ("weights", 0.0), *optional_parts):
        table = fields.array(name, fields.raw(name), low, 1e15, dimensions=len(shape))
        if table.shape != shape:
            raise fields.fail(name, f"has shape {table.shape}, its cuts ask for {shape}")
        tables.append(table)
    return Term(tuple(int(i) for i in indices), cuts, *tables)


def require_features(scorer: AdditiveScorer, expected: Sequence[str], place: str) -> None:
    """Refuse a scorer with other features than those that will be computed for it."""
    if scorer.feature_names != tuple(expected):
        raise CorruptModelError(
            f"{place} reads the features {', '.join(scorer.feature_names[:5])}..., which do not fit its "
            f"feature state.",
            remedy="Fetch or train the model again.",
        )
