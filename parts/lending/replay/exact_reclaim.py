"""The fewest jobs preempted for so many servers, exactly: an integer programme.

    minimise  sum y_j    with  y_j >= x_s for each job j with base workers on server s,  sum x_s = count

x_s is 1 for a server that goes back; the y_j then come out whole. Jobs on the same servers are one variable,
and jobs on one server are part of its cost. Solved by HiGHS, as SciPy brings it. Where the greedy rule finds
as good a choice, that one is taken which leaves fewer GPUs idle on servers that stay.
"""

from collections import Counter
from math import inf

import numpy as np

from parts.lending.replay.greedy_reclaim import pick_greedily
from parts.lending.replay.reclaim_orders import BaseLayout

SOLVED = 0  # the status of scipy.optimize.milp
MOST_NODES = 1000  # of the search tree, so that no decision of a replay, which has no clock, takes for ever


def pick_exactly(layout: BaseLayout, count: int, limit_s: float | None = None) -> tuple[list[int], bool]:
    """Return `count` servers that preempt the fewest jobs, in the order of ids, and whether that is proven.

    It is not where the solver is missing or takes longer than `limit_s`: then the better of what it has and
    of `pick_greedily` is returned. The layout has more than `count` servers.
    """
    greedy = pick_greedily(layout, count)
    solution, proven = _solve(layout, count, limit_s)
    if solution is None:
        return greedy, False
    return min(greedy, solution, key=layout.cost), proven


def _solve(layout: BaseLayout, count: int, limit_s: float | None) -> tuple[list[int] | None, bool]:
    try:  # a light client does without SciPy
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array
    except ImportError:
        return None, False
    servers = len(layout.gpus_on)
    together = Counter(tuple(where) for where in layout.servers_of)  # jobs by the servers that they are on
    wide = sorted(where for where in together if len(where) > 1)
    costs = [together[server,] for server in range(servers)] + [together[where] for where in wide]
    # A row for each y_j >= x_s, and one for the number of servers.
    pairs = [(servers + job, server) for job, where in enumerate(wide) for server in where]
    rows = [row for row in range(len(pairs)) for _ in range(2)] + [len(pairs)] * servers
    columns = [column for pair in pairs for column in pair] + list(range(servers))
    entries = [1.0, -1.0] * len(pairs) + [1.0] * servers
    result = milp(
        np.array(costs, dtype=float),
        constraints=LinearConstraint(
            coo_array((entries, (rows, columns))).tocsc(),
            np.array([0.0] * len(pairs) + [count]),
            np.array([inf] * len(pairs) + [count]),
        ),
        integrality=np.repeat([1, 0], [servers, len(wide)]),
        bounds=Bounds(0, 1),
        options={
            "mip_rel_gap": 0.0,
            "node_limit": MOST_NODES,
            **({} if limit_s is None else {"time_limit": limit_s}),
        },
    )
    if result.x is None:
        return None, False
    return [int(server) for server in np.flatnonzero(result.x[:servers] > 0.5)], result.status == SOLVED
