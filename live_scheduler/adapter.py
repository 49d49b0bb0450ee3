"""The seam between decisions and a cluster: what an adapter reads, and what it may be asked to change.

Which adapters there are, and how one is opened: `adapters.py`.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from live_scheduler.cluster_state import ClusterState, EndedJob, Kept, LiveJob
from live_scheduler.deciding.decision import Decision


@dataclass(frozen=True, slots=True)
class SetPriority:
    """Give a waiting job this priority; higher starts earlier."""

    job_id: str
    priority: int


@dataclass(frozen=True, slots=True)
class MoveTo:
    """Let a waiting job queue in another partition, and remember where it belongs (`LiveJob.mark`)."""

    job_id: str
    partition: str
    home: str


@dataclass(frozen=True, slots=True)
class SendHome:
    """Stop a run on the profiling partition, and let the job queue at home, from its beginning.

    For a run only: a job that waits there is moved (`MoveTo` its home). It is never put on hold, so whatever
    happens half-way, it runs again. It may wait at home for a moment that the cluster needs to clear up.
    """

    job_id: str
    home: str
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class RestrictToNode:
    """Let a waiting job start on this node only (None: anywhere again): so it meets its partner there."""

    job_id: str
    node: str | None


@dataclass(frozen=True, slots=True)
class StartAfter:
    """Let a waiting job start no sooner than in so many seconds, and then by itself: a hold that passes.

    With 0 it may start now, unless the cluster still clears up after an earlier run of it.
    """

    job_id: str
    delay_s: int


@dataclass(frozen=True, slots=True)
class Advise:
    """Show `text` beside a waiting or running job, after its user's own comment; empty: remove it."""

    job_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ReturnToDefault:
    """Give a job back to the cluster's own order, as if this product had never touched it.

    One that runs is asked for only where priorities are exclusive (`PriorityRange`).
    `priority` is what the cluster itself had given it before (None: unknown). A cluster whose own order is
    that of submission (Slurm: priority/basic) gets it back as it was: any other would put the job behind
    those that were never touched. A cluster that computes priorities computes it anew. `by_hand`: a person
    set that priority after this product had, and it stands; what this product wrote beside it goes.
    """

    job_id: str
    priority: int | None = None
    by_hand: bool = False


Change = SetPriority | MoveTo | SendHome | RestrictToNode | StartAfter | Advise | ReturnToDefault


def is_kept(change: Change, job: LiveJob | None) -> bool:
    """Return whether a change is of what is kept of its job. What takes ours back is not."""
    if job is None or not (job.kept or job.hands_off):
        return False
    kept = frozenset(Kept) if job.hands_off else job.kept.keys()
    match change:
        case Advise(text=text):
            return bool(text) and Kept.TEXT in kept
        case SetPriority() | MoveTo() | SendHome():
            # What is measured, or waits for that, has to come home again.
            leaves = not isinstance(change, SetPriority) and job.partition != job.virtual_cluster
            return Kept.ORDER in kept and not leaves
        case StartAfter() | RestrictToNode():
            takes_back = isinstance(change, RestrictToNode) and change.node is None
            return bool({Kept.START, Kept.ORDER} & kept) and not takes_back
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that the cluster refused, in its own words (the job may have started or ended meanwhile).

    `unreached`: others took too long; it may be asked for again at once.
    """

    change: Change
    why: str
    unreached: bool = False


@dataclass(frozen=True, slots=True)
class PriorityRange:
    """The priorities that an adapter may give, both ends included.

    `exclusive`: neither the cluster nor its people give such priorities, so a job that has one was ranked.
    """

    least: int
    most: int
    exclusive: bool = False

    def ours(self, priority: int | None) -> bool:
        """Return whether only this product gives that priority."""
        return self.exclusive and priority is not None and self.least <= priority <= self.most


@dataclass(frozen=True, slots=True)
class WriteBack:
    """A cluster's own scheduler undoes changes: it writes back priorities that it read when its cycle began.

    A cycle begins `interval_s` after the last one's end at the latest, and takes `longest_s` at most.
    `cycles` have ended so far, and one is `running`, as far as the cluster says (None). `why` is for people.
    """

    interval_s: float
    longest_s: float
    why: str
    cycles: int | None = None
    running: bool | None = None


class ClusterAdapter(Protocol):
    """A cluster. Every method raises ServiceUnavailableError when the cluster does not answer in time."""

    name: str
    priorities: PriorityRange

    def read(self) -> ClusterState:
        """Return the cluster as it is now."""

    def ended(self, job_ids: Collection[str], since_s: float) -> list[EndedJob]:
        """Return what became of jobs that wait and run no longer; one that is not known (yet) is missing.

        `since_s`: none of them had ended before.
        """

    def ended_since(self, since_s: float) -> list[EndedJob]:
        """Return all jobs that ended at or after `since_s`, in the order of their ends."""

    def apply(self, changes: Sequence[Change]) -> list[Refusal]:
        """Make the changes in their order; return those that the cluster refused.

        When ServiceUnavailableError is raised half-way, any of them may have been made: read again.
        """

    def own_priorities(self, jobs: Sequence[LiveJob]) -> Mapping[str, bool]:
        """Return whether the cluster itself gave jobs of the last reading the priorities that they have.

        Those of which that is not known yet are missing.
        """

    def write_backs(self) -> WriteBack | None:
        """Return how the cluster may undo a priority that was set; None: what is set stays."""


class Stage(Protocol):
    """What adds changes to a pass: the profiling stage, colocation, advice."""

    def changes(self, decision: Decision, cluster: ClusterState) -> Sequence[Change]:
        """Return what to ask for, the most urgent first."""


class Profiling(Protocol):
    """Moves jobs to the profiling partition and back."""

    def takes(self, job: LiveJob, cluster: ClusterState) -> bool:
        """Whether a job may run there first."""

    def limit_s(self, job_id: str) -> float | None:
        """For how long a job that runs there may do so; None: for as long as the policy says."""


class Restorer(Protocol):
    """Has moved jobs to other partitions than their own, and returns them."""

    def all_home(self, cluster: ClusterState) -> list[Change]:
        """Return what brings every job home that can be brought home."""


class ProfilingMoves(Stage, Profiling, Restorer, Protocol):
    """What a part does where the setting `profiling_partition` asks for it."""


class RefusedChanges:
    """The jobs of which changes were refused, until one is made or the job is gone."""

    def __init__(self) -> None:
        """Nothing was refused yet."""
        self._kinds: dict[str, set[str]] = {}

    def __contains__(self, change: Change) -> bool:
        """Return whether something was refused of the change's job."""
        return change.job_id in self._kinds

    def note(self, asked: Sequence[Change], refused: Sequence[Refusal], jobs: Container[str]) -> str:
        """Learn what became of changes; return what is new about it for people, "" when nothing is."""
        before = {job_id: kinds for job_id, kinds in self._kinds.items() if job_id in jobs}
        asked_of = {change.job_id for change in asked}
        self._kinds = {job_id: set(kinds) for job_id, kinds in before.items() if job_id not in asked_of}
        new: list[Refusal] = []
        for refusal in refused:
            if refusal.unreached:
                continue
            job_id, kind = refusal.change.job_id, type(refusal.change).__name__
            self._kinds.setdefault(job_id, set()).add(kind)
            if kind not in before.get(job_id, ()):
                new.append(refusal)
        if not new:
            return ""
        others = f" (and {len(new) - 1} more changes)" if len(new) > 1 else ""
        first = new[0].change
        return f"refused: {type(first).__name__} of job {first.job_id}{others}: {new[0].why}"
