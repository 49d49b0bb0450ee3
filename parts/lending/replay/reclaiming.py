"""Which servers on loan go back to inference, and which jobs that preempts (Lyra, section 4).

Idle servers first, then those with flexible workers only: their jobs run on with fewer: none is preempted.
What else is picked preempts the jobs that have base workers there, and a rule says which:

    exact      the fewest jobs preempted (`exact_reclaim`), by a solver; `greedy` where it is missing or late
    greedy     the best of three orders of picking, with swaps (`greedy_reclaim`)
    reference  the paper's: pick by pick by server fractions (`reclaim_orders`)

The paper's rivals look at all servers at once: "scf" takes those where the fewest jobs have base workers,
"random" any, "highest" the highest ids, blind to jobs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Generic

from foundation.errors import BadInputError, UnknownNameError
from parts.lending.replay.exact_reclaim import pick_exactly
from parts.lending.replay.greedy_reclaim import pick_greedily
from parts.lending.replay.reclaim_orders import BaseLayout, JobT, pick_in_order
from parts.lending.replay.settings import RECLAIM


@dataclass(frozen=True, slots=True)
class LoanedServer(Generic[JobT]):
    """A server on loan: the GPUs that each job's base and flexible workers hold on it."""

    id: int
    base: Mapping[JobT, int] = field(default_factory=dict)
    flexible: Mapping[JobT, int] = field(default_factory=dict)

    @property
    def used_gpus(self) -> int:
        """Return the GPUs that are in use."""
        return sum(self.base.values()) + sum(self.flexible.values())


@dataclass(frozen=True, slots=True)
class ReclaimChoice(Generic[JobT]):
    """Servers to give back, by id in the order of picking, and what that does to the jobs.

    `preempted` leave all their servers, in the order in which the picks name them. `scaled_in` are the GPUs
    that flexible workers of other jobs lose, by job and server (whole workers are the caller's to round).
    `collateral_gpus` are the GPUs of preempted jobs' base workers on servers that are not given back.
    `optimal`: fewer preempted jobs are proven to be impossible.
    """

    picks: tuple[int, ...]
    preempted: tuple[JobT, ...]
    scaled_in: Mapping[tuple[JobT, int], int]
    collateral_gpus: int
    optimal: bool


def choose_reclaim(
    servers: Sequence[LoanedServer[JobT]],
    count: int,
    rule: str = "exact",
    *,
    seed: int = 0,
    limit_s: float | None = None,
) -> ReclaimChoice[JobT]:
    """Return which `count` servers to give back; all of them where there are fewer.

    `seed` is of the rule "random": use another for each decision. `limit_s` bounds the solver of "exact";
    None lets it take its time, so that a replay is the same on every machine. The picks depend neither on
    the order of `servers` nor on that of their jobs.

    Raises UnknownNameError for the rule, BadInputError for a count or GPUs below zero and for an id that
    stands twice.
    """
    if rule not in RECLAIM:
        raise UnknownNameError("rule of reclaiming", rule, RECLAIM)
    if count < 0:
        raise BadInputError(f"The number of servers to reclaim is {count}.", remedy="Use 0 or more.")
    in_order = sorted(servers, key=lambda server: server.id)
    _check(in_order)
    count = min(count, len(in_order))
    optimal = count == len(in_order)
    if rule == "highest":
        picked = in_order[::-1][:count]
    elif rule == "random":
        picked = Random(seed).sample(in_order, count)  # noqa: S311  (a simulated rival, no secret)
    elif rule == "scf":
        picked = sorted(in_order, key=lambda server: len(_jobs(server)))[:count]
    else:
        picked, optimal = _harmless_first(in_order, count, rule, limit_s)
    return _consequences(in_order, picked, optimal)


def _check(in_order: Sequence[LoanedServer[JobT]]) -> None:
    for before, server in pairwise(in_order):
        if before.id == server.id:
            raise BadInputError(f"Server {server.id} is on loan twice.", remedy="Name each server once.")
    for server in in_order:
        for job, gpus in (*server.base.items(), *server.flexible.items()):
            if gpus < 0:
                raise BadInputError(f"Job {job!r} holds {gpus} GPUs on server {server.id}.")


def _jobs(server: LoanedServer[JobT]) -> list[JobT]:
    return [job for job, gpus in server.base.items() if gpus]


def _harmless_first(
    in_order: Sequence[LoanedServer[JobT]], count: int, rule: str, limit_s: float | None
) -> tuple[list[LoanedServer[JobT]], bool]:
    """Return the picks of a rule that looks at jobs, and whether no others preempt fewer of them."""
    harmless = sorted(
        (server for server in in_order if not _jobs(server)), key=lambda server: (server.used_gpus, server.id)
    )[:count]
    count -= len(harmless)
    if not count:
        return harmless, True
    busy = [server for server in in_order if _jobs(server)]
    layout = BaseLayout.of([server.base for server in busy])
    if rule == "reference":
        places, optimal = pick_in_order(layout, count), count == len(busy)
    elif rule == "greedy":
        places, optimal = pick_greedily(layout, count), count == len(busy)
    else:
        places, optimal = pick_exactly(layout, count, limit_s)
    return harmless + [busy[place] for place in places], optimal


def _consequences(
    in_order: Sequence[LoanedServer[JobT]], picked: Sequence[LoanedServer[JobT]], optimal: bool
) -> ReclaimChoice[JobT]:
    preempted = dict.fromkeys(job for server in picked for job in _jobs(server))
    picks = tuple(server.id for server in picked)
    given = set(picks)
    return ReclaimChoice(
        picks=picks,
        preempted=tuple(preempted),
        scaled_in={
            (job, server.id): gpus
            for server in picked
            for job, gpus in server.flexible.items()
            if gpus and job not in preempted
        },
        collateral_gpus=sum(
            gpus
            for server in in_order
            if server.id not in given
            for job, gpus in server.base.items()
            if job in preempted
        ),
        optimal=optimal or not preempted,
    )
