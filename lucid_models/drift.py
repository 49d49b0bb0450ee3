"""Whether new rows look like those that a model learned from: the population stability index (PSI).

    PSI = sum over bins of (live share - reference share) * ln(live share / reference share)

Bins come from the reference alone: quantiles of numbers (MOST_BINS; ties share one bin, a few different
values have a bin each, and so has what lies beyond them), the most frequent levels of texts. Quantile bins
are the same on every rising scale, so heavy tails need no transformation. By the usual reading (Siddiqi,
"Credit Risk Scorecards", 2006) less than 0.1 is no change and 0.25 or more a major one.

That reading is for many independent rows. Of few rows the index of an unchanged column is not 0: divided by
1/n + 1/m, for n and m rows, it follows about the chi-squared distribution of bins - 1 degrees of freedom
(Yurdakul, "Statistical Properties of the Population Stability Index", 2018). `Drift.limit` adds its mean to
what a shift must exceed, and is never below what one window in a thousand reaches by chance. And jobs come
in bursts of alike ones, so the windows of an unchanged log differ by more than that; `usual_psi` says by how
much those of the reference itself do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.float64]

MOST_BINS = 10
LEAST_ROWS = 100
# Pseudo-rows in every bin (Jeffreys): an empty bin is then as unlikely as so few rows can show, and the
# logarithm stays finite.
PSEUDO_ROWS = 0.5
OTHER, MISSING = "all others", "unknown"
# Deviations of the normal distribution that one in a thousand exceeds: a pass looks at a dozen columns.
CHANCE_DEVIATIONS = 3.09


@dataclass(frozen=True)
class Bin:
    """The share of reference and live rows (0 to 1) in one bin."""

    label: str
    reference: float
    live: float


@dataclass(frozen=True)
class Drift:
    """How far one column moved. `psi` is None where `note` says why there is no number.

    `usual_psi`: the largest PSI between one window of the reference and its other windows; None where there
    are fewer than two windows. `unseen_share`: share of live rows with a level that the reference lacks, and
    `usual_unseen_share` the same of the reference's last window against what came before it (texts only).
    """

    feature: str
    psi: float | None
    usual_psi: float | None
    unseen_share: float | None
    usual_unseen_share: float | None
    reference_rows: int
    live_rows: int
    bins: tuple[Bin, ...]
    note: str = ""

    def limit(self, shift: float) -> float:
        """The index from which on a column has moved by more than `shift` (an index of unlimited rows): with
        the noise of so few rows on top, and not by chance.
        """
        freedom = len(self.bins) - 1
        if freedom < 1:
            return shift
        # Wilson and Hilferty's approximation (1931) of the quantile.
        tail = 2.0 / (9.0 * freedom)
        highest = freedom * (1.0 - tail + CHANCE_DEVIATIONS * math.sqrt(tail)) ** 3
        rows = 1.0 / self.reference_rows + 1.0 / self.live_rows
        return max(shift + freedom * rows, highest * rows)

    def unseen_limit(self, share: float) -> float:
        """The share of unseen levels that `share` of a long run may reach by chance in so few rows."""
        return share + CHANCE_DEVIATIONS * math.sqrt(share * max(1.0 - share, 0.0) / self.live_rows)


def stability_index(reference: ArrayLike, live: ArrayLike) -> float:
    """PSI of two histograms over the same bins (counts, shape (bins,)); 0 for equal shares, never negative.

    Every bin of both counts PSEUDO_ROWS more rows than it has.
    """
    expected = np.asarray(reference, dtype=np.float64) + PSEUDO_ROWS
    live_shares = np.asarray(live, dtype=np.float64) + PSEUDO_ROWS
    expected, live_shares = expected / expected.sum(), live_shares / live_shares.sum()
    return float(((live_shares - expected) * np.log(live_shares / expected)).sum())


def window_numbers(times_s: ArrayLike, end_s: float, length_s: float) -> NDArray[np.int64]:
    """Number the windows of `length_s` seconds before `end_s` backwards from 0; -1 outside whole windows.

    The oldest window counts only if the times reach back to its beginning.
    """
    times = np.asarray(times_s, dtype=np.float64)
    numbers = np.floor((end_s - times) / length_s).astype(np.int64)
    numbers[times == end_s - length_s * numbers] -= 1  # a window includes its first instant
    whole = int((end_s - times.min(initial=end_s)) // length_s)
    return np.where((numbers >= 0) & (numbers < whole), numbers, -1)


def number_drift(
    feature: str, reference: ArrayLike, live: ArrayLike, windows: NDArray[np.int64] | None = None
) -> Drift:
    """Compare numbers (NaN: unknown, a bin of its own). `windows`: see `window_numbers`, of the reference."""
    old, new = np.asarray(reference, dtype=np.float64), np.asarray(live, dtype=np.float64)
    old_numbers = old[~np.isnan(old)]
    if not old_numbers.size:
        return _too_few(feature, 0, int((~np.isnan(new)).sum()))
    edges = quantile_edges(old_numbers)
    labels = [*_number_labels(edges, old_numbers), MISSING]
    places = [np.where(np.isnan(rows), len(labels) - 1, _bin_of(rows, edges)) for rows in (old, new)]
    return _compare(feature, labels, places[0], places[1], windows)


def level_drift(
    feature: str,
    reference: "Sequence[Any] | pd.Series[Any]",
    live: "Sequence[Any] | pd.Series[Any]",
    windows: NDArray[np.int64] | None = None,
) -> Drift:
    """Compare texts (None: unknown); the most frequent levels have bins of their own."""
    old, new = _texts(reference), _texts(live)
    counts = old.dropna().value_counts()
    # By count, then by name: equal counts must not depend on the order of rows.
    ranked = sorted(counts.index, key=lambda level: (-int(counts[level]), str(level)))
    shown = ranked[: MOST_BINS - 1]
    # What was never seen counts with the rare levels: its share has a figure of its own, and a bin that is
    # empty by definition would make every new name look like an upheaval.
    labels = [*shown, OTHER, MISSING]
    number = {level: place for place, level in enumerate(shown)}

    def places(rows: "pd.Series[Any]") -> NDArray[np.int64]:
        place = rows.map(number).fillna(len(shown)).mask(rows.isna(), len(shown) + 1)
        return place.to_numpy(dtype=np.int64)

    compared = _compare(feature, labels, places(old), places(new), windows)
    usual = None
    if windows is not None and windows.max(initial=-1) >= 1:
        before = set(old[windows != 0].dropna())
        usual = _unseen_share(old[windows == 0], before)
    unseen = _unseen_share(new, set(ranked)) if len(new) >= LEAST_ROWS else None
    return replace(compared, unseen_share=unseen, usual_unseen_share=usual)


def quantile_edges(values: Floats) -> Floats:
    """Upper ends of all bins but the last, rising.

    A few different values (at most MOST_BINS - 1) have a bin each; of more, one that fills a bin by itself
    does. When the lowest value fills a bin, what lies below it gets one too.
    """
    edges: Floats = np.unique(values)
    if edges.size >= MOST_BINS:
        inner = np.linspace(0.0, 1.0, MOST_BINS + 1)[1:-1]
        edges = np.unique(np.quantile(values, inner, method="inverted_cdf"))
    if edges[0] == values.min():
        edges = np.concatenate([[np.nextafter(edges[0], -np.inf)], edges])
    return edges


def _bin_of(values: Floats, edges: Floats) -> NDArray[np.int64]:
    return np.searchsorted(edges, values, side="left").astype(np.int64)


def _number_labels(edges: Floats, values: Floats) -> list[str]:
    labels = []
    place = _bin_of(values, edges)
    for number in range(len(edges) + 1):
        inside = values[place == number]
        if inside.size and inside.min() == inside.max():
            labels.append(_shown(float(inside[0])))
        elif number == 0:
            labels.append(
                f"up to {_shown(float(edges[0]))}" if inside.size else f"below {_shown(float(edges[0]))}"
            )
        elif number == len(edges):
            labels.append(f"above {_shown(float(edges[-1]))}")
        else:
            labels.append(f"{_shown(float(edges[number - 1]))} to {_shown(float(edges[number]))}")
    return labels


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _compare(
    feature: str,
    labels: Sequence[str],
    reference: NDArray[np.int64],
    live: NDArray[np.int64],
    windows: NDArray[np.int64] | None,
) -> Drift:
    if min(reference.size, live.size) < LEAST_ROWS:
        return _too_few(feature, reference.size, live.size)
    bins = len(labels)
    expected = np.bincount(reference, minlength=bins).astype(np.float64)
    live_counts = np.bincount(live, minlength=bins).astype(np.float64)
    present = (expected + live_counts) > 0
    shares = zip(labels, expected / expected.sum(), live_counts / live_counts.sum(), present, strict=True)
    return Drift(
        feature,
        stability_index(expected[present], live_counts[present]),
        _usual_psi(reference, windows, expected, present),
        None,
        None,
        int(reference.size),
        int(live.size),
        tuple(Bin(label, float(old), float(new)) for label, old, new, there in shares if there),
    )


def _usual_psi(
    reference: NDArray[np.int64],
    windows: NDArray[np.int64] | None,
    expected: Counts,
    present: NDArray[np.bool_],
) -> float | None:
    if windows is None:
        return None
    indices: list[float] = []
    for number in range(int(windows.max(initial=-1)) + 1):
        inside = np.bincount(reference[windows == number], minlength=expected.size).astype(np.float64)
        if inside.sum() >= LEAST_ROWS and expected.sum() - inside.sum() >= LEAST_ROWS:
            indices.append(stability_index((expected - inside)[present], inside[present]))
    return max(indices) if len(indices) >= 2 else None


def _too_few(feature: str, reference_rows: int, live_rows: int) -> Drift:
    note = f"too few rows: {reference_rows:,} in training, {live_rows:,} now, of {LEAST_ROWS} each"
    return Drift(feature, None, None, None, None, reference_rows, live_rows, (), note)


def _texts(values: "Sequence[Any] | pd.Series[Any]") -> "pd.Series[Any]":
    series = pd.Series(values, dtype=object).reset_index(drop=True)
    return series.where(series.isna(), series.astype(str))


def _unseen_share(rows: "pd.Series[Any]", seen: set[Any]) -> float | None:
    values = rows.dropna()
    return float((~values.isin(seen)).mean()) if len(values) else None
