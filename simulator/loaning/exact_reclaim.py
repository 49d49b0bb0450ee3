"""The fewest jobs preempted for so many servers, exactly: an integer programme.

    minimise  sum y_j    with  y_j >= x_s for each job j with base workers on server s,  sum x_s = count

x_s is 1 for a server that goes back; the y_j then come out whole. Of equally few jobs those are taken that
leave the fewest GPUs idle on servers that stay. Jobs on the same servers are one variable, and jobs on one
server are part of its cost. Solved by HiGHS, as SciPy brings it.
"""

from collections import Counter
from importlib.util import find_spec
from math import inf

import numpy as np

from simulator.loaning.base_layout import BaseLayout
from simulator.loaning.greedy_reclaim import pick_greedily

SOLVED, OUT_OF_TIME = 0, 1  # states of scipy.optimize.milp


def solver_is_there() -> bool:
    """Return whether the solver is installed; a light client may do without."""
    return find_spec("scipy") is not None


def pick_exactly(layout: BaseLayout, count: int, limit_s: float | None = None) -> tuple[list[int], bool]:
    """Return `count` servers that preempt the fewest jobs, and whether that is proven.

    It is not where the solver is missing or takes longer than `limit_s`: then the better of what it has and
    of `pick_greedily` is returned.
    """
    if count >= len(layout.gpus_on):
        return list(range(len(layout.gpus_on))), True
    solution, proven = _solve(layout, count, limit_s) if solver_is_there() else (None, False)
    if proven and solution is not None:
        return solution, True
    greedy = pick_greedily(layout, count)
    return greedy if solution is None else min(greedy, solution, key=layout.cost), False


def _solve(layout: BaseLayout, count: int, limit_s: float | None) -> tuple[list[int] | None, bool]:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    servers = len(layout.gpus_on)
    together: Counter[tuple[int, ...]] = Counter()  # jobs on the very same servers
    gpus: Counter[tuple[int, ...]] = Counter()
    for of_job, gpus_of_job in zip(layout.servers_of, layout.gpus_of, strict=True):
        together[tuple(of_job)] += 1
        gpus[tuple(of_job)] += gpus_of_job
    per_gpu = 1 / (2 * sum(layout.gpus_of))  # so that all collateral GPUs weigh less than one job
    wide = sorted(where for where in together if len(where) > 1)
    costs = np.empty(servers + len(wide))
    for server, gpus_by_job in enumerate(layout.gpus_on):
        alone = (server,)
        costs[server] = together[alone] + per_gpu * (gpus[alone] - sum(gpus_by_job.values()))
    costs[servers:] = [together[where] + per_gpu * gpus[where] for where in wide]
    pairs = [(servers + column, server) for column, where in enumerate(wide) for server in where]
    rows = np.arange(len(pairs))
    entries = np.concatenate([np.ones(len(pairs)), -np.ones(len(pairs)), np.ones(servers)])
    columns = np.concatenate([np.array(pairs, dtype=int).reshape(-1, 2).T.ravel(), np.arange(servers)])
    row_of = np.concatenate([rows, rows, np.full(servers, len(pairs))])
    least = np.zeros(len(pairs) + 1)
    most = np.full(len(pairs) + 1, inf)
    least[-1] = most[-1] = count
    result = milp(
        costs,
        constraints=LinearConstraint(coo_array((entries, (row_of, columns))).tocsc(), least, most),
        integrality=np.repeat([1, 0], [servers, len(wide)]),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0} | ({} if limit_s is None else {"time_limit": limit_s}),
    )
    if result.x is None:
        return None, False
    return [int(server) for server in np.flatnonzero(result.x[:servers] > 0.5)], result.status == SOLVED
