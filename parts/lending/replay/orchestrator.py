"""How many inference servers are on loan to training: Lyra's orchestrator."""

from math import ceil, inf, isfinite

import numpy as np
from numpy.typing import NDArray

from foundation.errors import BadInputError
from parts.lending.replay.settings import LoanSettings

SLACK = 1e-9  # a share times a number of servers is whole if it is so close to a whole number


def servers_of_use(servers_in_use: int, free_gpus: int, wanted_gpus: int, gpus_per_server: int) -> int:
    """Return how many servers on loan training jobs could use, for `lend = demand`.

    `servers_in_use` of those on loan run a worker and have `free_gpus` left. `wanted_gpus` are the GPUs there
    that loanable jobs wait for: base demand of queued jobs, and flexible demand that is not met.
    """
    return servers_in_use + -(-max(0, wanted_gpus - free_gpus) // gpus_per_server)


def share_of_servers(share: float, servers: int) -> int:
    """Return how many servers make up a share of them, rounded up; raises BadInputError for a bad share."""
    if not isfinite(share) or share < 0:
        raise BadInputError(
            f"The share of {servers} servers is {share!r}.", remedy="Use a number from 0 to 1."
        )
    return max(0, ceil(share * servers - SLACK))


def shares_of_servers(shares: NDArray[np.float64], servers: int) -> NDArray[np.int64]:
    """Return the same for many shares at once, which are finite and 0 or more; in their shape."""
    counts: NDArray[np.int64] = np.maximum(0, np.ceil(shares * servers - SLACK)).astype(np.int64)
    return counts


def most_to_lend(servers: int, needed: int, settings: LoanSettings) -> int:
    """Return how many inference servers can be spared: all but those that are needed and the headroom."""
    return max(0, servers - needed - share_of_servers(settings.headroom, servers))


def servers_to_lend(
    servers: int,
    needed: int,
    on_loan: int,
    settings: LoanSettings,
    *,
    of_use: int | None = None,
    since_reclaim_s: float = inf,
) -> int:
    """Return how many of the inference `servers` should be on loan now; against `on_loan`: lend or reclaim.

    `needed` of them serve inference (`share_of_servers` of the usage, or of the forecast if that is higher).
    The headroom is never lent. With `hysteresis_servers` so many are kept back when lending, and are there
    when inference needs more; servers are taken back only once they are used up. Within `hold_s` of the last
    reclaim (`since_reclaim_s` seconds ago) nothing is lent. `lend = demand` gives back what no job uses or
    wants, and needs `of_use` (`servers_of_use`).

    Raises BadInputError for numbers below zero and for a missing demand.
    """
    for name, value in (("servers", servers), ("needed", needed), ("on_loan", on_loan)):
        if value < 0:
            raise BadInputError(f"The number of servers {name} is {value!r}.", remedy="Use 0 or more.")
    can_lend = most_to_lend(servers, needed, settings)
    target = min(on_loan, can_lend)
    if since_reclaim_s >= settings.hold_s:
        target = max(target, can_lend - settings.hysteresis_servers)
    if settings.lend == "demand":
        if of_use is None:
            raise BadInputError(
                "lend is 'demand', and the demand of the training jobs is not given.",
                remedy="Give it, or use lend = 'capacity'.",
            )
        target = min(target, of_use)
    return target
