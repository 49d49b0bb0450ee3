"""AFS-L without further arrivals: when a job ends.

A job that can use one GPU only keeps it once it has it, so it ends when it does at that speed. Contests count
for the others only.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf

from parts.elastic.active_job import ActiveJob, to_microsecond
from parts.elastic.rules.afs_tournament import Player, contest
from simulator.workload.speed_up import SpeedUp


def start_and_contest(players: list[Player], gpus: int) -> None:
    """Give each player (all can use more) a first GPU, and let them contest so many others."""
    for player in players:
        player.take()
    contest(players.copy(), gpus)


class AfsDrain:
    """A pool that only becomes emptier."""

    def __init__(self, gpus: int, running: Iterable[ActiveJob], active: int, demand: int) -> None:
        self.gpus = gpus
        self.active = active  # jobs
        self.demand = demand  # of all of them (GPUs)
        self.now_s = inf  # of the last end; there was none yet
        self.ends = [(job.end_at_s, job.index, _Runner(job)) for job in running]  # a heap
        heapify(self.ends)

    def start_waiting(self, job: ActiveJob, waiting: Iterable[ActiveJob]) -> float | None:
        """Play on while there are as many jobs as GPUs; returns when a job ends if that is known by then."""
        ends = self.ends
        starting = iter(waiting)
        while self.active >= self.gpus:
            now_s, index, ended = heappop(ends)
            if index == job.index:
                return now_s
            self.active -= 1
            self.demand -= ended.demand
            self.now_s = now_s
            if self.active >= self.gpus:
                started = next(starting)
                runner = _Runner(started)
                end_s = runner.hold(1, now_s)
                if started is job and job.demand == 1:
                    return end_s
                heappush(ends, (end_s, started.index, runner))
        return None

    def contest_until(self, index: int) -> float:
        """Play on with fewer jobs than GPUs, all of which run; returns when the one of this index ends."""
        ends = [(end_s, at) for end_s, at, runner in self.ends if runner.demand == 1]
        heapify(ends)
        contestants = {at: runner for _, at, runner in sorted(self.ends, key=_index) if runner.demand > 1}
        now_s = self.now_s
        if now_s < inf:
            self._contest(contestants, now_s)
        while self.demand > self.gpus:
            end_s, ended = min([(runner.end_s, at) for at, runner in contestants.items()])
            if ends and ends[0] < (end_s, ended):
                now_s, ended = heappop(ends)
                self.demand -= 1
            else:
                now_s = end_s
                if ended == index:
                    return now_s
                self.demand -= contestants.pop(ended).demand
            self.active -= 1
            self._contest(contestants, now_s)
        return contestants[index].end_s

    def _contest(self, contestants: dict[int, "_Runner"], now_s: float) -> None:
        if self.demand <= self.gpus:
            for runner in contestants.values():
                runner.hold(runner.demand, now_s)
            return
        players = [
            Player(at, runner.demand, runner.speed_up, runner.remaining_at(now_s))
            for at, runner in contestants.items()
        ]
        start_and_contest(players, self.gpus - self.active)
        for player in players:
            contestants[player.at].hold(player.gpus, now_s)


class _Runner:
    """A job in a pool without further arrivals."""

    __slots__ = ("demand", "end_s", "gpus", "rate", "remaining_s", "since_s", "speed_up")

    def __init__(self, job: ActiveJob) -> None:
        self.demand = job.demand
        self.speed_up: SpeedUp = job.speed_up
        self.gpus = job.gpus
        self.rate = job.rate
        self.remaining_s = job.remaining_s
        self.since_s = job.since_s
        self.end_s = job.end_at_s

    def remaining_at(self, now_s: float) -> float:
        return max(0.0, self.remaining_s - self.rate * (now_s - self.since_s))

    def hold(self, gpus: int, now_s: float) -> float:
        """Hold so many GPUs; returns when it ends."""
        if gpus != self.gpus:
            self.remaining_s = self.remaining_at(now_s)
            self.since_s = now_s
            self.gpus = gpus
            self.rate = self.speed_up.at(gpus)
            self.end_s = to_microsecond(now_s + self.remaining_s / self.rate)
        return self.end_s


def _index(entry: tuple[float, int, _Runner]) -> int:
    return entry[1]
