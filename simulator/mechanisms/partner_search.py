"""Finds, for a waiting job, the running job with which it loses least by sharing GPUs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from foundation.checked_settings import CheckedSettings
from simulator.cluster.placement import NOWHERE, lies_within
from simulator.job_view import JobView, RunState
from simulator.mechanisms.node_holds import STANDS_S, expected_remaining_s
from simulator.mechanisms.pair_gain import PairGain
from simulator.snapshot import NodePool

# So many refusals are remembered before those of jobs that have started are forgotten.
FORGET_ABOVE = 1_024

# A count of running jobs that no pool has: the books are to be made anew.
WRONG = -(10**9)


@dataclass(frozen=True)
class PartnerSettings(CheckedSettings):
    """Which jobs may share GPUs.

    - `measured_after_s`: a running job is known after so long.
    - `templates`: jobs are known from the first second if a job of their template was measured before.
    - `gpu_memory_mib`: two jobs' memory on a GPU stays below it.
    - `patience`: a job waits until all that wait have waited for so many times the run time that sharing is
      expected to cost (in GPU-seconds beside job-seconds), because the GPUs that it needs may be free before
      that. 0: sharing is not put off.
    - `sought_after`: of the partners that a job may have, it takes the one with which it loses least beyond
      so many times what that partner loses with others on average. Who gets along with everybody is left
      for those that get along with few; 0: the partner with which it loses least.
    """

    measured_after_s: float = 80.0
    templates: bool = True
    gpu_memory_mib: float = 24_576.0
    patience: float = 1.0
    sought_after: float = 1.0


class MeasuredTemplates:
    """Which programs' needs are known, because a job has run for long enough to be measured."""

    def __init__(self, settings: PartnerSettings) -> None:
        self._settings = settings
        self.templates: set[str] = set()

    def learn(self, job: JobView, attained_s: float) -> bool:
        """Take note of a job that has run for so long; return whether that was long enough."""
        if attained_s < self._settings.measured_after_s:
            return False
        if self._settings.templates and job.job.template is not None:
            self.templates.add(job.job.template)
        return True

    def knows(self, job: JobView, now_s: float) -> bool:
        """Say whether a job's profile may be used."""
        if job.profile is None or job.unstable:
            return False
        return job.job.template in self.templates or self.learn(job, job.attained_at(now_s))


