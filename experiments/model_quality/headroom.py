"""Which headroom keeps shortages of inference servers under an operator's limit, tried on a history.

Every step the orchestrator lends what inference will not need: all servers less the larger of the usage of
the newest finished step and of what was said of the next one, less the headroom (Lyra, sections 3 and 6). A
step is short where inference then needs servers that are lent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.errors import BadInputError
from parts.lending.replay.orchestrator import share_of_servers, shares_of_servers

LAST_VALUE = "last value"
HEADROOMS = tuple(round(0.005 * step, 3) for step in range(41))

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HeadroomOutcome:
    """What a forecast and a headroom (share of the servers that is never lent) would have meant.

    `short_share` of the `steps` lacked servers; `mean_short` and `p99_short` servers over all steps;
    `mean_lendable` servers could be lent.
    """

    forecast: str
    headroom: float
    steps: int
    short_share: float
    mean_short: float
    p99_short: float
    mean_lendable: float


@dataclass(frozen=True, slots=True)
class HeadroomChoice:
    """The outcome that was chosen, and the curve that it was chosen from, by forecast and headroom.

    `holds`: the chosen one is within the limit; else it is the one that is short least often.
    """

    chosen: HeadroomOutcome
    holds: bool
    curve: tuple[HeadroomOutcome, ...]


def headroom_outcome(
    usage: ArrayLike, believed: ArrayLike | None, servers: int, headroom: float, *, forecast: str = LAST_VALUE
) -> HeadroomOutcome:
    """What lending by a forecast and a headroom would have meant on a history of `usage` (0 to 1).

    `believed[i]` was said of step i before it began; None: the last value alone is known. Both of shape
    (steps,); the first step, before which nothing is known, is left out. Raises BadInputError for shapes or
    values that cannot be used.
    """
    used = _shares(usage, "usage")
    if used.size < 2 or servers < 1:
        raise BadInputError(
            f"{used.size} steps of {servers} servers say nothing of headroom.",
            remedy="Give two steps and one server at least.",
        )
    known = used[:-1]
    if believed is not None:
        said = _shares(believed, "forecast")
        if said.size != used.size:
            raise BadInputError(
                f"{said.size} forecasts were given for {used.size} steps.", remedy="Give one a step."
            )
        known = np.maximum(known, said[1:])
    lendable = np.maximum(
        0, servers - shares_of_servers(known, servers) - share_of_servers(headroom, servers)
    )
    short = np.maximum(0, lendable + shares_of_servers(used[1:], servers) - servers)
    return HeadroomOutcome(
        forecast,
        headroom,
        int(short.size),
        float((short > 0).mean()),
        float(short.mean()),
        float(np.quantile(short, 0.99)),
        float(lendable.mean()),
    )


def choose_headroom(
    usage: ArrayLike,
    forecasts: Mapping[str, ArrayLike | None],
    servers: int,
    most_short_share: float,
    *,
    headrooms: Sequence[float] = HEADROOMS,
) -> HeadroomChoice:
    """The forecast and headroom that would have lent the most with at most `most_short_share` of steps short.

    `forecasts`: by name what was said of each step before it began (shape (steps,), for example each upper
    quantile of a model), or None for the last value. Of equals the smaller headroom, and the earlier forecast
    is chosen. Raises BadInputError for a limit outside 0 and 1, and as `headroom_outcome`.
    """
    if not 0 <= most_short_share <= 1:
        raise BadInputError(
            f"At most {most_short_share!r} of the steps may be short.",
            remedy="Use a share from 0 to 1: 0.01.",
        )
    if not forecasts or not headrooms:
        raise BadInputError("There is no forecast or no headroom to choose from.")
    curve = tuple(
        headroom_outcome(usage, believed, servers, headroom, forecast=name)
        for name, believed in forecasts.items()
        for headroom in sorted(headrooms)
    )
    within = [outcome for outcome in curve if outcome.short_share <= most_short_share]
    if within:
        return HeadroomChoice(max(within, key=lambda one: (one.mean_lendable, -one.headroom)), True, curve)
    return HeadroomChoice(min(curve, key=lambda one: (one.short_share, one.headroom)), False, curve)


def _shares(values: ArrayLike, what: str) -> _Floats:
    shares = np.asarray(values, dtype=np.float64)
    if shares.ndim != 1 or not np.isfinite(shares).all() or (shares.size and not shares.min() >= 0):
        raise BadInputError(f"A {what} is no list of numbers from 0 on.", remedy="Give one share a step.")
    if shares.size and shares.max() > 1:
        raise BadInputError(f"A {what} is {shares.max():g}.", remedy="Use shares up to 1.")
    return shares
