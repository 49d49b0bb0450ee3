"""How long a job should ask for, at a stated risk of being killed: what jobs like it took, with a margin.

Of the closest likeness of which enough jobs have ended (the same request by the same owner, then wider ones)
the longest recent run counts, or how long one runs already where that is longer. The margin on it, which may
be somewhat below one, is made of the owner's own record: for each of the last jobs, by what factor the
longest run before had to be stretched so that it would have ended in time; the margin covers all but the
stated share (split conformal prediction; Vovk et al. 2005, section 2.2). An owner with a short record has
the margin of all owners of the group (jobs with GPUs, jobs without), and at least what its own jobs needed.

Jobs of one owner come in bursts and change together, so both reach back over several bursts
(`recent_bursts`), and on top a factor by group rises with each job that the advice would have killed and
falls with each that it would not, such that the share killed comes back to the risk (adaptive conformal
inference; Gibbs and Candes 2021, equation 2).

A job that used up its limit says only that it wanted more: where one is among the recent, nothing is advised.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster_logs.job_facts import owner_of
from foundation.human_times import human_duration
from lucid_models.limits.recent_bursts import RecentBursts

# So many likenesses are remembered, those of which a job ended last: names of jobs never come to an end.
MOST_LIKENESSES = 500_000
# Of a burst's factors the highest count, beyond which no quantile of use lies.
_KEPT_FACTORS = 1_000
# No advice is below two thirds of the longest run, whatever the record says.
_LEAST_MARGIN = math.log(2.0 / 3.0)
GPU_JOBS, CPU_JOBS = "GPU jobs", "CPU jobs"  # the groups that share a risk
# What makes two requests of an owner alike, and what makes them similar.
_ALIKE = ("name", "time_limit_s", "cpus", "gpus", "virtual_cluster", "qos")
_SIMILAR = ("time_limit_s", "cpus", "gpus")
# Time limits as people write them: 15 min, 1 h, 12 h, 2 days. A job that runs as long as its limit is killed,
# so that a limit is always rounded to more than what is needed.
HOUR_S, DAY_S = 3_600.0, 86_400.0
_HOURS = (1, 1.5, 2, 2.5, *range(3, 25), 30, 36, 42, 48, 60, 72, 84, 96, 120, 144, 168)
_WRITTEN_S: tuple[float, ...] = (
    *(60.0 * minutes for minutes in (15, 20, 30, 45)),
    *(HOUR_S * hours for hours in _HOURS),
)


@dataclass(frozen=True)
class LimitSettings:
    """`risk`: the share of jobs that the advice may kill. Of a likeness the last `recent_jobs` count, of an
    owner's record `record_jobs`, of all owners' `usual_jobs`, each of at least so many `bursts`. Fewer than
    `least_jobs` show nothing of one in a hundred. `step`: how far one killed job raises the logarithm of its
    group's factor.
    """

    risk: float = 0.01
    recent_jobs: int = 150
    record_jobs: int = 200
    usual_jobs: int = 2_000
    bursts: int = 5
    least_jobs: int = 100
    step: float = 0.001


@dataclass(frozen=True)
class LimitJob:
    """What is known of a job: `likeness` are keys that jobs like it share, the closest first; `group`: the
    jobs that it shares a risk with; `submit_s`: when it was submitted (Unix time); `limit_s`: what it asks
    for.
    """

    job_id: str
    owner: Hashable
    group: Hashable
    submit_s: float
    limit_s: float
    likeness: tuple[Hashable, ...]


@dataclass(frozen=True)
class LimitAdvice:
    """What to ask for: `limit_s` is `asked_s` where nothing shorter can be advised, for the reason `why`.

    - `longest_s`: the longest run of the `alike_jobs` last jobs like it; NaN where too few are known.
    - `record_jobs`: of how many jobs of its owner the margin is made.
    """

    limit_s: float
    asked_s: float
    risk: float
    longest_s: float = math.nan
    alike_jobs: int = 0
    record_jobs: int = 0
    why: str = ""

    def sentence(self) -> str:
        """Say it in one sentence."""
        request = f"You asked for {human_duration(self.asked_s)}"
        if self.why:
            return f"{request}; keep that: {self.why}."
        within = f"{100 * (1 - self.risk):.3g} in 100"
        return (
            f"{request}; the longest of the last {self.alike_jobs} jobs like this took "
            f"{human_duration(self.longest_s)}, and {human_duration(self.limit_s)} would do for {within}."
        )


class LimitAdvisor:
    """Learns from starts and ends in the order of time; what it says is made of what came before."""

    def __init__(self, settings: LimitSettings | None = None) -> None:
        chosen = self.settings = settings or LimitSettings()
        # Run times in s of the last jobs of a likeness; infinite where the limit was used up.
        self._ended: dict[Hashable, RecentBursts] = {}
        self._started: dict[Hashable, dict[str, float]] = defaultdict(dict)
        # Logarithms of the factors that were needed, by owner and group, and by group.
        self._needed: dict[Hashable, RecentBursts] = defaultdict(
            lambda: RecentBursts(chosen.record_jobs, chosen.bursts, _KEPT_FACTORS)
        )
        self._usual: dict[Hashable, RecentBursts] = defaultdict(
            lambda: RecentBursts(chosen.usual_jobs, chosen.bursts, _KEPT_FACTORS)
        )
        self._factor: dict[Hashable, float] = defaultdict(float)
        self._noted: dict[str, LimitAdvice] = {}

    def advise(self, job: LimitJob, at_s: float) -> LimitAdvice:
        """What the job should ask for, said at `at_s` (s); never more than it asks for."""
        longest_s, alike = self._longest(job, at_s)
        record = self._needed.get((job.owner, job.group), ())
        needed_s = self._stretched(longest_s, job)
        why = ""
        if not alike:
            why = "too few jobs like it have ended"
        elif math.isinf(longest_s):
            why = "one of the last jobs like it used up its limit"
        elif math.isinf(needed_s):
            why = "too few jobs of its owner have ended to know how far such advice is off"
        elif written_limit_above(needed_s) >= job.limit_s:
            why = "anything shorter would be too risky"
        limit_s = job.limit_s if why else written_limit_above(needed_s)
        return LimitAdvice(limit_s, job.limit_s, self.settings.risk, longest_s, alike, len(record), why)

    def kill_risk(self, job: LimitJob, limit_s: float, at_s: float) -> float:
        """How likely the job runs into `limit_s`, in (0, 1]; 1 where nothing is known of jobs like it."""
        longest_s, _ = self._longest(job, at_s)
        record = self._needed.get((job.owner, job.group))
        if not math.isfinite(longest_s) or record is None:
            return 1.0
        margin = math.log(max(limit_s, 1.0) / longest_s) - self._factor[job.group]
        return (sum(needed >= margin for needed in record.falling()) + 1) / (len(record) + 1)

    def note(self, job: LimitJob, advice: LimitAdvice) -> None:
        """Learn from how this advice would have turned out, once the job has ended."""
        self._noted[job.job_id] = advice

    def started(self, job: LimitJob, at_s: float) -> None:
        """A job began to run."""
        for key in job.likeness:
            self._started[key][job.job_id] = at_s

    def ended(self, job: LimitJob, run_s: float) -> None:
        """A job ended after `run_s`, of its own or at its limit."""
        self._runs_no_more(job)
        for key in job.likeness:
            runs = self._ended.pop(key, None) or RecentBursts(
                self.settings.recent_jobs, self.settings.bursts, kept=1
            )
            runs.add(job.submit_s, run_s if run_s < job.limit_s else math.inf)
            self._ended[key] = runs  # the last that ended stands last
        while len(self._ended) > MOST_LIKENESSES:
            del self._ended[next(iter(self._ended))]
        advice = self._noted.pop(job.job_id, None)
        if advice is None or not math.isfinite(advice.longest_s):
            return
        if advice.record_jobs >= self.settings.least_jobs:
            killed = would_be_killed(run_s, advice.limit_s, job.limit_s)
            moved = self._factor[job.group] + self.settings.step * (killed - self.settings.risk)
            self._factor[job.group] = max(moved, 0.0)
        reached_s = written_limit_at_most(min(run_s, job.limit_s))
        needed = math.log(max(reached_s, 1.0) / advice.longest_s)
        self._needed[job.owner, job.group].add(job.submit_s, needed)
        self._usual[job.group].add(job.submit_s, needed)

    def stopped(self, job: LimitJob) -> None:
        """A run was cut short; nothing is learned of how long the job takes."""
        self._runs_no_more(job)
        self._noted.pop(job.job_id, None)

    def _runs_no_more(self, job: LimitJob) -> None:
        for key in job.likeness:
            running = self._started.get(key, {})
            running.pop(job.job_id, None)
            if not running:
                self._started.pop(key, None)

    def _longest(self, job: LimitJob, at_s: float) -> tuple[float, int]:
        for key in job.likeness:
            ended = self._ended.get(key)
            if ended is not None and len(ended) >= self.settings.least_jobs:
                running = self._started.get(key, {})
                oldest_s = next(iter(running.values()), at_s)
                return max(1.0, ended.highest(), at_s - oldest_s), len(ended)
        return math.nan, 0

    def _stretched(self, longest_s: float, job: LimitJob) -> float:
        margin = self._margin(job)
        if math.isinf(margin):
            return math.inf
        factor = max(margin + self._factor[job.group], _LEAST_MARGIN)
        return longest_s * math.exp(min(factor, 50.0))

    def _margin(self, job: LimitJob) -> float:
        """The logarithm of the factor that covers all but the stated share; infinite where too little is
        known.
        """
        record, usual = self._needed.get((job.owner, job.group)), self._usual.get(job.group)
        if record is not None and len(record) >= self.settings.least_jobs:
            return record.exceeded_by(self.settings.risk)
        if usual is None or len(usual) < self.settings.usual_jobs / 2:
            return math.inf
        own = -math.inf if record is None else record.highest()
        return max(own, usual.exceeded_by(self.settings.risk))


def would_be_killed(run_s: float, limit_s: float, asked_s: float) -> bool:
    """Whether advice of `limit_s` kills a job that ran `run_s` under `asked_s`.

    One that used up what it asked for counts as killed where it was advised to ask for less.
    """
    return limit_s < asked_s and run_s >= limit_s


def written_limit_above(needed_s: float) -> float:
    """The least written limit that is longer than `needed_s`, in s; beyond a week whole days."""
    if needed_s < _WRITTEN_S[-1]:
        return _WRITTEN_S[bisect_right(_WRITTEN_S, needed_s)]
    return math.inf if math.isinf(needed_s) else DAY_S * (math.floor(needed_s / DAY_S) + 1)


def written_limit_at_most(run_s: float) -> float:
    """The longest written limit that a run of `run_s` reaches, in s; 0 where it reaches none."""
    if run_s >= _WRITTEN_S[-1]:
        return DAY_S * math.floor(run_s / DAY_S)
    place = bisect_right(_WRITTEN_S, run_s)
    return _WRITTEN_S[place - 1] if place else 0.0


def limit_job_of(job_id: str, facts: Mapping[str, Any]) -> LimitJob | None:
    """A job by its facts at submission (job_facts.py); None for one without a time limit, or of which is
    not known when it was submitted.
    """
    limit_s, submit_s = facts.get("time_limit_s"), facts.get("submit_time_s")
    if limit_s is None or not limit_s > 0 or submit_s is None:
        return None
    owner = owner_of(facts)
    group = GPU_JOBS if (facts.get("gpus") or 0) > 0 else CPU_JOBS
    likeness = tuple(
        (what, owner, *(facts.get(name) for name in names))
        for what, names in (("alike", _ALIKE), ("similar", _SIMILAR))
    )
    return LimitJob(job_id, owner, group, float(submit_s), float(limit_s), (*likeness, (owner, group)))
