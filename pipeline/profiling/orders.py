"""The orders in which pairs can be measured, by name; what each is worth: docs/profiling.md."""

from enum import StrEnum
from typing import TYPE_CHECKING

from foundation.errors import check_names

if TYPE_CHECKING:  # a command line that only names them starts without NumPy
    from profiler_jobs.plan import PairRanking


class PairOrder(StrEnum):
    """How pairs are put in order."""

    SPACE_FILLING = "space-filling"
    UNCERTAINTY = "uncertainty"
    UNCERTAINTY_DIVERSE = "uncertainty-diverse"


def ranking_of(order: str) -> "PairRanking | None":
    """Return the ranking of an order; None: the one that needs no model. Raises UnknownNameError."""
    check_names("order of pairs", [order], [str(each) for each in PairOrder])
    if order == PairOrder.SPACE_FILLING:
        return None
    from pipeline.profiling.uncertainty import Uncertainty

    return Uncertainty(diverse=order == PairOrder.UNCERTAINTY_DIVERSE)
