"""The jobs that wait, by GPU demand, and the first of a demand that is believed to run at most so long.

Each demand of a pool has a tournament tree over its jobs in the order of submission; their places are known
beforehand: a leaf has the belief of a job that waits, and infinity for any other.
"""

from simulator.compiled.loops.jit import compiled, inlined
from simulator.compiled.loops.world import Demands


@inlined
def put(demands: Demands, job: int, belief_s: float) -> None:
    """Write down how long a job that waits is believed to run; infinite: it waits no longer."""
    kind = demands.of[job]
    least, at = demands.least, demands.tree_at[kind]
    node = demands.leaves[kind] + demands.place[job]
    least[at + node] = belief_s
    while node > 1:
        other = least[at + (node ^ 1)]
        if other < belief_s:
            belief_s = other
        node >>= 1
        # The least of this half is what it was: nothing changes further up.
        if least[at + node] == belief_s:
            return
        least[at + node] = belief_s


@inlined
def first(demands: Demands, kind: int, limit_s: float) -> int:
    """Return the earliest job of a demand with a belief of at most `limit_s`; -1 when there is none."""
    least, at, leaves = demands.least, demands.tree_at[kind], demands.leaves[kind]
    if not least[at + 1] <= limit_s:
        return -1
    node = 1
    while node < leaves:
        node *= 2
        if least[at + node] > limit_s:
            node += 1
    return demands.jobs[demands.jobs_at[kind] + node - leaves]


@compiled
def shortest(demands: Demands, kind: int, limit_s: float) -> int:
    """Return the job that is believed to be shortest, the earliest of equals, if it is `limit_s` at most."""
    belief_s = demands.least[demands.tree_at[kind] + 1]
    return first(demands, kind, belief_s) if belief_s <= limit_s else -1


@inlined
def belief_of(demands: Demands, job: int) -> float:
    """Return how long a job that waits is believed to run."""
    kind = demands.of[job]
    return demands.least[demands.tree_at[kind] + demands.leaves[kind] + demands.place[job]]
