"""What an operator sets for the live scheduler, checked. `settings_file.py` reads it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from foundation.errors import BadInputError, UnknownNameError
from foundation.outside_names import check_cluster_name
from live_scheduler.cluster_state import ClusterState, LiveJob


class Mode(StrEnum):
    """How much the daemon does."""

    OBSERVE = "observe"  # decide, log it, compare with what happened; change nothing
    ADVISE = "advise"  # besides, write the expected start and completion beside each job
    CONTROL = "control"  # besides, order the queue


ANY = "*"
_WORDS = {"account": "account", "qos": "QOS"}
# Neither white space nor a comma, so that a list in one string is not taken for a name.
_NAME = re.compile(r"[^\s,\x00-\x1f\x7f-\x9f]{1,253}")
# A task of an array, or a component of a heterogeneous job, belongs to a job that may be named.
_PARTS = re.compile(r"[_+]")


@dataclass(frozen=True)
class HandsOff:
    """Which jobs a site keeps for itself: the table `[hands_off]`.

    Nothing is asked of such a job: neither its place, nor its begin time, nor a text beside it; what this
    product had set of it before is given back. Names are compared as they are; none is a pattern.

    - `jobs`: ids of jobs; an array's stands for all of its tasks.
    - `users`: whose jobs are left alone.
    - `accounts`: likewise, by the account that a job is charged to.
    - `qos`: likewise, by its quality of service.
    - `partitions`: likewise, of a job that names one of these (also beside others).
    - `reservations`: likewise, of a job that asks for one of these; `"*"`: for any, `[]`: all are ordered.
    """

    jobs: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    reservations: tuple[str, ...] = (ANY,)

    def __post_init__(self) -> None:
        """Refuse what is no name."""
        for kind in fields(self):
            for name in getattr(self, kind.name):
                if name == ANY and kind.name == "reservations":
                    continue
                if not _NAME.fullmatch(name):
                    raise BadInputError(
                        f"hands_off.{kind.name} names {name!r}.",
                        remedy="Give a list of names, each without blanks and commas.",
                    )
                if ANY in name:
                    raise BadInputError(
                        f"hands_off.{kind.name} names {name!r}, and names are no patterns.",
                        remedy='Name each one (reservations may be "*"), or set mode = "observe".',
                    )

    @cached_property
    def _names_any(self) -> bool:
        return any((self.jobs, self.users, self.accounts, self.qos, self.partitions))

    def why(self, job: LiveJob) -> str:
        """Return why a job is left alone, "" when it is not."""
        if self.jobs:
            for name in (job.job_id, _PARTS.split(job.job_id, maxsplit=1)[0]):
                if name in self.jobs:
                    return f"hands_off names the job {name}"
        if self.users and job.user in self.users:
            return f"hands_off names its user {job.user}"
        for what, named in (("account", self.accounts), ("qos", self.qos)):
            if named and (name := _lower(job.other_facts.get(what, ""))) in map(_lower, named):
                return f"hands_off names its {_WORDS[what]} {name}"
        if self.partitions:
            for name in (*job.partition.split(","), *job.virtual_cluster.split(",")):
                if name in self.partitions:
                    return f"hands_off names its partition {name}"
        if job.reserved_in and any(name in self.reservations for name in job.reserved_in.split(",")):
            return f"hands_off names its reservation {job.reserved_in}"
        if job.reserved_in and ANY in self.reservations:
            return f"it asks for the reservation {job.reserved_in}"
        return ""

    def over(self, state: ClusterState) -> ClusterState:
        """Return a reading, its jobs with why they are left alone (`LiveJob.hands_off`)."""
        asked = state.jobs if self._names_any else (job for job in state.jobs if job.reserved_in)
        whys = {job.job_id: why for job in asked if (why := self.why(job))}
        if not whys:
            return state
        jobs = tuple(
            replace(job, hands_off=whys[job.job_id]) if job.job_id in whys else job for job in state.jobs
        )
        return replace(state, jobs=jobs)


def _lower(name: object) -> str:
    """Slurm keeps the names of accounts and qualities of service in lower case, however they are written."""
    return str(name).lower()


@dataclass(frozen=True)
class LiveSettings:
    """All settings; times in seconds.

    - `cluster`: the cluster's name in releases and logs.
    - `mode`: how much it does: observe, advise or control.
    - `policy`: a policy of the simulator that never preempts (`simulator.policies`); empty: the one that the
      release runs.
    - `policy_settings`: that policy's settings (a table), in the place of those that the release pins.
    - `release`: the alias that is followed.
    - `trust`: the trust file that says whose signatures on releases are believed, or the word `unsigned`;
      empty: LUCID_TRUST's, else `trust.json` beside the settings or in the state folder.
    - `pass_interval_s`: a pass begins so long after the last began.
    - `release_interval_s`: how often the alias is looked at.
    - `release_limit_s`: a look may take so long as a whole, with all files of a new release.
    - `stale_after_polls`: after so many looks in a row without an answer, the release counts as stale.
    - `partitions`: the partitions that are ordered; empty: all but the profiling partition.
    - `profiling_partition`: where new small jobs are measured first; empty: no profiling stage.
    - `shared_partitions`: where jobs may share GPUs (gres/shard); empty: no job is colocated.
    - `changes_per_pass`: no more is asked of the cluster at once.
    - `changes_per_minute`: nor in a minute, besides one pass's.
    - `longest_wait_s`: a job that has waited longer goes to the front of its queue, whatever its size.
    - `dead_after_s`: without a heartbeat for so long the cluster's own order returns.
    - `advise_interval_s`: how often expected times are written beside jobs.
    - `http_port`: of the answers, on loopback; 0: any free port, -1: none.
    - `hands_off`: which jobs are left alone (a table, see below); without it those in reservations.
    - `adapter`: the kind of cluster: an installed adapter; a table of its name holds its own settings.
    - `adapter_settings`: that adapter's own settings.
    - `tables`: the settings of parts by their names, each of its own class (`live_scheduler.capability`); a
      file has a table of each name.
    """

    cluster: str
    mode: Mode = Mode.OBSERVE
    policy: str = ""
    policy_settings: Mapping[str, Any] = field(default_factory=dict)
    release: str = "champion"
    trust: str = ""
    pass_interval_s: float = 2.0
    release_interval_s: float = 10.0
    release_limit_s: float = 300.0
    stale_after_polls: int = 6
    partitions: tuple[str, ...] = ()
    profiling_partition: str = ""
    shared_partitions: tuple[str, ...] = ()
    changes_per_pass: int = 2_000
    changes_per_minute: int = 6_000
    longest_wait_s: float = 3 * 86_400.0
    dead_after_s: float = 60.0
    advise_interval_s: float = 60.0
    http_port: int = 0
    hands_off: HandsOff = field(default_factory=HandsOff)
    adapter: str = "slurm"
    adapter_settings: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_control(self) -> tuple[str, ...]:
        """The parts that change the cluster by their own settings, whatever the mode of the queue."""
        return tuple(name for name, table in self.tables.items() if table.mode is Mode.CONTROL)

    def __post_init__(self) -> None:
        """Refuse values that no daemon can run with."""
        if not self.cluster:
            raise BadInputError("The live scheduler's cluster has no name.", remedy='Set cluster = "...".')
        check_cluster_name(self.cluster)
        for name in (
            *("pass_interval_s", "release_interval_s", "release_limit_s"),
            *("longest_wait_s", "advise_interval_s"),
        ):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise BadInputError(f"{name} is {value!r}.", remedy="Give a number of seconds above 0.")
        if not self.dead_after_s > 2 * self.pass_interval_s:
            raise BadInputError(
                f"dead_after_s is {self.dead_after_s!r}, with a pass every {self.pass_interval_s:g} s.",
                remedy="Allow for more than two passes.",
            )
        for name in ("changes_per_pass", "changes_per_minute", "stale_after_polls"):
            if getattr(self, name) < 1:
                raise BadInputError(f"{name} is {getattr(self, name)!r}.", remedy="Give 1 or more.")
        if not -1 <= self.http_port < 65_536:
            raise BadInputError(
                f"http_port is {self.http_port!r}.", remedy="Give a port, 0 for a free one, -1 for none."
            )
        used = {*self.partitions, *self.shared_partitions, self.profiling_partition}
        if both := sorted(used.intersection(self.hands_off.partitions)):
            raise BadInputError(
                f"hands_off.partitions names {both[0]!r}, which other settings use.",
                remedy="Leave a partition alone, or order it.",
            )
        if self.policy_settings and not self.policy:
            raise BadInputError("policy_settings are given, and no policy.", remedy='Set policy = "...".')


def checked_values(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for the fields of a dataclass, by name; raises BadInputError, UnknownNameError."""
    types = {each.name: each.type for each in fields(kind)}
    for name in document:
        if name not in types:
            raise UnknownNameError("setting of the live scheduler:", name, types)
    return {name: _checked(name, value, types[name]) for name, value in document.items()}


def _checked(name: str, value: Any, kind: Any) -> Any:
    if kind is Mode:
        try:
            return Mode(value)
        except ValueError:
            raise UnknownNameError("mode", str(value), list(Mode)) from None
    if kind == Mapping[str, Any] or kind is HandsOff:
        return _table(name, value, kind)
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind == tuple[str, ...] and isinstance(value, list | tuple) and all(isinstance(w, str) for w in value):
        return tuple(value)
    expected = "a list of names" if kind == tuple[str, ...] else f"a value of type {kind.__name__}"
    raise BadInputError(f"{name} is {value!r}.", remedy=f"Give {expected}.")


def _table(name: str, value: Any, kind: Any) -> Any:
    if kind is HandsOff and isinstance(value, HandsOff):
        return value
    if not isinstance(value, Mapping):
        raise BadInputError(f"{name} is {value!r}.", remedy="Give a table.")
    return HandsOff(**checked_values(HandsOff, value)) if kind is HandsOff else dict(value)
