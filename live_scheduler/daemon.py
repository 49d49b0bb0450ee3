"""The live scheduler: reads the cluster, decides with the release, asks for changes, again and again.

A pass reads the queue, takes in what has happened, decides, and (in the mode `control`) asks for the fewest
changes that give the queue its order. Whatever fails in a pass is said in its `LiveView` and changes nothing;
only a pass that went well gives a heartbeat. What a restart needs is in the state folder: the journal.
"""

import gc
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path

from foundation.errors import LucidError, ServiceUnavailableError
from live_scheduler.adapter import Advise, Change, ClusterAdapter, Refusal, RefusedChanges, Stage, is_kept
from live_scheduler.capability import PartStage
from live_scheduler.cluster_state import ClusterState, EndedJob
from live_scheduler.deciding.decision import Decision
from live_scheduler.deciding.decision_maker import FROM_THE_RELEASE, DecisionMaker, DecisionSources
from live_scheduler.deciding.live_policies import believed_pairs, live_policy, settings_in_force
from live_scheduler.deciding.priority_plan import priority_changes
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.live_view import EventLearner, LiveView, ReleaseSource, Watcher
from live_scheduler.memory.journal import KEEP_S, JobTracker, Journal, life
from live_scheduler.memory.online_state import OnlineState
from live_scheduler.release import LiveRelease
from live_scheduler.safety.safety_net import SafetyNet

logger = logging.getLogger("lucid.live")

JOURNAL_FILE = "journal.jsonl"
# How often accounting is asked what else has ended, when it is asked again that did not answer, and about how
# many jobs at once.
_ACCOUNTING_EVERY_S = 300.0
_ACCOUNTING_AGAIN_S = 10.0
_ASKED_AT_ONCE = 500
_COMPACT_EVERY_S = 3_600.0
# The first pass waits so long for the first look at the registry.
FIRST_POLL_S = 10.0
# Passes. A full collection takes as long as a dozen decisions.
_FULL_COLLECTION_EVERY = 500


