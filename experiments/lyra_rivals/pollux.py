"""Pollux: workers by goodput, found by a genetic search (Qiao et al., OSDI '21), as Lyra compares it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.lyra_rivals.genetic_allocation import (
    GeneticSearch,
    ScalableDemand,
    search_allocation,
)
from experiments.lyra_rivals.goodput import drawn_goodputs
from foundation.errors import BadInputError
from parts.lending.workers.draft import Draft
from parts.lending.workers.job_workers import widest_first, workers_of
from parts.lending.workers.scalable_job import ScalableJob
from parts.lending.workers.server_pools import ServerPool
from parts.lending.workers.settings import Order, WorkerSettings
from parts.lending.workers.worker_policy import WorkerPolicy
from simulator.actions import Action
from simulator.job_view import JobView
from simulator.snapshot import Snapshot

# A search is among the first in line, which ask for so many times the free GPUs: its time must not grow with
# a queue most of which cannot start.
LOOKAHEAD = 4


@dataclass(frozen=True)
class PolluxSettings(WorkerSettings):
    """How long Pollux searches; it borrows no servers, and knows no run times.

    `generations`: 100 as its authors' (Lyra's paper lets it have 250). `population`, `patience` and
    `restart_penalty`: see `GeneticSearch`. `seed` draws the search, and the model of a job that does not say
    how it scales.
    """

    loaning: bool = False
    order: Order = "submission"
    generations: int = 100
    population: int = 40
    patience: int = 20
    restart_penalty: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.search()  # refuses what it cannot use
        if self.loaning:
            raise BadInputError(
                "Pollux borrows no servers.", remedy="Use loaning=false, or a policy that does (lyra)."
            )

    def search(self) -> GeneticSearch:
        """Return how to search."""
        return GeneticSearch(self.generations, self.population, self.patience, self.restart_penalty)


class Pollux(WorkerPolicy):
    """Waiting jobs start, and elastic ones scale, so that the sum of goodputs is as large as can be found.

    A job's goodput counts as a multiple of that on its fewest workers, so that to start a job is worth 1.
    Running jobs keep their fewest workers (Lyra, section 7.1: Pollux heeds minimum demands).
    """

    at_events_only = True  # each search draws anew
    Settings = PolluxSettings

    def __init__(self, settings: PolluxSettings | None = None) -> None:
        super().__init__(settings)
        self.oracle = self.needs_estimates = False
        self._search = self.settings.search()
        self._now_s = 0.0
        self._extra: Mapping[JobView, int] = {}

    def decide(self, snapshot: Snapshot) -> Sequence[Action]:
        """Search anew; each moment has draws of its own, so that nothing needs to be remembered."""
        self._now_s = snapshot.now_s
        return super().decide(snapshot)

    def start_jobs(self, draft: Draft) -> None:
        """Search for the workers of all jobs at once; start those that get any, widest workers first."""
        free_gpus = draft.plan.free_gpus(ServerPool.TRAINING)
        waiting, running = _first_in_line(draft.nodes.queue, free_gpus), [job.view for job in draft.running]
        views = running + waiting
        held_gpus = sum(gpus for job in draft.running for gpus in job.base.values())
        rng = np.random.default_rng([self.settings.seed, int(1000 * self._now_s)])
        demands = [self._demand(view) for view in views]
        counts = search_allocation(demands, free_gpus + held_gpus, self._search, rng)
        workers = dict(zip(views, counts, strict=True))
        self._extra = {view: max(0, count - workers_of(view).least) for view, count in workers.items()}
        for view in sorted((view for view in waiting if workers[view]), key=widest_first):
            draft.start(view, ServerPool.TRAINING)

    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Return what the search has given; what does not find room is not placed."""
        return [self._extra[job.drafted.view] for job in jobs]

    def _demand(self, view: JobView) -> ScalableDemand:
        workers = workers_of(view)
        gpus_each, least, most = workers.gpus_each, workers.least, workers.most
        goodputs: tuple[float, ...]
        if not (workers.elastic and self.settings.scaling):
            most, goodputs = least, (1.0,)
        elif workers.speed_ups is not None:
            goodputs = workers.speed_ups
        else:
            goodputs = drawn_goodputs(view.job.job_id, gpus_each, least, most, seed=self.settings.seed)
        held = 0 if view.placement is None else view.held_gpus // gpus_each
        return ScalableDemand(gpus_each, least, most, held, goodputs)


def _first_in_line(queue: Iterable[JobView], free_gpus: int) -> list[JobView]:
    """Return the jobs to search among: the first in line, which ask for several times what is free."""
    first, asked_gpus = [], 0
    for view in queue if free_gpus else ():
        first.append(view)
        asked_gpus += view.min_gpus
        if asked_gpus > LOOKAHEAD * free_gpus:
            break
    return first
