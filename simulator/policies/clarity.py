"""Clarity: our own scheduler, for a reader who wants to know why a job runs where it runs. No preemption.

Jobs are served shortest expected service first, and one that does not fit does not hold up the others. What
is left to decide is when two jobs share a set of GPUs, and there is one rule for it. Sharing costs both jobs
some speed and saves GPUs; a pair is made when the job-seconds that it loses per GPU-second that it saves
(`simulator.pair_gain`) are at most the *price* of a GPU-second at this moment:

- Nobody had to wait lately: the price is nought. Everybody runs alone, as under shortest service first.
- GPUs are idle, but lately jobs had to wait: a low price. Large jobs, which save the most, go together where
  it hardly hurts, so that the next burst of small jobs finds GPUs.
- There are no GPUs for the job: a high price. Whatever gains on the whole is packed.

There is no profiling partition. A job is measured where it runs, at no loss; and what a program needs is
known of all its later runs (`Job.template`). A job that nobody knows yet runs alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import attrgetter

from simulator.actions import Action, Colocate, Start
from simulator.colocation import ColocationModel
from simulator.pair_gain import PairGain, template_of
from simulator.policy import Policy
from simulator.snapshot import JobView, NodePool, Snapshot
from simulator.stages.settings import StageSettings


@dataclass(frozen=True)
class ClaritySettings(StageSettings):
    """Settings of Clarity. Prices are job-seconds lost per GPU-second saved.

    - `price_short`: the price when a job finds no idle GPUs.
    - `price_idle`: the price while GPUs are idle and jobs had to wait in the last `calm_s` seconds; 0: no
      sharing while GPUs are idle.
    - `headroom`: with more than this share of a virtual cluster's GPUs idle, everybody runs alone.
    - `idle_estimate_min_s`: shorter jobs never share while GPUs are idle: they are gone before a burst.
    - `measured_after_s`: a running job is known after so long.
    - `templates`: jobs are known from the first second if a job of their template was measured before.
    - `gpu_memory_mib`: two jobs' memory on a GPU stays below it.
    - `lookahead`: how many waiting jobs of each size are considered for sharing, in the order of the queue.
    - `pair_speeds`: predicts the speeds of a pair from both profiles; None: the rule on summed utilisation.
    - `learns_speeds`: the speeds of pairs that ran here replace the predictions.
    """

    price_short: float = 0.2
    price_idle: float = 0.02
    calm_s: float = 86_400.0
    headroom: float = 0.7
    idle_estimate_min_s: float = 3_600.0
    measured_after_s: float = 80.0
    templates: bool = True
    gpu_memory_mib: float = 24_576.0
    lookahead: int = 64
    pair_speeds: ColocationModel | None = None
    learns_speeds: bool = True


# Running jobs without a partner: by GPU demand, then by template (a job without one is a kind of its own).
Partners = dict[int, dict[str, list[JobView]]]


class Clarity(Policy):
    """Shortest expected service first; two jobs share GPUs when what that saves is worth what it costs."""

    needs_estimates = True
    Settings = ClaritySettings

    def __init__(self, settings: ClaritySettings | None = None) -> None:
        self.settings = settings or ClaritySettings()
        self.pairs = PairGain(self.settings.pair_speeds, learns=self.settings.learns_speeds)
        self._measured: set[str] = set()  # templates
        self._short_until_s: dict[str, float] = {}  # by pool: when its last shortage is forgotten

    def priority(self, job: JobView) -> tuple[float, float]:
        """Order by expected service (GPU-seconds), then by submission."""
        return (job.gpus * job.estimate_s, job.submit_time_s)

    def observe_end(self, job: JobView, now_s: float) -> None:
        """Remember that a program has been measured."""
        if self.settings.templates and job.attained_s >= self.settings.measured_after_s:
            template = template_of(job)
            if template is not None:
                self._measured.add(template)

    def decide(self, snapshot: Snapshot) -> list[Action]:
        """Serve each changed queue."""
        actions: list[Action] = []
        self.pairs.look(snapshot.now_s)
        for pool in snapshot.changed:
            if len(pool.queue):
                actions += self._serve(pool, snapshot.now_s)
        return actions

    def _serve(self, pool: NodePool, now_s: float) -> list[Action]:
        """Start or pack the waiting jobs, in their order; go on past those for whom there is nothing."""
        settings = self.settings
        free = pool.free
        if not free.total:
            self._short_until_s[pool.name] = now_s + settings.calm_s
        actions: list[Action] = []
        plan = pool.plan()
        crowded_below = 0.0
        if settings.price_idle and self._short_until_s.get(pool.name, -1.0) >= now_s:
            crowded_below = settings.headroom * pool.total_gpus
        too_large = plan.total + 1  # demands from here on up find no idle GPUs
        partners: Partners | None = None
        looks_left: dict[int, int] = {}
        for job in _front(pool, settings.lookahead):
            gpus = job.gpus
            placement = plan.find(gpus) if gpus < too_large else None
            if placement is None:
                if gpus < too_large:
                    too_large = gpus
                    self._short_until_s[pool.name] = now_s + settings.calm_s
                price = settings.price_short
            elif plan.total - gpus < crowded_below and job.estimate_s >= settings.idle_estimate_min_s:
                price = settings.price_idle
            else:
                plan.take(placement)
                actions.append(Start(job, placement))
                continue
            if gpus <= plan.gpus_per_node and partners is None:
                partners = self._partners(pool, now_s)
                looks_left = dict.fromkeys(partners, settings.lookahead)
            if partners and looks_left.get(gpus):
                partner = self._partner(job, partners[gpus], price)
                if partner is not None:
                    actions.append(Colocate(job, partner))
                    self.pairs.watch(job, partner, now_s)
                    if not partners[gpus]:
                        looks_left[gpus] = 0
                    continue
                looks_left[gpus] -= placement is None
            if placement is not None:
                plan.take(placement)
                actions.append(Start(job, placement))
        return actions

    def _is_measured(self, job: JobView, now_s: float) -> bool:
        """Whether the job's profile may be used: it, or one of its template, ran for long enough."""
        if job.profile is None or job.unstable:
            return False
        template = template_of(job) if self.settings.templates else None
        if template in self._measured:
            return True
        if job.attained_at(now_s) < self.settings.measured_after_s:
            return False
        if template is not None:
            self._measured.add(template)
        return True

    def _partners(self, pool: NodePool, now_s: float) -> Partners:
        """Return the running jobs that may share their GPUs: known, alone, on one node."""
        found: Partners = {}
        largest = pool.free.gpus_per_node
        for job in pool.running:
            if (
                job.partner is None
                and job.gpus <= largest
                and not job.stranded
                and self._is_measured(job, now_s)
            ):
                kind = template_of(job) or f"job {job.index}"
                alike = found.get(job.gpus)
                if alike is None:
                    found[job.gpus] = {kind: [job]}
                elif kind in alike:
                    alike[kind].append(job)
                else:
                    alike[kind] = [job]
        return found

    def _partner(self, job: JobView, partners: dict[str, list[JobView]], price: float) -> JobView | None:
        """Take the partner with which the least is lost out of `partners`, if the price allows it."""
        if not self._is_measured(job, job.queued_since_s):
            return None
        memory_mib = self.settings.gpu_memory_mib - (job.profile.gpu_mem_mib if job.profile else 0.0)
        known = self.pairs.losses(job)
        best: str | None = None
        least = price * job.gpus
        for kind, candidates in partners.items():
            candidate = candidates[0]
            loss = known.get(kind)
            if loss is None:
                loss = self.pairs.loss(job, candidate)
            if (
                (loss < least or (best is None and loss <= least))
                and candidate.profile is not None
                and candidate.profile.gpu_mem_mib < memory_mib
            ):
                best, least = kind, loss
                if not loss:
                    break
        if best is None:
            return None
        taken = partners[best].pop(0)
        if not partners[best]:
            del partners[best]
        return taken


def _front(pool: NodePool, lookahead: int) -> Iterable[JobView]:
    """Return, in the queue's order, no more jobs of each size than could start or are looked at."""
    free = pool.free.total
    parts = [islice(part, free // gpus + lookahead) for gpus, part in pool.queue.by_gpus().items()]
    return parts[0] if len(parts) == 1 else merge(*parts, key=attrgetter("queue_entry"))
