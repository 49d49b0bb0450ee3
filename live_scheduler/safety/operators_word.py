"""What someone else set of a job after this product had: it stands, from then on.

    STATE/operators_words.jsonl    {"job_id": "17", "words": {"order": {"what": ..., "priority": 4711, ...}}}
                                   {"job_id": "17", "words": {}}    it is gone, or the word was taken back

What a job shows is compared with what was written (`touched.py`), at each pass before anything is decided,
and at each look of the way back before anything is given back. What stands there and is neither ours nor the
cluster's own is a word of another hand: an operator, the job's user, a program of the site.

- *Order*: a priority that was not given from here and that the cluster did not give, a nice value, or the
  place that `scontrol top` gives (a negative nice value on a number of ours). The number that the cluster
  gave before ours, and earlier ones of ours, are no word: Slurm's backfill writes such numbers back, and what
  was written down before a daemon was killed may never have been asked for.
- *Start*: a begin time other than the one that was given from here, or another node.
- *Text*: a comment that was written anew, or from which ours was taken away.

A priority of the cluster's own again (`scontrol release`) takes a word on the order back. A job that is
held says enough by that, and has no word here.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from live_scheduler.adapter import Advise, Change, ClusterAdapter
from live_scheduler.cluster_state import ClusterState, Kept, LiveJob
from live_scheduler.memory.records import LastLines
from live_scheduler.safety.touched import Begin, Touch, TouchedJobs, Way

WORDS_FILE = "operators_words.jsonl"
# A begin time that was asked for as "in so many seconds": a job gets it at most so much later, and clocks
# of whole seconds show it so much earlier.
_LATEST_S, _EARLIEST_S = 60.0, 2.0
_NONE: "Words" = MappingProxyType({})
_UNKNOWN = "its priority was changed, by which hand is not known yet"


@dataclass(frozen=True, slots=True)
class Word:
    """What was set, for people, and when it was first seen (Unix s).

    `priority` and `nice` are what a word on the order left the job with; None: they say nothing of it.
    """

    what: str
    at_s: float
    priority: int | None = None
    nice: int | None = None

    def describe(self) -> str:
        """Return why the job is left alone."""
        at = datetime.fromtimestamp(self.at_s, tz=UTC)
        return f"an operator or its user set {self.what} (seen {at:%Y-%m-%d %H:%M:%S} UTC)"


Words = Mapping[Kept, Word]


class WordsOnRecord(LastLines[Words]):
    """The words by job; they outlive the daemon, and go with their jobs."""

    file_name = WORDS_FILE
    durable = True
    most_stale_lines = 2_000

    def of(self, job_id: str) -> Words:
        """Return what was said of a job."""
        return self.values.get(job_id) or {}

    def to_fields(self, key: str, value: Words | None) -> Mapping[str, object]:
        """Return a line as the module shows them."""
        words = {
            kept: {name: each for name in Word.__slots__ if (each := getattr(word, name)) is not None}
            for kept, word in (value or {}).items()
        }
        return {"job_id": key, "words": words}

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, Words | None]:
        """Read such a line."""
        words = {
            Kept(kept): Word(
                str(word["what"]),
                float(word["at_s"]),
                *(
                    None if (number := word.get(name)) is None else int(number)
                    for name in ("priority", "nice")
                ),
            )
            for kept, word in fields["words"].items()
        }
        return str(fields["job_id"]), words or None


class OperatorsWord:
    """Finds words in readings. One object a process; its records are shared."""

    def __init__(self, folder: Path | None, adapter: ClusterAdapter, touched: TouchedJobs) -> None:
        """Raises OSError when the words on record cannot be read."""
        self.record = WordsOnRecord(folder)
        self._adapter, self._touched = adapter, touched
        self._heard: Mapping[str, Words] = {}
        self._shown: set[str] = set()  # jobs beside which a text of ours stood

    def heard(self, state: ClusterState, *, keep: bool = True) -> ClusterState:
        """Return the reading, its jobs with what is kept of them (`LiveJob.kept`), after writing words down.

        Raises ServiceUnavailableError when the cluster does not answer, OSError (where they are to be kept in
        any case) when a word cannot be written: nothing may be changed then, since it would be forgotten.
        """
        self.record.refresh()
        heard: dict[str, Words] = {}
        begins: dict[str, float] = {}
        doubtful: dict[str, LiveJob] = {}  # jobs whose order is the cluster's, or has another's word
        touches, spoken = self._touched.values, self.record.values
        for job in state.jobs:
            recorded, before = touches.get(job.job_id), spoken.get(job.job_id, _NONE)
            if not before and recorded is not None and self._is_as_written(job, recorded):
                continue
            touch = recorded or self._touch(job.job_id)
            if not touch.how and not before:
                continue
            words = dict(before)
            if Kept.TEXT not in words and self._text_is_others(job, touch):
                words[Kept.TEXT] = Word("its comment", state.at_s)
            if Kept.START not in words and job.waiting:
                if what := _start_of_others(job, touch, state.at_s):
                    words[Kept.START] = Word(what, state.at_s)
                elif touch.begin is not None and not touch.begin.seen and _begins_as_given(job, touch.begin):
                    begins[job.job_id] = job.begin_time_s or 0.0
            if not job.held and _order_is_doubtful(job, touch, before.get(Kept.ORDER)):
                doubtful[job.job_id] = job
            heard[job.job_id] = words
        unknown = self._settle_orders(state, heard, doubtful)
        self._shown = {job.job_id for job in state.jobs if job.advice}
        gone = [job_id for job_id in self.record if job_id not in state.by_id] if state.jobs else []
        self._heard = heard
        try:
            self.record.write(
                {job_id: words or None for job_id, words in heard.items() if words or job_id in self.record}
            )
        except OSError:
            if keep:
                raise
        with suppress(OSError):  # they are written down another time
            self._touched.begins(begins)
        self._forget(gone, state)
        return _with_kept(state, heard, unknown)

    def orders(self, state: ClusterState) -> Mapping[str, int | None]:
        """Return the jobs of a reading that was heard whose place is kept: their priorities (None: any)."""
        found: dict[str, int | None] = {}
        for job in state.jobs:
            if Kept.ORDER in job.kept:
                word = self._heard.get(job.job_id, {}).get(Kept.ORDER)
                found[job.job_id] = None if word is None else word.priority
        return found

    def asked(self, changes: Iterable[Change]) -> None:
        """Take note of texts that are taken away from here."""
        self._shown -= {change.job_id for change in changes if isinstance(change, Advise) and not change.text}

    def _forget(self, gone: Sequence[str], state: ClusterState) -> None:
        """Cross jobs off that are gone; a slurmctld that lost its jobs may get them back."""
        if len(gone) > len(state.jobs):
            return
        with suppress(OSError):
            self.record.cross_off(gone)

    def _touch(self, job_id: str) -> Touch:
        """Return how a job was touched; a task that left its array's record took along what stood there."""
        touch = self._touched.of(job_id)
        array_id, is_task, _ = job_id.partition("_")
        return touch if touch.how or not is_task else self._touched.of(array_id)

    def _is_as_written(self, job: LiveJob, touch: Touch) -> bool:
        """Return whether nothing of a job may be another's: of most jobs, at most passes."""
        return (
            job.priority is not None
            and job.priority in touch.given[-1:]
            and job.nice >= 0
            and touch.begin is None
            and not touch.node
            and (job.advice != "" or not (job.comment_by_others or job.job_id in self._shown))
        )

    def _text_is_others(self, job: LiveJob, touch: Touch) -> bool:
        if Way.ADVISED not in touch.how or job.advice:
            return False
        return job.comment_by_others or job.job_id in self._shown

    def _settle_orders(
        self, state: ClusterState, heard: dict[str, Words], doubtful: Mapping[str, LiveJob]
    ) -> Collection[str]:
        """Find out whose the doubtful orders are; return the jobs of which it cannot be told yet."""
        if not doubtful:
            return ()
        computed = self._adapter.own_priorities([*doubtful.values()])
        for job_id, job in doubtful.items():
            touch, words = self._touch(job_id), dict(heard[job_id])
            by_cluster = computed.get(job_id)
            if by_cluster is None and not _top(job):
                continue
            word = _order_of_others(job, touch, by_cluster=bool(by_cluster), at_s=state.at_s)
            words.pop(Kept.ORDER, None)
            heard[job_id] = words | ({Kept.ORDER: word} if word is not None else {})
        return {job_id for job_id in doubtful if job_id not in computed and Kept.ORDER not in heard[job_id]}


