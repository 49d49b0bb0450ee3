"""One queue of weighted fair queuing, played forward with nothing more being submitted.

As long as a job waits in a queue, its demand does not matter to any share; and as long as its share
does not change, an end in it concerns two jobs: the one at the edge, which holds what is left, and the first
that waits. So a queue is played on its own, an end at a time.

The arithmetic is that of `ActiveJob.hold` and `WeightedFairQueuing.allocate`, operation by operation: ends
are the same floats as those of a plain simulation.
"""

from enum import Enum
from heapq import heapify, heappop, heappush, heapreplace
from math import inf

from parts.elastic.active_job import ActiveJob, to_microsecond
from parts.elastic.rules.fair_queue import FairQueue
from parts.elastic.rules.relaxing import lowest_level
from parts.elastic.rules.water_filling import NO_GPUS

# (end (s), index, GPUs held = the cap, since (s), work left then (s), the job)
Held = tuple[float, int, float, float, float, ActiveJob]


class Stop(Enum):
    """Why `QueueDrain.run` went no further."""

    GOAL = "the job that was asked for has ended"
    UNTIL = "the next end comes later"
    LAST = "the next end gives the last job that waits its turn"


class QueueDrain:
    """A queue that is played forward; the jobs themselves are only read.

    Jobs are served in order: `ends` is a heap of those that hold as much as their caps allow, `part` is the
    one that holds what is left, if anything is, and `jobs[at:]` wait.
    """

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.arrived = queue.arrived
        self.gone = queue.gone
        self.jobs = queue.jobs
        self.at = queue.served
        self.demand = queue.demand
        self.share = queue.share
        self.level = level = queue.level
        self.now_s = 0.0
        self.ends: list[Held] = []
        self.part: ActiveJob | None = None
        self.part_end_s = inf
        self.held = self.rate = self.since_s = self.remaining_s = 0.0  # of `part`
        self.paused: dict[int, float] = {}  # by index: work left (s) of jobs that wait again
        left = queue.share
        for job in queue.jobs[: queue.served]:
            gpus = job.gpus
            if gpus == job.caps[level]:
                self.ends.append((job.end_at_s, job.index, gpus, job.since_s, job.remaining_s, job))
                left -= gpus
            else:
                self.part = job
                self.held, self.rate = gpus, job.rate
                self.since_s, self.remaining_s, self.part_end_s = job.since_s, job.remaining_s, job.end_at_s
        self.left = left  # what the jobs that hold their caps leave over
        done = queue.done_without_gpus()
        if done:
            self.ends += [(job.end_at_s, job.index, 0.0, job.since_s, 0.0, job) for job in done]
            self.jobs = [job for job in self.jobs[self.at :] if job not in done]
            self.at = 0
        heapify(self.ends)
        # GPUs that all could be given, but for those with their work done
        self.load = sum([job.caps[level] for job in queue.jobs]) - sum([job.caps[level] for job in done])

    def copy(self) -> "QueueDrain":
        """Return a copy that plays on its own."""
        other = QueueDrain.__new__(QueueDrain)
        other.__dict__.update(self.__dict__)
        other.ends = self.ends.copy()
        other.paused = self.paused.copy()
        return other

    def catch_up(self) -> bool:
        """Take note of jobs that were submitted since; returns whether what was played holds all the same."""
        queue = self.queue
        new = queue.arrived - self.arrived
        own_list = self.jobs is not queue.jobs
        if not own_list:
            self.at -= queue.gone - self.gone
        if new:
            if own_list or self.level or self.at >= len(self.jobs) - new:
                return False
            for job in self.jobs[-new:]:
                self.load += job.caps[0]
                self.demand += job.demand
        self.arrived, self.gone = queue.arrived, queue.gone
        return True

    def head(self) -> tuple[float, int]:
        """Return the next end (s) and the job that ends."""
        top = self.ends[0][:2] if self.ends else (inf, -1)
        return top if self.part is None else min(top, (self.part_end_s, self.part.index))

    def end_of(self, index: int) -> float:
        """Return when a job that is served will end at its present rate."""
        if self.part is not None and self.part.index == index:
            return self.part_end_s
        return next(held[0] for held in self.ends if held[1] == index)

    def run(self, until_s: float, until_index: int, goal: int) -> Stop:  # noqa: C901, PLR0912, PLR0915
        """Let jobs end, up to that of (until_s, until_index) in their order; `goal` is the one asked for.

        What is left over at the start is served to those that wait. A job must wait, unless none is to
        end.
        """
        # One loop without calls: predictions spend most of their time here.
        ends, jobs, paused, level, waiting_end = self.ends, self.jobs, self.paused, self.level, len(self.jobs)
        share = self.share
        at, demand, left, now = self.at, self.demand, self.left, self.now_s
        load = self.load
        before_last = load - jobs[-1].caps[level] if jobs else 0.0
        part, part_end = self.part, self.part_end_s
        held, rate, since, remaining = self.held, self.rate, self.since_s, self.remaining_s
        stale = False  # the first of `ends` has ended and is still there
        stop = Stop.UNTIL
        while True:
            if part is not None and left != held:  # the one at the edge gets more
                remaining -= rate * (now - since)
                if remaining < 0.0:
                    remaining = 0.0
                cap = part.caps[level]
                if cap <= left:
                    end = ((now + remaining / part.cap_rates[level]) * 1e6 + 0.5) // 1 / 1e6
                    if stale:
                        heapreplace(ends, (end, part.index, cap, now, remaining, part))
                        stale = False
                    else:
                        heappush(ends, (end, part.index, cap, now, remaining, part))
                    left -= cap
                    part = None
                else:
                    values = part.speed_up.values
                    held, since, below = left, now, int(left)
                    if below >= len(values) - 1:
                        rate = values[-1]
                    else:
                        rate = values[below]
                        if below != left:
                            rate += (values[below + 1] - rate) * (left - below)
                    part_end = ((now + remaining / rate) * 1e6 + 0.5) // 1 / 1e6
            if part is None:
                while left > NO_GPUS and at < waiting_end:
                    job = jobs[at]
                    at += 1
                    cap = job.caps[level]
                    remaining = paused.pop(job.index, job.remaining_s) if paused else job.remaining_s
                    if cap <= left:
                        rate = job.cap_rates[level]
                        end = ((now + remaining / rate) * 1e6 + 0.5) // 1 / 1e6 if rate else inf
                        if stale:
                            heapreplace(ends, (end, job.index, cap, now, remaining, job))
                            stale = False
                        else:
                            heappush(ends, (end, job.index, cap, now, remaining, job))
                        left -= cap
                    else:
                        values = job.speed_up.values
                        part, held, since, below = job, left, now, int(left)
                        if below >= len(values) - 1:
                            rate = values[-1]
                        else:
                            rate = values[below]
                            if below != left:
                                rate += (values[below + 1] - rate) * (left - below)
                        part_end = ((now + remaining / rate) * 1e6 + 0.5) // 1 / 1e6
                        break
            if stale:
                heappop(ends)
                stale = False
            # The next end: of one that holds its cap, or of the one at the edge.
            edge = part
            if ends:
                top = ends[0]
                end, index = top[0], top[1]
                if part is not None and (part_end > end or (part_end == end and part.index > index)):
                    edge = None
            if edge is not None:
                end, index = part_end, edge.index
            elif not ends:
                break
            if end >= until_s and (end > until_s or index > until_index):
                break
            if index == goal:
                now, stop = end, Stop.GOAL
                break
            gpus = top[2] if edge is None else edge.caps[level]
            if share - (before_last - gpus) > NO_GPUS:
                stop = Stop.LAST
                break
            before_last -= gpus
            load -= gpus
            now = end
            if edge is None:
                demand -= top[5].demand
                left += gpus
                stale = True
            else:
                demand -= edge.demand
                part = None
        self.at, self.demand, self.left, self.now_s = at, demand, left, now
        self.part, self.part_end_s = part, part_end
        self.held, self.rate, self.since_s, self.remaining_s = held, rate, since, remaining
        self.load = load
        return stop

    def end_next(self) -> None:
        """Take out the next job that ends."""
        part = self.part
        if part is not None and (not self.ends or (self.part_end_s, part.index) < self.ends[0][:2]):
            self.demand -= part.demand
            self.load -= part.caps[self.level]
            self.part = None
        else:
            gone = heappop(self.ends)
            self.demand -= gone[5].demand
            self.load -= gone[2]
            self.left += gone[2]

    def take(self, share: float, now_s: float) -> None:
        """Go on with a share, after jobs may have ended."""
        self.now_s = now_s
        if (share < self.share and share != self.demand) or (
            share - self.load > NO_GPUS and self.load != self.demand
        ):
            self._serve_anew(share)
            return
        self.left = share - (self.share - self.left)
        self.share = share
        self.run(-inf, -1, -1)

    def _serve_anew(self, share: float) -> None:
        """Serve all jobs from the front: their caps may be relaxed further, or not as far."""
        now, level = self.now_s, self.level
        served = [
            (index, gpus, job.cap_rates[level] if gpus else 0.0, since, remaining, end, job)
            for end, index, gpus, since, remaining, job in self.ends
        ]
        if self.part is not None:
            served.append(
                (
                    self.part.index,
                    self.held,
                    self.rate,
                    self.since_s,
                    self.remaining_s,
                    self.part_end_s,
                    self.part,
                )
            )
            self.part = None
        served.sort(key=lambda entry: entry[0])
        waiting = self.jobs[self.at :]
        self.share = left = share
        jobs_here = [entry[-1] for entry in served] + waiting
        self.level = level = lowest_level(jobs_here, share)
        self.load = sum([job.caps[level] for job in jobs_here])
        self.ends = []
        again = []
        for index, before, rate, since, remaining, end, job in served:
            cap = job.caps[level]
            gpus = min(left, cap) if left > NO_GPUS else 0.0
            if gpus != before:
                remaining = max(0.0, remaining - rate * (now - since))
                since = now
                rate = job.speed_up.at(gpus)
                end = to_microsecond(now + remaining / rate) if rate else inf if remaining else now
            if gpus == cap:
                self.ends.append((end, index, gpus, since, remaining, job))
                left -= gpus
            elif gpus:
                self.part, self.part_end_s = job, end
                self.held, self.rate, self.since_s, self.remaining_s = gpus, rate, since, remaining
                left, self.left = 0.0, left
            elif end == now:  # its work is done
                self.load -= cap
                self.ends.append((end, index, 0.0, since, remaining, job))
            else:
                self.paused[index] = remaining
                again.append(job)
        if self.part is None:
            self.left = left
        self.jobs, self.at = again + waiting, 0
        heapify(self.ends)
        self.run(-inf, -1, -1)
