"""Whether Slurm itself gave a job the priority that it has, or someone set it.

Slurm does not show that beside a job. Seen on 22.05.8:

- `priority/multifactor`: sprio tells what a computed priority is made of, and nothing but zeros of one that
  was set. It does not list held jobs, nor tasks of arrays that the scheduler has not looked at yet.
  What the backfill writes back counts as set, and is some minutes' ageing away from what the job had.
- `priority/basic`: Slurm counts down from 4,294,901,760, a number for each submission and each `scontrol
  release`; numbers that are set do not move its count, and a requeue changes none. So one of its own that is
  new lies just below all that were there before.
"""

from collections.abc import Mapping, Sequence

from foundation.errors import BadInputError
from live_scheduler.cluster_state import LiveJob
from live_scheduler.slurm.commands import call

FIRST = 4_294_901_760  # 0xFFFF0000
# So many numbers may have gone to jobs that no reading showed.
_UNSEEN = 1_000
# Two recalculations of a computed priority differ by no more, as a share of it.
_AGEING, _LEAST_AGEING = 0.02, 10
# A job's number, and all weighted factors: site, age, association, fair share, size, partition, QOS.
_FACTORS = ("sprio", "--noheader", "--format=%i|%S|%A|%B|%F|%J|%P|%Q")


class OwnPriorities:
    """Follows the readings of one cluster."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self._basic: bool | None = None
        self._lowest: int | None = None  # of Slurm's own count, by the last reading
        self._lowest_before: int | None = None  # by the one before
        self._own: dict[str, int] = {}  # what jobs had when they were last seen without a set number
        self._own_before: dict[str, int] = {}  # likewise, by the reading before
        self._set: set[str] = set()  # jobs that had numbers beyond Slurm's when they were last seen so
        self._known: dict[str, int] = {}  # jobs that got a number of the count since, and which

    def follow(self, jobs: Sequence[LiveJob]) -> None:
        """Take in a reading: where the count stands, and what jobs had before other numbers were set."""
        self._lowest_before = lowest = self._lowest
        before, already_set = self._own, self._set
        self._own_before = before
        self._set = {job.job_id for job in jobs if (job.priority or 0) > FIRST or job.job_id in already_set}
        self._own = {
            job.job_id: before.get(job.job_id, 0) if job.job_id in self._set else job.priority or 0
            for job in jobs
        }
        # What people set lies apart, unless they copy the count.
        for priority in sorted(map(_counted, jobs), reverse=True):
            if priority > FIRST or priority <= 0:
                continue
            if lowest is None or lowest - _UNSEEN <= priority < lowest:
                lowest = priority
        self._lowest = lowest

    def of(self, jobs: Sequence[LiveJob], raw_ids: Mapping[str, str], limit_s: float) -> Mapping[str, bool]:
        """Return whether Slurm gave these jobs of the last reading their priorities; missing: not known.

        `raw_ids` are Slurm's own numbers of records, with their jobs. Raises ServiceUnavailableError.
        """
        if self._basic is None:
            self._basic = "priority/basic" in call(["scontrol", "show", "config"], limit_s=limit_s)
        if not self._basic:
            computed = _by_factors(raw_ids, limit_s)
            self._set -= {job_id for job_id, by_slurm in computed.items() if by_slurm}
            return {
                job.job_id: computed[job.job_id] or self._is_written_back(job)
                for job in jobs
                if job.job_id in computed
            }
        before = self._lowest_before
        for job in jobs:
            priority = _counted(job)
            if before is not None and before - _UNSEEN <= priority < before:
                self._known[job.job_id] = priority
        return {job.job_id: self._known.get(job.job_id) == _counted(job) for job in jobs}

    def _is_written_back(self, job: LiveJob) -> bool:
        own, array_id = self._own_before, job.job_id.partition("_")[0]
        before, now = own.get(job.job_id) or own.get(array_id, 0), job.priority or 0
        return before > 0 and abs(now - before) <= max(_LEAST_AGEING, _AGEING * before)


def _counted(job: LiveJob) -> int:
    """Return the number of the count that a job got, of which its nice value is taken off."""
    return (job.priority or 0) + job.nice


def _by_factors(raw_ids: Mapping[str, str], limit_s: float) -> dict[str, bool]:
    if not raw_ids:
        return {}
    try:
        text = call([*_FACTORS, f"--jobs={','.join(sorted(raw_ids))}"], limit_s=limit_s)
    except BadInputError:  # not visible to this user
        return {}
    found: dict[str, bool] = {}
    for line in text.splitlines():
        raw_id, *factors = (word.strip() for word in line.split("|"))
        if raw_id in raw_ids:
            # In several partitions a job has a line each.
            computed = any(factor not in ("", "0") for factor in factors)
            found[raw_ids[raw_id]] = found.get(raw_ids[raw_id], False) or computed
    return found
