"""How evenly a schedule treats users and virtual clusters."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError

if TYPE_CHECKING:
    import pandas as pd


def jain_index(values: ArrayLike) -> float:
    """Return Jain's index of what each party got: (sum x)^2 / (n sum x^2), from 1/n to 1.

    1: all got the same; k/n: k of n got the same and the others nothing. It does not depend on the unit of
    `values` (shape (n,), finite, >= 0). No party, or nothing for any: 1.

    Jain, Chiu, Hawe, "A quantitative measure of fairness and discrimination for resource allocation in shared
    computer systems" (DEC-TR-301, 1984), section 2.
    """
    shares = np.asarray(values, dtype=np.float64)
    if shares.ndim != 1 or not np.isfinite(shares).all() or (shares < 0).any():
        raise BadInputError(
            f"Jain's index of {shares!r}.", remedy="Give one finite number of 0 or more a party."
        )
    largest = shares.max(initial=0.0)
    if not largest:
        return 1.0
    shares = shares / largest  # squares of very small or large numbers would leave the range of floats
    return min(1.0, float(shares.sum() ** 2 / (len(shares) * (shares**2).sum())))


def progress_rates(slowdowns: NDArray[np.float64], groups: "pd.Series[Any]") -> NDArray[np.float64]:
    """Return each group's mean progress rate, in (0, 1], by the order of names; without a name: left out.

    A job's progress rate is the inverse of its slowdown: run time alone over time in the system ("normalised
    progress", Eyerman and Eeckhout, "System-level performance metrics for multiprogram workloads", IEEE Micro
    28(3), 2008). Jain's index is meant for such a quantity: bounded, and better when higher. An index of mean
    slowdowns would hang on the one user with the shortest job in the longest queue.
    """
    import pandas as pd

    means = pd.Series(1.0 / slowdowns).groupby(groups.array, sort=True, dropna=True).mean()
    return np.asarray(means, dtype=np.float64)