class Daemon:
    """One cluster's live scheduler. `view` is the last pass, swapped in one step; read it from any thread."""

    def __init__(
        self,
        adapter: ClusterAdapter,
        releases: ReleaseSource,
        settings: LiveSettings,
        state_dir: Path,
        *,
        safety: SafetyNet | None = None,
        stages: Sequence[Stage] = (),
        sources: DecisionSources = FROM_THE_RELEASE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is read or changed yet."""
        self.adapter, self.releases, self.settings = adapter, releases, settings
        self._in_force = settings_in_force(settings)  # with the policy of the release that is followed
        self.state_dir = state_dir
        self.safety, self.stages = safety, list(stages)
        self.watchers: list[Watcher] = []
        self.part_stages: dict[str, PartStage] = {}  # by the part's name
        self.learners: list[EventLearner] = []
        self.journal = Journal(state_dir / JOURNAL_FILE)
        self.lock = threading.RLock()  # held while the models are used
        self.online: OnlineState | None = None
        self.maker: DecisionMaker | None = None
        self._sources = sources
        self._clock = clock
        self._tracker = JobTracker()
        self._followed: LiveRelease | None = None
        self._refused: LiveRelease | None = None  # a release that cannot be followed, and why
        self._refusal = ""
        self._learnt_until_s: float | None = None  # of what accounting tells; None: nothing yet
        self._ask_accounting_s = -math.inf  # not before
        self._journal_end_s = max((event.at_s for event in self.journal.read()), default=-math.inf)
        self._compacted_s = -math.inf
        self._learnt: list[EndedJob] = []  # ends that no reading showed, until a view tells of them
        self._warned: dict[str, str] = {}  # what is not warned of twice while it lasts
        self._refusals = RefusedChanges()
        self._counts: dict[str, int] = {}
        self._started_s = clock()
        self._view = LiveView(self._started_s, self._started_s, self._in_force, releases.status())

    @property
    def view(self) -> LiveView:
        """What the last pass left."""
        return self._view

    # -- running

    def run(self, stop: threading.Event) -> None:
        """Make passes until `stop` is set; looks for releases meanwhile, in a thread of its own."""
        polled = threading.Event()
        poller = threading.Thread(
            target=self._follow_releases, args=(stop, polled), name="releases", daemon=True
        )
        poller.start()
        polled.wait(FIRST_POLL_S)
        automatic = gc.isenabled()
        gc.disable()  # garbage is collected between passes, never within one
        try:
            while not stop.is_set():
                began = time.monotonic()
                self.pass_once()
                gc.collect(2 if self._counts["passes"] % _FULL_COLLECTION_EVERY == 0 else 1)
                stop.wait(max(0.0, self.settings.pass_interval_s - (time.monotonic() - began)))
        finally:
            if automatic:
                gc.enable()
            poller.join(timeout=10.0)

    def _follow_releases(self, stop: threading.Event, polled: threading.Event) -> None:
        while True:
            self.releases.poll()
            polled.set()
            if stop.wait(self.settings.release_interval_s):
                return

    def pass_once(self) -> LiveView:
        """Make one pass. Never raises: what went wrong is `view.problem`."""
        try:
            view = self._pass()
        except ServiceUnavailableError as error:
            view = self._troubled(str(error))
        except Exception as error:  # a scheduler outlives any fault of ours
            logger.exception("a pass failed")
            view = self._troubled(str(error) if isinstance(error, LucidError) else f"Unexpected: {error!r}")
        self._count("passes")
        view = replace(
            view,
            counts=dict(self._counts),
            parts={name: stage.view for name, stage in self.part_stages.items() if stage.view is not None},
        )
        if view.problem is not None and view.problem != self._view.problem:
            logger.warning("%s", view.problem)
        self._view = view
        for watcher in self.watchers:
            try:
                watcher.passed(view)
            except Exception:
                self._count("watchers_failed")
                logger.exception("%s failed", type(watcher).__name__)
        return view

    def _troubled(self, problem: str) -> LiveView:
        self._count("passes_failed")
        return LiveView(
            self._clock(), self._started_s, self._in_force, self.releases.status(), problem=problem
        )

    # -- a pass

    def _pass(self) -> LiveView:
        began = time.perf_counter()
        cluster = self.adapter.read()
        read = time.perf_counter()
        view = LiveView(cluster.at_s, self._started_s, self._in_force, self.releases.status(), cluster)
        if self.safety is not None and (reading_problem := self.safety.reading_problem(cluster)) is not None:
            self._count("readings_doubted")
            return replace(view, problem=reading_problem)
        if self.safety is not None:
            cluster = self.safety.heard(cluster)
        cluster = self.settings.hands_off.over(cluster)
        view = replace(view, cluster=cluster)
        view = replace(view, ended=tuple(self._happened(cluster)))
        with self.lock:
            decision, problem = self._decide(cluster)
            learnt, self._learnt = self._learnt, []
        decided = time.perf_counter()
        if decision is not None and self.safety is not None:
            problem = problem or self.safety.decision_problem(decision, cluster)
        view = replace(view, settings=self._in_force, decision=decision, problem=problem)
        view = replace(view, ended=(*view.ended, *learnt))
        if decision is not None and problem is None:
            with self.safety.writing() if self.safety is not None else nullcontext():
                view = self._act(view, decision, cluster)
                if self._followed is not None:
                    for stage in self.part_stages.values():
                        stage.after_decision(cluster, self._followed)
        done = time.perf_counter()
        seconds = {"read": read - began, "decide": decided - read, "apply": done - decided}
        return replace(view, seconds=seconds)

    def _happened(self, cluster: ClusterState) -> list[EndedJob]:
        """Take in what has happened since the last reading; return the jobs that ended."""
        events = self._tracker.follow(cluster)
        ended = self._ended(cluster)
        events += self._tracker.settle({end.job.job_id: end for end in ended}, cluster.at_s)
        try:
            self.journal.append(events)
            if cluster.at_s - self._compacted_s > _COMPACT_EVERY_S:
                self._compacted_s = cluster.at_s
                self.journal.compact(cluster.at_s)
        except OSError as error:
            self._count("journal_failures")
            logger.warning("the journal cannot be written: %s", error)
        with self.lock:
            learners = filter(None, (self.online, *self.learners))
            for event, learner in product(events, [*learners]):
                learner.observe(event)
        self._count("ended", len(ended))
        return ended

    def _ended(self, cluster: ClusterState) -> list[EndedJob]:
        missing = list(self._tracker.missing)[:_ASKED_AT_ONCE]
        if not missing:
            return []
        since_s = min(self._tracker.seen[job_id].submit_time_s for job_id in missing)
        try:
            ended = self.adapter.ended(missing, max(since_s, cluster.at_s - KEEP_S))
        except ServiceUnavailableError as error:
            # They stay missing, and are asked for again.
            self._count("accounting_failures")
            self._warn_anew("ended", f"what became of {len(missing)} jobs is not known yet: {error}")
            return []
        self._warned.pop("ended", None)
        return ended

    def _decide(self, cluster: ClusterState) -> tuple[Decision | None, str | None]:
        release = self.releases.current
        if not isinstance(release, LiveRelease):
            self._followed, self.online, self.maker = None, None, None
            return None, f"No release: {release.why} The cluster's own order stands."
        if release is not self._followed and release is not self._refused:
            try:
                self._follow(release)
            except LucidError as error:
                # The one before goes on, if there is one.
                self._refused = release
                self._refusal = f"{release.describe()} cannot be followed: {error}"
                logger.warning("%s", self._refusal)
        if self.maker is None or self.online is None:
            return None, self._refusal
        if cluster.at_s >= self._ask_accounting_s:
            self._catch_up(cluster)
        name = self.maker.release
        try:
            self.maker.follow(cluster)
            decision = self.maker.decide()
        except LucidError as error:
            self._forget_release()
            return None, f"No decision by {name}: {error}"
        except Exception as error:
            logger.exception("no decision")
            self._forget_release()
            return None, f"No decision by {name}: {error!r}"
        self._count("decisions")
        return decision, None

    def _follow(self, release: LiveRelease) -> None:
        """Take a release over: its statistics, with what has happened since it was trained."""
        settings = settings_in_force(self.settings, release.manifest)
        policy = live_policy(settings)
        online = OnlineState(release.scorers.duration, self.journal.read())
        estimator = online if self._sources.estimator_of is None else self._sources.estimator_of(online)
        self.maker = DecisionMaker(
            policy,
            estimator,
            settings,
            release=release.describe(),
            release_version=release.version,
            profile_of=self._sources.profile_of,
            profiling=self._sources.profiling,
            believed_pairs=believed_pairs(release.scorers.packing),
        )
        self.online, self._followed, self._refused, self._in_force = online, release, None, settings
        self._count("releases_followed")
        logger.info("following %s, policy %s", release.describe(), settings.policy)

    def _forget_release(self) -> None:
        """Start over with the release at the next pass: what it left half-done is not to be trusted."""
        self.maker, self.online, self._followed = None, None, None
        self._count("decisions_failed")

    def _catch_up(self, cluster: ClusterState) -> None:
        """Learn what no reading showed: what ended while no daemon ran, and jobs shorter than a pass."""
        assert self.online is not None  # noqa: S101
        self._ask_accounting_s = cluster.at_s + _ACCOUNTING_EVERY_S
        since_s = max(self._journal_end_s, self.online.trained_until_s, cluster.at_s - KEEP_S)
        if self._learnt_until_s is not None:
            since_s = self._learnt_until_s - _ACCOUNTING_EVERY_S  # rows that came late
        try:
            ended = self.adapter.ended_since(since_s)
        except ServiceUnavailableError as error:
            self._ask_accounting_s = cluster.at_s + _ACCOUNTING_AGAIN_S
            self._warn_anew("ended since", f"what ended meanwhile is not known yet: {error}")
            return
        self._warned.pop("ended since", None)
        self._learnt_until_s = cluster.at_s
        self._count("caught_up", self.learn(ended))

    def learn(self, ended: Iterable[EndedJob]) -> int:
        """Take in what became of jobs that no reading shows; return how many ends were not known yet."""
        with self.lock:
            online, seen = self.online, self._tracker.seen
            unknown = [
                end
                for end in ended
                if end.job.job_id not in seen and (online is None or not online.knows_end(end))
            ]
            events = sorted((event for end in unknown for event in life(end)), key=lambda event: event.at_s)
            self._learnt += unknown
            fresh = events if online is None else [event for event in events if online.observe(event)]
            for event, learner in product(events, self.learners):
                learner.observe(event)
            try:
                self.journal.append(fresh)
            except OSError as error:
                logger.warning("the journal cannot be written: %s", error)
        return len(unknown)

    def learn_from_events(self, learner: EventLearner) -> None:
        """Tell a learner what the journal says, and from now on what happens."""
        for event in sorted(self.journal.read(), key=lambda event: event.at_s):
            learner.observe(event)
        self.learners.append(learner)

    # -- what is asked of the cluster

    def _act(self, view: LiveView, decision: Decision, cluster: ClusterState) -> LiveView:
        wanted: list[Change] = []
        for stage in self.stages:
            wanted += stage.changes(decision, cluster)
        profiler = self.settings.profiling_partition
        wanted += priority_changes(decision, cluster, profiler, self.adapter.priorities)
        wanted = [change for change in wanted if not is_kept(change, cluster.by_id.get(change.job_id))]
        if self.safety is not None:
            wanted += self.safety.let_go(cluster)
        asks, would_ask = self._by_mode(wanted)
        if not asks:
            if self.safety is not None:
                self.safety.beat(view)
            return replace(view, asked=tuple(wanted))
        new = [change for change in asks if change not in self._refusals]
        old = [change for change in asks if change in self._refusals]
        allowed = [*new, *old][: self.settings.changes_per_pass]
        if self.safety is not None:
            allowed = [change for part in (new, old) if part for change in self.safety.allow(part, view)]
        refused: list[Refusal] = []
        if allowed:
            refused = self.adapter.apply(allowed)
        self._count("changes", len(allowed) - len(refused))
        self._count("refusals", len(refused))
        if news := self._refusals.note(allowed, refused, cluster.by_id):
            logger.warning("%s", news)
        view = replace(
            view, asked=(*allowed, *would_ask), refused=tuple(refused), deferred=len(asks) - len(allowed)
        )
        if self.safety is not None:
            self.safety.beat(view)
        return view

    def _by_mode(self, wanted: list[Change]) -> tuple[list[Change], list[Change]]:
        """Return the changes that the mode lets it ask for, and those that it would ask for in `control`."""
        mode = self.settings.mode
        if mode is Mode.CONTROL:
            return wanted, []
        texts: list[Change] = [c for c in wanted if mode is Mode.ADVISE and isinstance(c, Advise)]
        return texts, [change for change in wanted if not isinstance(change, Advise)] if texts else wanted

    def _warn_anew(self, what: str, text: str) -> None:
        if self._warned.get(what) != text:
            self._warned[what] = text
            logger.warning("%s", text)

    def _count(self, what: str, by: int = 1) -> None:
        self._counts[what] = self._counts.get(what, 0) + by
