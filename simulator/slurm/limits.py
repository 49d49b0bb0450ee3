"""Limits of QOS, accounts and users on what runs at once (AccountingStorageEnforce=limits).

A job that a limit holds back neither starts nor holds up others, and gets no reservation. What a job asks for
alone never holds it back: a log's jobs did run. TRES that a replay does not know (CPUs, memory, licences) are
not counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cluster_logs.site.rules import Account, Qos, SiteRules, User
from simulator.slurm.ranking import GPU, QueueStanding

NONE: Mapping[str, int] = {}
KNOWN_TRES = frozenset({GPU, "node"})

Scope = tuple[str, ...]  # users, accounts or QOS that are counted together


@dataclass(slots=True)
class Held:
    """What the running jobs of a scope have."""

    jobs: int = 0
    tres: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit on a scope."""

    scope: Scope
    jobs: int | None
    tres: Mapping[str, int]


class LimitBook:
    """What runs, by the user, account or QOS that is limited."""

    def __init__(self, site: SiteRules) -> None:
        self._on = site.scheduler.enforce_limits
        self._qos = {qos.name: qos for qos in site.qos}
        self._partition_qos = {each.name: self._qos.get(each.qos) for each in site.partitions}
        self._accounts = {account.name: account for account in site.accounts}
        self._users = {(user.name, user.account): user for user in site.users}
        self._held: dict[Scope, Held] = {}
        self._caps: dict[tuple[str, str, str, str], tuple[Cap, ...]] = {}

    def blocks(self, standing: QueueStanding) -> bool:
        """Return whether a limit holds a job back now."""
        caps = self.caps(standing)
        if not caps:
            return False
        asked = _asked(standing)
        for cap in caps:
            held = self._held.get(cap.scope)
            if held is None or not held.jobs:
                continue
            if cap.jobs is not None and held.jobs >= cap.jobs:
                return True
            for name, most in cap.tres.items():
                if asked.get(name) and held.tres.get(name, 0) + asked[name] > most:
                    return True
        return False

    def count(self, standing: QueueStanding, sign: int) -> None:
        """Count a job that starts (1) or stops (-1)."""
        caps = self.caps(standing)
        if not caps:
            return
        asked = _asked(standing)
        for scope in {cap.scope for cap in caps}:
            held = self._held.setdefault(scope, Held())
            held.jobs += sign
            for name, amount in asked.items():
                held.tres[name] = held.tres.get(name, 0) + sign * amount

    def caps(self, standing: QueueStanding) -> tuple[Cap, ...]:
        """Return what limits a user's jobs in an account, a QOS and a partition."""
        if not self._on:
            return ()
        key = (standing.partition, standing.user, standing.account, standing.qos)
        caps = self._caps.get(key)
        if caps is None:
            found = [cap for cap in self._all(*key) if cap.jobs is not None or cap.tres]
            caps = self._caps[key] = tuple(found)
        return caps

    def _all(self, partition: str, user: str, account: str, qos: str) -> Iterator[Cap]:
        of_job, of_partition = self._qos.get(qos), self._partition_qos.get(partition)
        for each in (of_job, of_partition if of_partition is not of_job else None):
            if each is not None:
                yield from _of_qos(each, user, account)
        association = self._users.get((user, account))
        if association is not None:
            yield from _of_association(association, (user, account))
        seen: set[str] = set()
        name, most_jobs = account, None if association is None else association.max_jobs
        while name in self._accounts and name not in seen:
            seen.add(name)
            each_account = self._accounts[name]
            yield from _of_association(each_account, ("", name))
            most_jobs = each_account.max_jobs if most_jobs is None else most_jobs
            name = each_account.parent
        # What an account says of its jobs holds for each user below it that says nothing itself.
        yield Cap(("user", user, account), most_jobs, NONE)


def _asked(standing: QueueStanding) -> dict[str, int]:
    return {GPU: standing.job.job.gpus, "node": standing.nodes}


def _of_qos(qos: Qos, user: str, account: str) -> Iterator[Cap]:
    yield Cap(("qos", qos.name), qos.grp_jobs, _known(qos.grp_tres))
    yield Cap(("qos", qos.name, "user", user), qos.max_jobs_per_user, _known(qos.max_tres_per_user))
    yield Cap(
        ("qos", qos.name, "account", account), qos.max_jobs_per_account, _known(qos.max_tres_per_account)
    )


def _of_association(each: User | Account, scope: Scope) -> Iterator[Cap]:
    yield Cap(("group", *scope), each.grp_jobs, _known(each.grp_tres))


def _known(tres: Mapping[str, int]) -> Mapping[str, int]:
    return {name: most for name, most in tres.items() if name in KNOWN_TRES}
