"""The way back: the cluster's own order, as if this product had never been there.

Returned are the jobs that it has touched: by its own record (`touched.py`), and by their priorities where
only this product gives such (`PriorityRange.exclusive`). They go back in the order of submission, so that a
cluster which numbers its jobs as they come numbers them alike. Texts beside jobs are removed, and what is
profiled goes home. Jobs that users or admins hold stay held, and what another hand set after this product
had stays as it is (`operators_word.py`).

Everything may be repeated at any point: what is back is not touched again. What counts is what is read back
afterwards: a change that the cluster took, and that is not seen, is asked for again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from foundation.human_times import human_duration
from live_scheduler.adapter import (
    Advise,
    Change,
    ClusterAdapter,
    MoveTo,
    PriorityRange,
    Refusal,
    Restorer,
    RestrictToNode,
    ReturnToDefault,
    SendHome,
    StartAfter,
    WriteBack,
)
from live_scheduler.cluster_state import ClusterState, Kept, LiveJob, natural_key
from live_scheduler.safety.operators_word import OperatorsWord
from live_scheduler.safety.touched import TouchedJobs, Way

# Small enough that a daemon that comes back, or a user who holds a job, is seen soon.
BATCH = 200
_NONE: Mapping[str, int | None] = MappingProxyType({})
# Two cycles are enough after the last change; changes that are undone again and again end some time.
_MOST_ROUNDS = 3
_CYCLES = 2
# All jobs are looked at so often meanwhile, and at least so many times between two cycles: what is given back
# then is what the next one reads.
_LOOK_EVERY_S, _LOOKS_BETWEEN_CYCLES = 5.0, 3


@dataclass(frozen=True)
class Restoration:
    """What one way back did: the jobs by what became of them.

    `returned` have the cluster's own priorities again (also those that run, should they be requeued),
    `sent_home` left the profiling partition, beside `cleared` stood a text. `held` are touched jobs that
    a person holds: the cluster gives them its own priority when they are released. `by_hand` keep the place
    that a person gave them. `refused` are refusals for
    jobs that still wait. `left` are not back yet: refused, sent home a moment ago, or not reached.
    `ours` waited with a priority that only this product gives (`PriorityRange.exclusive`), or had a text of
    this product's beside them, when this began. `undone` were given back, and do not show it: something else
    was written since.
    """

    returned: tuple[str, ...] = ()
    sent_home: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    left: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was to be done, or is."""
        return any((self.returned, self.sent_home, self.cleared, self.held, self.refused, self.left))

    @property
    def quiet(self) -> bool:
        """Whether nothing of this product was seen any more when this began."""
        return self.complete and not self.ours

    @property
    def complete(self) -> bool:
        """Whether nothing of this product is left on the cluster."""
        return not self.left

    def followed_by(self, later: "Restoration") -> "Restoration":
        """Return both as one."""
        return Restoration(
            returned=tuple(dict.fromkeys(self.returned + later.returned)),
            sent_home=tuple(dict.fromkeys(self.sent_home + later.sent_home)),
            cleared=tuple(dict.fromkeys(self.cleared + later.cleared)),
            held=later.held,
            by_hand=later.by_hand,
            refused=later.refused,
            left=later.left,
            ours=later.ours,
            undone=later.undone,
        )

    def describe(self) -> str:
        """Return one line for people."""
        parts = [
            (len(self.returned), "returned to the cluster's own order"),
            (len(self.sent_home), "sent home from the profiling partition"),
            (len(self.cleared), "freed of advice"),
            (len(self.held), "held by a person and left so"),
            (len(self.by_hand), "left where a person put them"),
            (len(self.refused), "refused"),
            (len(self.left), "not back yet"),
        ]
        return "; ".join(f"{count} {what}" for count, what in parts if count) or "nothing was to be done"


