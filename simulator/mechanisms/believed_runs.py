"""The running jobs of a pool by when they are believed to end, kept from one decision to the next."""

from collections.abc import Iterable
from math import inf

from simulator.cluster.placement import NOWHERE, FreeGpus
from simulator.job_view import JobView, outlasting
from simulator.mechanisms.backfill import SHORTEST_BELIEF_S, Reservation, Run, Runs, doubled
from simulator.snapshot import NodePool


class BelievedRuns:
    """Runs as they are believed to last (`JobView.request_s`); a pair's GPUs are one run's.

    What is believed of a run stands until it is outlived, or has another partner. So a decision costs what
    began and ended since the last one, not what runs.
    """

    def __init__(self) -> None:
        self._runs = Runs(doubled)
        self._running: dict[JobView, None] = {}  # the pool's own, which changes as jobs begin and end
        self._in_order: list[JobView] = []  # what it held at the last look
        self._checked_s = -inf
        self._known: set[JobView] = set()
        self._partners: dict[JobView, JobView] = {}  # of each other
        self._doubted_s: dict[JobView, float] = {}  # when the first of a pair outlives its request
        # The last reservation: of which job, beside what free GPUs. It stands as long as the runs.
        self._reserved: tuple[JobView, tuple[list[int], list[int]], Reservation] | None = None

    def reserve(self, job: JobView, plan: FreeGpus, begun: list[Run]) -> Reservation:
        """Reserve GPUs for a job that does not fit (`Runs.reserve`), beside the runs as of the last look."""
        if begun:
            return self._runs.reserve(job, plan, begun)
        offer = plan.offer()
        if self._reserved is None or self._reserved[0] is not job or self._reserved[1] != offer:
            self._reserved = job, offer, self._runs.reserve(job, plan, begun)
        return self._reserved[2]

    def ended_by(self, at_s: float) -> list[Run]:
        """Return the runs that are believed to have ended by then."""
        return self._runs.ended_by(at_s)

    def look(self, pool: NodePool, now_s: float) -> None:
        """Take note of what runs in the pool, and of what has outlived what was believed of it."""
        running = pool.running
        in_order = list(running)
        if in_order != self._in_order or self._runs.first_end_s <= now_s:
            unknown: Iterable[JobView] = self._forget_outlived(now_s)
            if running is self._running:
                unknown = [*unknown, *self._forget_changed(running)]
            else:
                unknown = self._forget_unlike(running)
            for job in unknown:
                if job in running and job not in self._known:
                    self._believe(job, now_s)
            self._running, self._in_order, self._checked_s = running, in_order, now_s
            self._reserved = None

    def _forget(self, job: JobView) -> list[JobView]:
        """Forget a job and its partner; return them."""
        forgotten = [job]
        partner = self._partners.pop(job, None)
        if partner is not None:
            del self._partners[partner]
            forgotten.append(partner)
        for each in forgotten:
            self._known.discard(each)
            self._doubted_s.pop(each, None)
            self._runs.discard(each)
        return forgotten

    def _forget_outlived(self, now_s: float) -> list[JobView]:
        outlived = [run.job for run in self._runs.ended_by(now_s)]
        outlived += [job for job, doubted_s in self._doubted_s.items() if doubted_s <= now_s]
        return [each for job in outlived for each in self._forget(job)]

    def _forget_changed(self, running: dict[JobView, None]) -> list[JobView]:
        """Forget the jobs that have left or begun, and their partners; return them."""
        changed = list(self._known.difference(running))
        for job in reversed(running):  # in the order of their start
            if job.start_time_s < self._checked_s:
                break
            changed.append(job)
            if job.partner is not None:
                changed.append(job.partner)
        return [each for job in changed for each in self._forget(job)]

    def _forget_unlike(self, running: dict[JobView, None]) -> Iterable[JobView]:
        """Forget all but those that run alone as they did; return all that run.

        For a live scheduler, which hands over what runs anew at each reading.
        """
        starts = {run.job: run.start_s for run in self._runs}
        for job in [
            job
            for job in self._known
            if job in self._partners
            or job.partner is not None
            or job not in running
            or job.start_time_s != starts[job]
        ]:
            self._forget(job)
        return running

    def _believe(self, job: JobView, now_s: float) -> None:
        """Take note of a run as it is believed to last from now on, with its partner."""
        left_s = _left_s(job, now_s)
        self._known.add(job)
        partner = job.partner
        if partner is not None:
            self._known.add(partner)
            self._partners[job], self._partners[partner] = partner, job
            job = job if job.counts_for_pair else partner
            partner_left_s = _left_s(partner, now_s)
            self._doubted_s[job] = now_s + min(left_s, partner_left_s)
            left_s = max(left_s, partner_left_s)
        start_s = job.start_time_s
        self._runs.add(Run(job, start_s, job.placement or NOWHERE, now_s + left_s - start_s))


def _left_s(job: JobView, now_s: float) -> float:
    attained_s = job.attained_at(now_s)
    return outlasting(max(SHORTEST_BELIEF_S, job.request_s), attained_s) - attained_s
