"""The rule set `lyra`: policies of Lyra's comparison under the names that their published counterparts have.

There all of them decide once a minute, over workers, in one queue beside the inference service (Lyra, section
7.1): FIFO and shortest job first give each job its base workers on training servers, and AFS adds workers.
"""

from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heapreplace

from foundation.errors import check_names
from parts.lending.lyra import Lyra
from parts.lending.workers.scalable_job import ScalableJob
from parts.lending.workers.worker_policy import WorkerPolicy
from simulator.scenario.rules import Rules

_ALONE = {"loaning": False, "scaling": False}


def comparison_rules(faults: Collection[str] = ()) -> Rules:
    """Return the rule set; raises UnknownNameError for a fault to leave out, as it has none."""
    check_names("fault of the rules lyra:", [fault for fault in faults if fault != "all"], ())
    return Rules(
        "lyra",
        policies={"fifo": Lyra, "sjf": Lyra, "afs": AfsByWorkers},
        policy_settings={
            "fifo": {**_ALONE, "order": "submission"},
            "sjf": _ALONE,
            "afs": {"loaning": False},
        },
    )


class AfsByWorkers(WorkerPolicy):
    """The shortest base demands first, then workers by the throughput that they add (Lyra, section 7.1)."""

    def extra_workers(self, jobs: Sequence[ScalableJob], capacity_gpus: int) -> Sequence[int]:
        """Give the next worker to the job that gains most a GPU, the first of equals."""
        extra = [0] * len(jobs)
        gains = [(-_gain(job, 0), at) for at, job in enumerate(jobs)]
        heapify(gains)
        while gains:
            at = gains[0][1]
            job = jobs[at]
            if job.gpus_per_worker > capacity_gpus or gains[0][0] >= 0:
                heappop(gains)
                continue
            capacity_gpus -= job.gpus_per_worker
            extra[at] += 1
            if job.workers.least + extra[at] == job.workers.most:
                heappop(gains)
            else:
                heapreplace(gains, (-_gain(job, extra[at]), at))
        return extra


def _gain(job: ScalableJob, extra: int) -> float:
    """Return what one worker more adds to a job's speed on its base workers, by its GPUs."""
    workers = job.workers
    count = workers.least + extra
    more = workers.rate(count + 1) - workers.rate(count)
    return more / workers.rate(workers.least) / job.gpus_per_worker
