"""Which servers to lend and which to take back, which jobs that preempts, and why: one decision, in names.

Numbers and choices are the simulator's (`parts/lending/replay/`, after Lyra, sections 3 and 4); here they
meet names, limits that an operator sets, and words. It holds nothing from one decision to the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from foundation.errors import BadInputError
from live_scheduler.cluster_state import natural_key
from parts.lending.replay.orchestrator import servers_of_use, servers_to_lend, share_of_servers
from parts.lending.replay.reclaiming import LoanedServer, ReclaimChoice, choose_reclaim
from parts.lending.replay.settings import LoanSettings

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class PlannedServer:
    """An inference server, on loan or not.

    `base` and `flexible` are the GPUs there of training jobs' workers by job. `counts`: it is neither down
    nor drained. `may_move`: lent, if it is not on loan (it is idle); taken back, if it is (no job there must
    be left alone).
    """

    name: str
    gpus: int
    on_loan: bool
    base: Mapping[str, int] = field(default_factory=dict, hash=False)
    flexible: Mapping[str, int] = field(default_factory=dict, hash=False)
    counts: bool = True
    may_move: bool = True

    @property
    def used_gpus(self) -> int:
        """The GPUs that workers of training jobs hold."""
        return sum(self.base.values()) + sum(self.flexible.values())

    @property
    def in_use(self) -> bool:
        """Whether training jobs run there."""
        return bool(self.base or self.flexible)


@dataclass(frozen=True, slots=True)
class InferenceNeed:
    """What inference uses now and is forecast to use (shares from 0 to 1), or the servers that it needs.

    `servers` goes before the others where it is given.
    """

    usage: float | None = None
    forecast: float | None = None
    servers: int | None = None

    def of(self, servers: int) -> int:
        """Return how many of `servers` it needs; raises BadInputError without a number or for a bad one."""
        if self.servers is not None:
            return self.servers
        shares = [share for share in (self.usage, self.forecast) if share is not None]
        if not shares:
            raise BadInputError(
                "It is not said how many servers inference needs.", remedy="Give usage, forecast or needed."
            )
        for share in shares:
            if not (isfinite(share) and 0 <= share <= 1):
                raise BadInputError(f"The usage is {share!r}.", remedy="Give a share from 0 to 1.")
        return share_of_servers(max(shares), servers)


@dataclass(frozen=True, slots=True)
class LoanLimits:
    """What an operator allows: so many servers stay with inference at least, and are on loan at most."""

    least_kept: int = 0
    most_lent: int = 100_000


@dataclass(frozen=True)
class LoanPlan:
    """What to do now. Of `servers` that are up inference needs `needed`, and `headroom` are never lent.

    `target` should be on loan, `on_loan` are. `lend` and `take_back` are in their order; `preempts` are the
    jobs that lose all their workers, `scales_in` the GPUs that flexible workers of others lose, by job and
    server. `short` further servers should go back and cannot: what runs there is to be left alone.
    `collateral_gpus` of preempted jobs lie on servers that are not taken back. `sentences` say all of it.
    """

    servers: int
    needed: int
    headroom: int
    target: int
    on_loan: int
    lend: tuple[str, ...] = ()
    take_back: tuple[str, ...] = ()
    preempts: tuple[str, ...] = ()
    scales_in: Mapping[tuple[str, str], int] = field(default_factory=dict)
    short: int = 0
    collateral_gpus: int = 0
    sentences: tuple[str, ...] = ()


def plan_loans(
    servers: Sequence[PlannedServer],
    need: InferenceNeed,
    settings: LoanSettings,
    limits: LoanLimits = LoanLimits(),
    *,
    wanted_gpus: int | None = None,
    since_reclaim_s: float = inf,
) -> LoanPlan:
    """Return what to lend or take back.

    `wanted_gpus` are what jobs wait for that may run on servers on loan (`lend = demand` needs it);
    `since_reclaim_s` is how long ago servers were taken back last. Raises BadInputError for numbers that
    cannot be used.
    """
    ordered = sorted(servers, key=lambda server: natural_key(server.name))
    up = [server for server in ordered if server.counts]
    lent = [server for server in up if server.on_loan]
    needed = need.of(len(up))
    target = servers_to_lend(
        len(up),
        needed,
        len(lent),
        settings,
        of_use=None if wanted_gpus is None else _servers_of_use(lent, wanted_gpus),
        since_reclaim_s=since_reclaim_s,
    )
    target = max(0, min(target, limits.most_lent, len(up) - limits.least_kept))
    plan = LoanPlan(
        servers=len(up),
        needed=needed,
        headroom=share_of_servers(settings.headroom, len(up)),
        target=target,
        on_loan=len(lent),
    )
    failed = [server for server in ordered if server.on_loan and not server.counts and not server.in_use]
    plan = replace(
        plan,
        take_back=tuple(server.name for server in failed),
        sentences=(_numbers_in_words(plan, need), *_failed_in_words(failed)),
    )
    if target > len(lent):
        return _with_loans(plan, up)
    return _with_reclaims(plan, lent, settings) if target < len(lent) else plan


def _with_loans(plan: LoanPlan, up: Sequence[PlannedServer]) -> LoanPlan:
    wanted = plan.target - plan.on_loan
    lend = [server.name for server in up if not server.on_loan and server.may_move][:wanted]
    lines = [f"Lend {_names(lend)}: the first that are idle."] if lend else []
    if len(lend) < wanted:
        lines.append(f"{wanted - len(lend)} more could be lent, and are not idle.")
    return replace(plan, lend=tuple(lend), sentences=(*plan.sentences, *lines))


def _with_reclaims(plan: LoanPlan, lent: Sequence[PlannedServer], settings: LoanSettings) -> LoanPlan:
    wanted = plan.on_loan - plan.target
    movable = [server for server in lent if server.may_move]
    choice = choose_reclaim(
        [LoanedServer(number, server.base, server.flexible) for number, server in enumerate(movable)],
        wanted,
        settings.reclaim,
        seed=settings.seed,
        limit_s=settings.exact_limit_s,
    )
    picked = [movable[number] for number in choice.picks]
    short = wanted - len(picked)
    lines = _picks_in_words(picked, choice, settings.reclaim)
    if short:
        lines.append(f"{short} more should go back: jobs run there that may not be preempted.")
    return replace(
        plan,
        take_back=(*plan.take_back, *(server.name for server in picked)),
        preempts=choice.preempted,
        scales_in={(job, movable[at].name): gpus for (job, at), gpus in choice.scaled_in.items()},
        short=short,
        collateral_gpus=choice.collateral_gpus,
        sentences=(*plan.sentences, *lines),
    )


def _servers_of_use(lent: Sequence[PlannedServer], wanted_gpus: int) -> int:
    in_use = [server for server in lent if server.in_use or not server.may_move]
    free_gpus = sum(max(0, server.gpus - server.used_gpus) for server in in_use)
    gpus_per_server = max((server.gpus for server in lent), default=8)
    return servers_of_use(len(in_use), free_gpus, wanted_gpus, max(1, gpus_per_server))


def _numbers_in_words(plan: LoanPlan, need: InferenceNeed) -> str:
    if need.servers is not None:
        need_in_words = f"Inference needs {plan.needed} of {plan.servers} servers"
    else:
        shares = [
            f"{word} {share:.1%}"
            for word, share in (("uses", need.usage), ("is forecast to use", need.forecast))
            if share is not None
        ]
        need_in_words = f"Inference {' and '.join(shares)} of {plan.servers} servers and needs {plan.needed}"
    return (
        f"{need_in_words}; a headroom of {plan.headroom} is never lent. {plan.target} should be on loan,"
        f" {plan.on_loan} {'is' if plan.on_loan == 1 else 'are'}."
    )


def _failed_in_words(failed: Sequence[PlannedServer]) -> list[str]:
    names = [server.name for server in failed]
    return [f"{_names(names)}: on loan, down or drained, and without a job: back."] if names else []


def _picks_in_words(picked: Sequence[PlannedServer], choice: ReclaimChoice[str], rule: str) -> list[str]:
    if not picked:
        return []
    lines = [f"Take back {_names([server.name for server in picked])}, in this order, by the rule {rule}."]
    told: set[str] = set()
    for server in picked[:_MOST_NAMED]:
        jobs = [job for job in server.base if job in choice.preempted and job not in told]
        told.update(jobs)
        if jobs:
            lines.append(f"{server.name}: preempts {_jobs(jobs)}.")
        elif server.base:
            lines.append(f"{server.name}: its jobs are preempted already.")
        elif server.flexible:
            lines.append(
                f"{server.name}: flexible workers only, of {_jobs(list(server.flexible))}; they end."
            )
        else:
            lines.append(f"{server.name}: no job runs there.")
    if choice.preempted:
        proven = ", and fewer are proven to be impossible" if choice.optimal else ""
        lines.append(
            f"{_plural(len(choice.preempted), 'job')} preempted{proven}; {choice.collateral_gpus} GPUs of"
            " theirs lie on servers that stay."
        )
    return lines


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _jobs(jobs: Sequence[str]) -> str:
    return f"job{'s' if len(jobs) > 1 else ''} {_names(jobs)}"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
