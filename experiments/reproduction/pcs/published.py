"""What PCS (OSDI '24) published of its simulations, Figure 7: by trace and policy.

The figures are those that the authors' artifact holds for the plot. Mean JCT is relative to AFS on the same
trace; errors are per cent of what was foretold.
"""

from collections.abc import Mapping
from typing import NamedTuple

COLUMNS = ("afs", "srsf", "themis", "elastic_fifo", "pcs-jct", "pcs-bal", "pcs-pred")


class PublishedFigures(NamedTuple):
    """One bar of Figure 7."""

    jct: float  # mean JCT / that of AFS
    error_pct: float  # mean Pred_err
    p99_error_pct: float


def _row(jct: str, error: str, tail: str) -> dict[str, PublishedFigures]:
    columns = (tuple(map(float, text.split())) for text in (jct, error, tail))
    return {
        name: PublishedFigures(*figures)
        for name, figures in zip(COLUMNS, zip(*columns, strict=True), strict=True)
    }


# By the name of the virtual cluster of Philly that a trace was made of.
FIGURE_7: Mapping[str, Mapping[str, PublishedFigures]] = {
    "0e4a51": _row(
        "1 1.064 1.324 9.301 1.568 2.372 2.614",
        "25.632 26.619 47.967 0 5.568 1.371 0.8",
        "239.758 313.503 212.425 0 115.522 14.914 7.219",
    ),
    "b436b2": _row(
        "1 1.316 1.552 59.979 2.246 3.33 5.362",
        "83.816 86.569 43.32 0 1.272 0.375 0.172",
        "770.714 791.598 258.832 0 26.042 9.634 5.601",
    ),
    "6214e9": _row(
        "1 1.102 1.341 92.017 1.915 2.701 3.473",
        "77.429 85.343 38.49 0 10.536 2.398 0.437",
        "924.858 1030.017 273.523 0 250.193 58.091 11.922",
    ),
    "6c71a0": _row(
        "1 1.073 1.498 31.521 1.467 2.021 4.846",
        "16.963 18.358 40.007 0 4.935 2.006 1.446",
        "194.101 216.328 126.188 0 92.058 69.316 49.363",
    ),
    "2869ce": _row(
        "1 1.428 1.652 4.857 1.145 1.459 2.562",
        "9.027 11.166 33.82 0 4.045 1.407 0.4",
        "113.631 241.127 122.788 0 48.08 22.211 4.709",
    ),
    "ee9e8c": _row(
        "1 1.557 1.898 14.553 2.017 2.735 5.965",
        "29.431 69.837 54.048 0 8.504 4.593 0.975",
        "538.801 1535.729 510.721 0 207.113 54.937 5.185",
    ),
}
# The trace that the published configurations `fig7-jct` and `fig7-bal` were found for.
CONFIGURED_FOR = "0e4a51"

# Section 5.4 and Figure 9: minutes, for about a thousand simulations on ten servers of 20 cores.
FRONT_MINUTES, FRONT_SIMULATIONS, FRONT_CORES = 60, 1_000, 200


def trace_of(name: str) -> str | None:
    """Return the published trace that a file's name holds; None: it is another one."""
    return next((known for known in FIGURE_7 if known in name), None)