def restore(
    adapter: ClusterAdapter,
    touched: TouchedJobs,
    *,
    stage: Restorer | None = None,
    everything: bool = False,
    remember: bool = False,
    go_on: Callable[[], bool] = lambda: True,
) -> Restoration:
    """Give back all jobs that can be given back now; call it again while `left` names some.

    `everything`: all waiting jobs, also those that no record names. `remember`: what is back stays in the
    record (`Way.RETURNED`), since the cluster may undo it for some time yet. `go_on` is asked between
    batches: a daemon that came back stops it. Raises ServiceUnavailableError when the cluster does not answer
    (some may be back then), OSError when the record cannot be read. One that cannot be written is no
    hindrance.
    """
    state = adapter.read()
    touched.reload()
    priorities = adapter.priorities
    words = OperatorsWord(touched.folder, adapter, touched)
    state = words.heard(state, keep=False)
    by_hand = words.orders(state)
    recorded = dict(touched.values)
    ours = tuple(
        job.job_id
        for job in state.jobs
        if _shows_text(job) or (job.waiting and priorities.ours(job.priority) and job.job_id not in by_hand)
    )
    home = stage.all_home(state) if stage is not None else _strays_home(state)
    wanted = changes_back(state, touched, priorities, home, by_hand=by_hand, everything=everything)
    # What is sent home is given back when it waits there; what is refused now, at the next call.
    later = [change.job_id for change in wanted if everything or isinstance(change, SendHome)]
    _unless_unwritable(lambda: touched.adopt(later))
    recorded |= {job_id: touched.of(job_id) for job_id in later}
    asked, refusals, unasked = _asked_in_batches(adapter, wanted, go_on)
    refused = {refusal.change.job_id: refusal for refusal in refusals}
    if wanted:
        state = adapter.read()
    waiting = {job.job_id for job in state.jobs if job.waiting and not job.held}
    made = [change for change in asked if change.job_id not in refused]
    seen = [change for change in made if _is_seen(change, state.by_id.get(change.job_id), priorities)]
    showing = {job.job_id for job in state.jobs if _shows_text(job)}
    not_restored = {
        job_id
        for job_id, refusal in refused.items()
        if job_id in waiting or (isinstance(refusal.change, Advise) and job_id in showing)
    }
    not_restored |= {change.job_id for change in unasked}
    unseen = {change.job_id: change for change in set(made).difference(seen)}
    not_restored |= unseen.keys()
    held = tuple(job.job_id for job in state.jobs if job.held and touched.of(job.job_id).how - {Way.RETURNED})
    touched.refresh()
    # A job that was touched anew meanwhile, by a daemon that has come back, is not.
    back = [job_id for job_id, touch in recorded.items() if touched.of(job_id) == touch]
    back = [job_id for job_id in back if job_id not in not_restored]
    alive = [job_id for job_id in back if remember and job_id in state.by_id]
    _unless_unwritable(lambda: touched.returned(alive))
    _unless_unwritable(lambda: touched.cross_off(set(back) - set(alive)))
    return Restoration(
        returned=tuple(
            change.job_id for change in seen if isinstance(change, ReturnToDefault) and not change.by_hand
        ),
        sent_home=tuple(change.job_id for change in made if isinstance(change, SendHome | MoveTo)),
        cleared=tuple(change.job_id for change in seen if isinstance(change, Advise)),
        held=held,
        by_hand=tuple(job.job_id for job in _by_submission(state) if job.job_id in by_hand and job.waiting),
        refused=tuple(refusal for job_id, refusal in refused.items() if job_id in waiting),
        left=tuple(job.job_id for job in _by_submission(state) if job.job_id in not_restored),
        ours=ours,
        undone=tuple(job_id for job_id, change in unseen.items() if not isinstance(change, SendHome)),
    )


def _shows_text(job: LiveJob) -> bool:
    return bool(job.advice) and Kept.TEXT not in job.kept


