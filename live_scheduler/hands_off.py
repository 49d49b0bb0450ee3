"""Which jobs a site keeps for itself: the table `[hands_off]` of the live settings.

Nothing is asked of such a job: neither its place, nor its begin time, nor a text beside it; what this product
had set of it before is given back. Names are compared as they are; none is a pattern.
"""

import re
from dataclasses import dataclass, fields, replace
from functools import cached_property

from foundation.errors import BadInputError
from live_scheduler.cluster_state import ClusterState, LiveJob

ANY = "*"
_WORDS = {"account": "account", "qos": "QOS"}
# Neither white space nor a comma, so that a list in one string is not taken for a name.
_NAME = re.compile(r"[^\s,\x00-\x1f\x7f-\x9f]{1,253}")
# A task of an array, or a component of a heterogeneous job, belongs to a job that may be named.
_PARTS = re.compile(r"[_+]")


@dataclass(frozen=True)
class HandsOff:
    """The table `[hands_off]`.

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