def _order_is_doubtful(job: LiveJob, touch: Touch, word: Word | None) -> bool:
    """Return whether the place of a job may have been changed since it was last looked at."""
    if word is not None:
        if word.priority is None:
            return job.nice != word.nice
        # What Slurm's backfill writes back of ours takes no word back.
        kept = (word.priority, *touch.given)
        return job.priority not in kept and _without_room(job) != word.priority
    if not touch.given or not touch.how & {Way.ORDERED, Way.RETURNED}:
        return False
    if job.priority in touch.given:
        return job.nice < 0
    if job.priority == touch.priority:
        return False
    if Way.RETURNED in touch.how and job.priority is not None and job.priority < min(touch.given):
        return False  # it is the cluster's again, and nothing of ours stands there
    return _without_room(job) not in touch.given


def _order_of_others(job: LiveJob, touch: Touch, *, by_cluster: bool, at_s: float) -> Word | None:
    """Return the word on a job's place, None where there is none."""
    if by_cluster:
        if job.nice == touch.nice:
            return None
        return Word(f"its nice value to {job.nice}", at_s, nice=job.nice)
    if _top(job):
        return Word(f"its place by `scontrol top` (priority {job.priority})", at_s, job.priority)
    if job.nice > touch.nice:
        return Word(f"its nice value to {job.nice} (priority {job.priority})", at_s, job.priority)
    return Word(f"its priority to {job.priority}", at_s, job.priority)