def _is_seen(change: Change, job: LiveJob | None, priorities: PriorityRange) -> bool:
    """Return whether a job shows what was asked for; one that is gone does."""
    if job is None:
        return True
    match change:
        case Advise(text=text):
            return job.advice == text
        case ReturnToDefault(by_hand=by_hand):
            return by_hand or not priorities.ours(job.priority)
        case MoveTo(partition=partition):
            return job.partition == partition
        case SendHome():
            return False  # it is given back when it waits there
        case _:
            return True  # a begin time passes by itself


def _asked_in_batches(
    adapter: ClusterAdapter, changes: Sequence[Change], go_on: Callable[[], bool]
) -> tuple[list[Change], list[Refusal], list[Change]]:
    """Return what was asked of the cluster, what of that it refused, and what `go_on` left unasked.

    What did not reach the cluster is asked again with the next batch.
    """
    asked: list[Change] = []
    refusals: list[Refusal] = []
    unasked = list(changes)
    while unasked and go_on():
        batch, unasked = unasked[:BATCH], unasked[BATCH:]
        answers = adapter.apply(batch)
        refusals += [refusal for refusal in answers if not refusal.unreached]
        unreached = {refusal.change for refusal in answers if refusal.unreached}
        asked += [change for change in batch if change not in unreached]
        unasked = [change for change in batch if change in unreached] + unasked
    return asked, refusals, unasked


def changes_back(
    state: ClusterState,
    touched: TouchedJobs,
    priorities: PriorityRange,
    home: Sequence[Change] = (),
    *,
    by_hand: Mapping[str, int | None] = _NONE,
    everything: bool = False,
) -> list[Change]:
    """Return what has to be asked of the cluster now: `home` first, the rest in the order of submission.

    `by_hand` are the jobs whose place is a person's, with the priority that it is.
    """
    changes = list(home)
    leaving = {change.job_id for change in home if isinstance(change, SendHome)}
    moved = {change.job_id for change in home if isinstance(change, MoveTo)}
    # Behind a job that is numbered anew all younger ones are too: else they would overtake it.
    anew = False
    for job in _by_submission(state):
        touch = touched.of(job.job_id)
        if _shows_text(job) or (Way.ADVISED in touch.how and Kept.TEXT not in job.kept):
            changes.append(Advise(job.job_id, ""))
        if job.job_id in leaving:
            continue  # it waits some moments later
        if not job.waiting:
            # It may have to wait again: after the failure of a node, or by an admin's word.
            if priorities.ours(job.priority) and job.job_id not in by_hand:
                changes.append(ReturnToDefault(job.job_id, touch.priority))
            continue
        if Way.RESTRICTED in touch.how and (Kept.START not in job.kept or job.pinned_to == touch.node):
            changes.append(RestrictToNode(job.job_id, None))
        if Way.DELAYED in touch.how and Kept.START not in job.kept:
            changes.append(StartAfter(job.job_id, 0))
        if job.held:
            continue
        if job.job_id in by_hand:
            if touch.how:
                changes.append(ReturnToDefault(job.job_id, by_hand[job.job_id], by_hand=True))
            continue
        ranked = Way.ORDERED in touch.how or priorities.ours(job.priority)
        if ranked or everything or job.job_id in moved:
            anew = anew or touch.priority is None
            changes.append(ReturnToDefault(job.job_id, None if anew else touch.priority))
    return changes


def changes_of_hands_off(
    state: ClusterState, touched: TouchedJobs, priorities: PriorityRange
) -> list[Change]:
    """Return what has to be asked of jobs that are to be left alone and on which something of ours stands."""
    jobs = tuple(job for job in state.jobs if job.hands_off and _stands(job, touched, priorities))
    if not jobs:
        return []
    by_hand = {job.job_id: job.priority for job in jobs if Kept.ORDER in job.kept}
    return changes_back(replace(state, jobs=jobs), touched, priorities, by_hand=by_hand)


def _stands(job: LiveJob, touched: TouchedJobs, priorities: PriorityRange) -> bool:
    touch = touched.of(job.job_id)
    ordered = priorities.ours(job.priority) or (job.priority is not None and job.priority in touch.given)
    return (ordered and Kept.ORDER not in job.kept and not job.held) or bool(job.advice)


