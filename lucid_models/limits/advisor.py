"""How long a job should ask for, at a stated risk of being killed: what jobs like it took, with a margin.

Of the closest likeness of which enough jobs have ended (the same request by the same owner, then wider ones)
the longest recent run counts, or how long one runs already where that is longer. The margin on it is made of
the owner's own record: for each of the last jobs, by what factor the longest run before had to be stretched
so that it would have ended in time; the margin covers all but the stated share (split conformal prediction;
Vovk et al. 2005, section 2.2). Jobs of one owner come in crowds and change together, so on top a factor by
group of jobs (with GPUs, without) rises with each job that the advice would have killed and falls with each
that it would not, such that the share killed comes back to the risk (adaptive conformal inference; Gibbs and
Candes 2021, equation 2).

A job that used up its limit says only that it wanted more: where one is among the recent, nothing is advised.
"""

import math
from collections import defaultdict, deque
from collections.abc import Hashable
from dataclasses import dataclass

from foundation.human_times import human_duration
from lucid_models.limits.written_limits import written_limit_above, written_limit_at_most

# So many likenesses are remembered, those of which a job ended last: names of jobs never come to an end.
MOST_LIKENESSES = 500_000


@dataclass(frozen=True)
class LimitSettings:
    """`risk`: the share of jobs that the advice may kill. `recent_jobs`: how many of a likeness count, at
    least `least_alike`; `record_jobs`: how many of an owner's, at least `least_record`. `step`: how far one
    killed job raises the logarithm of its group's factor.
    """

    risk: float = 0.01
    recent_jobs: int = 150
    least_alike: int = 5
    record_jobs: int = 200
    least_record: int = 20
    step: float = 0.0015


@dataclass(frozen=True)
class LimitJob:
    """What is known of a job: `likeness` are keys that jobs like it share, the closest first; `group`: the
    jobs that it shares a risk with; `limit_s`: what it asks for.
    """

    job_id: str
    owner: Hashable
    group: Hashable
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
        self.settings = settings or LimitSettings()
        record = self.settings.record_jobs
        # Run times in s of the last jobs of a likeness; infinite where the limit was used up.
        self._ended: dict[Hashable, deque[float]] = {}
        self._started: dict[Hashable, dict[str, float]] = defaultdict(dict)
        # Logarithms of the factors that were needed, by owner and group.
        self._needed: dict[Hashable, deque[float]] = defaultdict(lambda: deque(maxlen=record))
        self._factor: dict[Hashable, float] = defaultdict(float)
        self._noted: dict[str, LimitAdvice] = {}

    def advise(self, job: LimitJob, at_s: float) -> LimitAdvice:
        """What the job should ask for, said at `at_s` (s); never more than it asks for."""
        longest_s, alike = self._longest(job, at_s)
        record = self._needed.get((job.owner, job.group), ())
        needed_s = self._stretched(longest_s, job, self.settings.risk)
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
        record = self._needed.get((job.owner, job.group), ())
        if not math.isfinite(longest_s) or not record:
            return 1.0
        margin = math.log(max(limit_s, 1.0) / longest_s) - self._factor[job.group]
        return (sum(needed >= margin for needed in record) + 1) / (len(record) + 1)

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
            runs = self._ended.pop(key, None) or deque(maxlen=self.settings.recent_jobs)
            runs.append(run_s if run_s < job.limit_s else math.inf)
            self._ended[key] = runs  # the last that ended stands last
        while len(self._ended) > MOST_LIKENESSES:
            del self._ended[next(iter(self._ended))]
        advice = self._noted.pop(job.job_id, None)
        if advice is None or not math.isfinite(advice.longest_s):
            return
        reached_s = written_limit_at_most(min(run_s, job.limit_s))
        record = self._needed[job.owner, job.group]
        if len(record) >= self.settings.least_record:
            killed = would_be_killed(run_s, advice.limit_s, job.limit_s)
            moved = self._factor[job.group] + self.settings.step * (killed - self.settings.risk)
            self._factor[job.group] = max(moved, 0.0)
        record.append(math.log(max(reached_s, 1.0) / advice.longest_s))

    def stopped(self, job: LimitJob) -> None:
        """A run was cut short, which tells nothing of how long the job takes."""
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
            ended = self._ended.get(key, ())
            if len(ended) >= self.settings.least_alike:
                running = self._started.get(key, {})
                oldest_s = next(iter(running.values()), at_s)
                return max(1.0, *ended, at_s - oldest_s), len(ended)
        return math.nan, 0

    def _stretched(self, longest_s: float, job: LimitJob, risk: float) -> float:
        record = self._needed.get((job.owner, job.group), ())
        if len(record) < self.settings.least_record:
            return math.inf
        place = max(int(risk * (len(record) + 1)) - 1, 0)
        factor = sorted(record, reverse=True)[place] + self._factor[job.group]
        return longest_s * math.exp(min(max(factor, 0.0), 50.0))


def would_be_killed(run_s: float, limit_s: float, asked_s: float) -> bool:
    """Whether advice of `limit_s` kills a job that ran `run_s` under `asked_s`.

    One that used up what it asked for counts as killed where it was advised to ask for less.
    """
    return limit_s < asked_s and run_s >= limit_s