def _without_room(job: LiveJob) -> int:
    """Return the priority without the room that `scontrol top` makes for another job of the same user's.

    It takes the same from the priority as it adds to the nice value.
    """
    return (job.priority or 0) + max(0, job.nice)


def _top(job: LiveJob) -> bool:
    return job.nice < 0


def _start_of_others(job: LiveJob, touch: Touch, at_s: float) -> str:
    """Return what another hand set of when and where a job may start, "" where none did."""
    if Way.RESTRICTED in touch.how and touch.node and job.pinned_to not in ("", touch.node):
        return f"its node to {job.pinned_to}"
    begin, begins_s = touch.begin, job.begin_time_s
    if Way.DELAYED not in touch.how or begin is None or job.restarts != begin.restarts:
        return ""
    if begins_s is None or begins_s <= at_s:
        return "its begin time to now" if begin.seen and begin.at_s > at_s else ""
    if begins_s == begin.before_s or _begins_as_given(job, begin):
        return ""
    return f"its begin time to {datetime.fromtimestamp(begins_s, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def _begins_as_given(job: LiveJob, begin: Begin) -> bool:
    """Return whether a job's begin time may be the one that it was given from here."""
    if job.begin_time_s is None:
        return False
    late_s = job.begin_time_s - begin.at_s
    return abs(late_s) < 1.0 if begin.seen else -_EARLIEST_S <= late_s <= _LATEST_S


def _with_kept(state: ClusterState, heard: Mapping[str, Words], unknown: Collection[str]) -> ClusterState:
    kept: dict[str, dict[Kept, str]] = {
        job_id: {each: word.describe() for each, word in words.items()}
        for job_id, words in heard.items()
        if words
    }
    for job_id in unknown:
        kept.setdefault(job_id, {})[Kept.ORDER] = _UNKNOWN
    if not kept:
        return state
    jobs = tuple(
        replace(job, kept={**job.kept, **kept[job.job_id]}) if job.job_id in kept else job
        for job in state.jobs
    )
    return replace(state, jobs=jobs)