def _strays_home(state: ClusterState) -> list[Change]:
    """Where nothing is profiled any more: jobs are in other partitions than their own for that only."""
    strays = [job for job in state.jobs if job.mark and job.partition != job.virtual_cluster]
    return [
        MoveTo(job.job_id, job.virtual_cluster, job.virtual_cluster)
        if job.waiting
        else SendHome(job.job_id, job.virtual_cluster)
        for job in strays
        if job.waiting or job.requeueable
    ]


def _by_submission(state: ClusterState) -> list[LiveJob]:
    return sorted(state.jobs, key=lambda job: (job.submit_time_s, natural_key(job.job_id)))


def _unless_unwritable(write: Callable[[], None]) -> None:
    try:
        write()
    except OSError:
        return


class Settling:
    """Says when what was given back is given back for good. `clock` is monotonic, in seconds.

    A cluster's own scheduler may write priorities back that it read before they were changed (`WriteBack`).
    So everything is looked at again, and given back again, until nothing of ours was there through two of its
    cycles: the one that ran at the last change, and a whole one after it.
    """

    def __init__(self, *, least_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """`least_s`: so long it takes at least, where nothing is written back either."""
        self._least_s, self._clock = least_s, clock
        self.start_over()

    def start_over(self) -> None:
        """Forget everything: what was given back was taken again."""
        self._since_s: float | None = None
        self._began_s: float | None = None
        self._ended = 0
        self._counted: int | None = None

    def seen(self, done: Restoration, write_back: WriteBack | None) -> bool:
        """Take in a look at all jobs; return whether all is back for good. `write_back` was read after it."""
        now_s = self._clock()
        if not done.complete:
            began_s = self._began_s
            self.start_over()
            if done.undone:
                self._began_s = now_s if began_s is None else began_s
            return False
        # What is not written back needs no second look, but for what is still on its way.
        quiet = done.quiet if write_back is not None else done.complete
        cycles = None if write_back is None else write_back.cycles
        if not quiet or self._since_s is None:
            self._since_s, self._ended, self._counted = now_s, 0, cycles
            if self._began_s is None:
                self._began_s = now_s
            return quiet and write_back is None and self._least_s <= 0
        if cycles is not None and self._counted is not None:
            # A count that starts anew (midnight, `sdiag --reset`) hides some.
            self._ended += max(0, cycles - self._counted)
        self._counted = cycles
        waited_s = now_s - self._since_s
        if write_back is None:
            return waited_s >= self._least_s
        # In a queue to which nothing happens no cycle begins, and where none runs none has old numbers.
        idle = write_back.running is False
        needed_s = _CYCLES * write_back.interval_s if idle else two_cycles_s(write_back)
        return waited_s >= self._least_s and (self._ended >= _CYCLES or waited_s >= needed_s)

    def goes_on_for_ever(self, write_back: WriteBack) -> bool:
        """Return whether what is back is undone for longer than any cycle can explain."""
        began_s = self._clock() if self._began_s is None else self._began_s
        return self._clock() - began_s >= longest_s(write_back)


def next_look_s(write_back: WriteBack | None) -> float:
    """After how long all jobs are to be looked at again."""
    if write_back is None:
        return _LOOK_EVERY_S
    return min(_LOOK_EVERY_S, write_back.interval_s / _LOOKS_BETWEEN_CYCLES)


def two_cycles_s(write_back: WriteBack) -> float:
    """How long two cycles take at most, from the last change on."""
    return _CYCLES * (write_back.interval_s + write_back.longest_s)


def longest_s(write_back: WriteBack) -> float:
    """After so long the watch ends, whatever is written back."""
    return _MOST_ROUNDS * two_cycles_s(write_back)


def watch_words(write_back: WriteBack) -> str:
    """Say what is still to be watched, for how long, and why."""
    limit = human_duration(two_cycles_s(write_back))
    return f"all jobs are looked at until two cycles have ended, for {limit} at most: {write_back.why}"