class PartnerSearch:
    """The running jobs of one pool that have their GPUs for themselves and may share them.

    They are kept by GPU demand and template: jobs of one template are alike as partners. What a waiting job
    was once refused is not offered to it again, so a long queue costs little. Its books are those of the
    pool's running jobs, kept up to date as jobs start and end; if they do not tally (a job was withdrawn, a
    node failed), they are made anew.
    """

    def __init__(self, settings: PartnerSettings, pairs: PairGain, measured: MeasuredTemplates) -> None:
        self._settings = settings
        self._pairs = pairs
        self._measured = measured
        self._now_s = 0.0
        self._waiting_gpus = 1
        self._held_until_s: Mapping[int, float] = {}
        self._on_shared_nodes = False
        self._offers: dict[int, dict[str, list[JobView]]] = {}
        self._unmeasured: list[JobView] = []
        self._partner_of: dict[JobView, JobView] = {}
        self._running = WRONG  # jobs that the books hold
        # Kinds of partners that the last look with news has found, by GPU demand.
        self._new_kinds: dict[int, list[str]] = {}
        self._news: list[tuple[int, str]] = []
        # Who was refused what was on offer at this look, and until when that stands; and at the last.
        self.refused_until_s: dict[JobView, float] = {}
        self._refused_before: dict[JobView, float] = {}
        self.due_s = inf  # when the first job that puts sharing off would share

    def started(self, job: JobView) -> None:
        """Enter a job that has GPUs for itself from now on."""
        self._running += 1
        self._unmeasured.append(job)

    def ended(self, job: JobView) -> None:
        """Strike out a job that has ended; its partner has their GPUs for itself."""
        self._running -= 1
        partner = self._partner_of.pop(job, None)
        if partner is not None:
            del self._partner_of[partner]
            self._unmeasured.append(partner)
        elif job in self._unmeasured:
            self._unmeasured.remove(job)
        else:
            kinds = self._offers.get(job.gpus, {})
            kind = job.job.template or f"job {job.index}"
            if job in kinds.get(kind, ()):
                self._strike_out(kinds, kind, job)

    def look_around(self, pool: NodePool, held_until_s: Mapping[int, float], now_s: float) -> None:
        """Bring the books up to date, with what has been measured meanwhile."""
        self._now_s = now_s
        self._waiting_gpus = pool.queue.gpus
        self._on_shared_nodes = bool(pool.masks)
        self._held_until_s = held_until_s  # grows while nodes are held in this decision
        if self._running != len(pool.running):
            self._make_books(pool)
        self._news = []
        self._unmeasured = [job for job in self._unmeasured if not self._offer(job, now_s)]
        if self._news:
            self._refused_before, self.refused_until_s = self.refused_until_s, {}
            self._new_kinds = {}
            for gpus, kind in self._news:
                self._new_kinds.setdefault(gpus, []).append(kind)
        if len(self.refused_until_s) > FORGET_ABOVE:
            self.refused_until_s = {
                job: until_s for job, until_s in self.refused_until_s.items() if job.state is RunState.PENDING
            }

    def _make_books(self, pool: NodePool) -> None:
        self._running = len(pool.running)
        self._offers = {}
        self._partner_of = {job: job.partner for job in pool.running if job.partner is not None}
        self._unmeasured = [job for job in pool.running if job.partner is None]

    def _offer(self, job: JobView, now_s: float) -> bool:
        """Offer a running job as a partner, if it is measured; return whether that was all to wait for."""
        if not job.shareable or job.profile is None or job.unstable:
            return True  # it is no partner in this run
        if not self._measured.knows(job, now_s):
            return False
        kind = job.job.template or f"job {job.index}"
        kinds = self._offers.setdefault(job.gpus, {})
        if kind in kinds:
            kinds[kind].append(job)
            if self._on_shared_nodes:  # those before it may be on nodes that few jobs may use
                self._news.append((job.gpus, kind))
        else:
            kinds[kind] = [job]
            self._news.append((job.gpus, kind))
        return True

    @staticmethod
    def _strike_out(kinds: dict[str, list[JobView]], kind: str, job: JobView) -> None:
        kinds[kind].remove(job)
        if not kinds[kind]:
            del kinds[kind]

    def take(self, job: JobView, price: float, *, in_need: bool) -> JobView | None:
        """Take the best partner with which at most `price` is lost (s lost per GPU-s saved).

        `in_need`: the job finds no idle GPUs. Returns None if there is none, or if sharing is put off. Nobody
        asks for a job in need that was refused already (`refused_until_s`).
        """
        offers = self._offers.get(job.gpus)
        if not offers:
            return None
        kinds: Collection[str] = offers
        until_s = inf
        if in_need and job not in self.refused_until_s:
            refused_until_s = self._refused_before.get(job, self._now_s)
            if refused_until_s > self._now_s:
                kinds = self._new_kinds.get(job.gpus, ())
                until_s = refused_until_s
        if not self._measured.knows(job, job.queued_since_s):
            return None
        kind, loss = self._best(job, kinds, price * job.gpus)
        partner = None if kind is None else _within_reach(offers[kind], job)
        if in_need and (partner is None or loss):
            if partner is not None:
                until_s = min(until_s, self._due_s(job, partner, loss))
            elif self._held_until_s:
                until_s = min(until_s, self._now_s + STANDS_S)  # a hold that ends opens its node to all
            if partner is None or until_s > self._now_s:
                self.refused_until_s[job] = until_s
                self.due_s = min(until_s, self.due_s)
                return None
        if kind is None or partner is None:
            return None
        self._strike_out(offers, kind, partner)
        if partner.state is not RunState.RUNNING or partner.partner is not None or partner.unstable:
            self._running = WRONG
            return None
        self._partner_of[job], self._partner_of[partner] = partner, job
        self._running += 1
        return partner

    def _best(self, job: JobView, kinds: Collection[str], most: float) -> tuple[str | None, float]:
        """Return the best kind of partner, and the loss (job-seconds a second), which is at most `most`."""
        if job.profile is None:
            return None, 0.0
        offers = self._offers[job.gpus]
        known_losses = self._pairs.known(job)
        memory_mib = self._settings.gpu_memory_mib - job.profile.gpu_mem_mib
        sought_after, mean_losses = self._settings.sought_after, self._pairs.mean_losses
        best: str | None = None
        best_beyond, best_loss = inf, most
        for kind in kinds:
            loss = known_losses.get(kind)
            if (loss is not None and loss > most) or kind not in offers:
                continue
            partner = offers[kind][0] if job.nodes is None else _within_reach(offers[kind], job)
            if partner is None:
                continue
            if loss is None:
                loss = self._pairs.loss(job, partner)
            beyond = loss - sought_after * mean_losses.get(kind, 0.0) if sought_after else loss
            if (
                loss <= most
                and beyond < best_beyond
                and partner.profile is not None
                and partner.profile.gpu_mem_mib < memory_mib
                and not (self._held_until_s and self._is_in_the_way(job, partner))
            ):
                best, best_beyond, best_loss = kind, beyond, loss
        return best, best_loss

    def _is_in_the_way(self, job: JobView, partner: JobView) -> bool:
        """Whether the job would still run when the gang that holds its partner's node should start."""
        until_s = self._held_until_s.get(partner.placement[0][0]) if partner.placement else None
        return until_s is not None and until_s < self._now_s + job.estimate_s

    def _due_s(self, job: JobView, partner: JobView, loss: float) -> float:
        """Return until when the job should wait for GPUs of its own, as one rents skis before buying."""
        together_s = min(job.estimate_s, expected_remaining_s(partner, self._now_s))
        return job.queued_since_s + self._settings.patience * loss * together_s / self._waiting_gpus

    def take_two(self, size: int, most: float, remaining_min_s: float) -> tuple[JobView, JobView] | None:
        """Take the two running jobs of a size that lose least by sharing, at most `most` a second.

        Both are expected to run on for `remaining_min_s` at least. None if no two are that good.
        """
        candidates = [
            job
            for alike in self._offers.get(size, {}).values()
            for job in alike
            if expected_remaining_s(job, self._now_s) >= remaining_min_s
        ]
        best: tuple[float, int, int] | None = None
        for i, job in enumerate(candidates):
            for j in range(i + 1, len(candidates)):
                other = candidates[j]
                loss = self._pairs.loss(job, other)
                if (
                    loss <= most
                    and (best is None or loss < best[0])
                    and self._have_room(job, other)
                    and lies_within(other.placement or NOWHERE, job.nodes)
                ):
                    best = (loss, i, j)
        if best is None:
            return None
        two = candidates[best[1]], candidates[best[2]]
        for job in two:
            kind = job.job.template or f"job {job.index}"
            self._strike_out(self._offers[size], kind, job)
        if any(job.state is not RunState.RUNNING or job.partner is not None or job.unstable for job in two):
            self._running = WRONG
            return None
        self._partner_of[two[0]], self._partner_of[two[1]] = two[1], two[0]
        return two

    def _have_room(self, job: JobView, other: JobView) -> bool:
        if job.profile is None or other.profile is None:
            return False
        return job.profile.gpu_mem_mib + other.profile.gpu_mem_mib < self._settings.gpu_memory_mib


def _within_reach(alike: list[JobView], job: JobView) -> JobView | None:
    """Return the first of some running jobs on nodes that a job may use."""
    return next(
        (other for other in alike if other.placement and lies_within(other.placement, job.nodes)), None
    )
