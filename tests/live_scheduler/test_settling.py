"""What was given back stays so: a cluster that writes priorities back, by a clock of the test's."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_scheduler.adapter import SetPriority, WriteBack
from live_scheduler.safety.dead_mans_switch import Watch
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Heartbeat, Moment, write_heartbeat
from live_scheduler.safety.restoring import (
    Restoration,
    Settling,
    longest_s,
    restore,
    two_cycles_s,
    watch_words,
)
from live_scheduler.safety.touched import TouchedJobs, Way
from live_scheduler.slurm.adapter import write_backs
from tests.live_scheduler.memory_cluster import PRIORITIES, MemoryCluster

OURS = replace(PRIORITIES, exclusive=True)
INTERVAL_S, LONGEST_S = 120.0, 120.0
BACK, AGAIN = Restoration(), Restoration(returned=("1",), ours=("1",))
SITE = WriteBack(INTERVAL_S, LONGEST_S, "because")


@dataclass
class Backfilling(MemoryCluster):
    """A cluster whose backfill begins a cycle `interval_s` after the last, which takes `takes_s`.

    At its turn each job gets the priority that it had when the cycle began. `counts`: it tells how many
    cycles have ended.
    """

    interval_s: float = INTERVAL_S
    takes_s: float = 100.0
    first_s: float = 0.0
    counts: bool = True
    ended: int = 0
    _turns: Iterator[float] | None = None
    _pending: list[tuple[float, str, int | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.priorities = OURS
        self._next_s = self.at_s + self.first_s
        self._report()

    def pass_by(self, seconds: float) -> None:
        """Let time pass, and the cycles in it."""
        until_s = self.at_s + seconds
        while (at_s := self._pending[0][0] if self._pending else self._next_s) <= until_s:
            self.at_s = at_s
            if not self._pending:
                waiting = [job for job in self.jobs.values() if job.waiting and not job.held]
                step_s = self.takes_s / (len(waiting) + 1)
                self._pending = [
                    (at_s + step_s * (1 + at), job.job_id, job.priority) for at, job in enumerate(waiting)
                ]
                self._pending.append((at_s + self.takes_s, "", None))
                self._next_s = at_s + self.takes_s + self.interval_s
                self._report()
                continue
            _, job_id, priority = self._pending.pop(0)
            job = self.jobs.get(job_id)
            if not job_id:
                self.ended += 1
                self._report()
            elif job is not None and job.waiting and not job.held:
                self.jobs[job_id] = replace(job, priority=priority)
        self.at_s = until_s

    def _report(self) -> None:
        told = {"cycles": self.ended, "running": bool(self._pending)} if self.counts else {}
        self.writing_back = WriteBack(self.interval_s, LONGEST_S, "its backfill writes back", **told)


class Site:
    """A backfilling cluster with jobs that were ranked backwards, and the switch of a daemon that is dead."""

    def __init__(self, folder: Path, jobs: int = 6, **more: float) -> None:
        self.folder, self.cluster = folder, Backfilling(**more)  # type: ignore[arg-type]
        self.ids = [self.cluster.submit() for _ in range(jobs)]
        changes = [SetPriority(job_id, 20_000 + at) for at, job_id in enumerate(self.ids)]
        TouchedJobs(folder).note(changes, self.cluster.read(), OURS)
        self.cluster.apply(changes)
        self.said: list[str] = []
        self.watch = Watch(folder, lambda: (self.cluster, None), clock=self.now, say=self.said.append)
        beat = Heartbeat(0.0, 0.0, "boot", 60.0, True, 17, left=True)
        write_heartbeat(folder / HEARTBEAT_FILE, beat)

    def now(self) -> Moment:
        return Moment(self.cluster.at_s, self.cluster.at_s, "boot")

    def look_until_well(self) -> float:
        """Look each second, as the switch does; return how long it took."""
        began_s = self.cluster.at_s
        while not self.watch.look():
            self.cluster.pass_by(1.0)
            assert self.cluster.at_s - began_s < longest_s(SITE) + 60, self.said
        return self.cluster.at_s - began_s


@pytest.mark.slow
@given(
    jobs=st.integers(1, 8),
    ranked_s=st.floats(0, 500),
    first_s=st.floats(0, 300),
    takes_s=st.floats(1, LONGEST_S),
    counts=st.booleans(),
    interval_s=st.sampled_from([3.0, 30.0, 120.0]),
)
@settings(max_examples=40, deadline=None)
def test_whatever_is_written_back_all_is_back_for_good_when_it_says_so(
    jobs: int, ranked_s: float, first_s: float, takes_s: float, counts: bool, interval_s: float
) -> None:
    with TemporaryDirectory() as folder:
        site = Site(
            Path(folder), jobs, first_s=first_s, takes_s=takes_s, counts=counts, interval_s=interval_s
        )
        site.cluster.pass_by(ranked_s)
        site.look_until_well()
        own = {job_id: job.priority for job_id, job in site.cluster.jobs.items()}
        assert site.cluster.order() == site.ids
        for _ in range(50):
            site.cluster.pass_by(37.0)
            assert {job_id: job.priority for job_id, job in site.cluster.jobs.items()} == own
        assert len(TouchedJobs(Path(folder))) == 0
        assert not site.watch.gave_up


def test_one_look_back_is_not_enough(tmp_path: Path) -> None:
    # What this is about: without watching, the order that was given back is lost.
    site = Site(tmp_path)
    site.cluster.pass_by(10.0)  # a cycle runs, and has read our numbers
    assert restore(site.cluster, TouchedJobs(tmp_path)).complete
    assert site.cluster.order() == site.ids
    site.cluster.pass_by(INTERVAL_S)
    assert site.cluster.order() != site.ids


def test_numbers_that_were_written_back_are_known_for_what_they_were_before(tmp_path: Path) -> None:
    site = Site(tmp_path)
    own = [TouchedJobs(tmp_path).of(job_id).priority for job_id in site.ids]
    site.cluster.pass_by(10.0)
    touched = TouchedJobs(tmp_path)
    assert restore(site.cluster, touched, remember=True).complete
    assert {touch for job_id in site.ids for touch in touched.of(job_id).how} == {Way.RETURNED}
    site.cluster.pass_by(50.0)  # some are ours again
    # A daemon that comes now takes them for ours, and their own stay on record.
    changes = [SetPriority(job_id, 30_000) for job_id in site.ids]
    touched.note(changes, site.cluster.read(), OURS)
    assert [TouchedJobs(tmp_path).of(job_id).priority for job_id in site.ids] == own
    assert {touch for job_id in site.ids for touch in touched.of(job_id).how} == {Way.ORDERED}


def test_the_switch_says_how_long_it_watches_and_why(tmp_path: Path) -> None:
    site = Site(tmp_path)
    took_s = site.look_until_well()
    (words,) = [each for each in site.said if "looked at" in each]
    assert words == watch_words(SITE).replace("because", "its backfill writes back")
    assert "8 min at most: its backfill writes back" in words
    assert INTERVAL_S < took_s <= two_cycles_s(SITE) + 130


def test_jobs_that_are_undone_for_ever_are_said_so_and_left(tmp_path: Path) -> None:
    site = Site(tmp_path, 2)
    read = site.cluster.read

    def read_after_a_plugin() -> object:
        site.cluster.apply([SetPriority(job_id, 20_000 + at) for at, job_id in enumerate(site.ids)])
        return read()

    site.cluster.read = read_after_a_plugin  # type: ignore[assignment, method-assign]
    took_s = site.look_until_well()
    assert took_s == pytest.approx(longest_s(SITE), abs=10)
    assert "again and again: its backfill writes back" in site.watch.gave_up


def test_a_daemon_that_comes_back_meanwhile_is_left_alone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert not site.watch.look()
    beat = Heartbeat(site.cluster.at_s, site.cluster.at_s, "boot", 60.0, True, 18)
    write_heartbeat(tmp_path / HEARTBEAT_FILE, beat)
    asked = list(site.cluster.asked)
    for _ in range(30):
        site.cluster.pass_by(1.0)
        assert site.watch.look()
    assert site.cluster.asked == asked


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_two_cycles_by_their_count_or_by_the_clock(clock: Clock) -> None:
    settling = Settling(clock=clock)

    def seen(at_s: float, cycles: int | None, done: Restoration = BACK) -> bool:
        clock.now_s = at_s
        return settling.seen(done, replace(SITE, cycles=cycles))

    assert not seen(0, 7, AGAIN)
    assert not seen(100, 8)
    assert not seen(200, 8, AGAIN)  # written back: it begins anew
    assert not seen(210, 9)
    assert seen(220, 10)
    settling.start_over()
    assert not seen(300, 10)
    assert not seen(400, 11)
    assert not seen(410, 0)  # the count began anew
    assert seen(500, 1)
    settling.start_over()
    assert not seen(600, None)
    assert not seen(600 + two_cycles_s(SITE) - 1, None)
    assert seen(600 + two_cycles_s(SITE), None)
    settling.start_over()
    assert not seen(1_000, 5)
    settling_idle = replace(SITE, cycles=5, running=False)
    clock.now_s = 1_000 + 2 * INTERVAL_S - 1
    assert not settling.seen(BACK, replace(settling_idle, running=True))
    assert not settling.seen(BACK, settling_idle)
    clock.now_s += 1
    assert not settling.seen(BACK, replace(settling_idle, running=True))
    assert settling.seen(BACK, settling_idle)
    settling.start_over()
    assert not seen(2_000, 5)
    assert not seen(2_470, 5, Restoration(left=("1",)))  # Slurm did not take it: nothing is back yet
    assert not seen(2_490, 9)


def test_where_nothing_is_written_back_nothing_is_waited_for(clock: Clock) -> None:
    assert Settling(clock=clock).seen(AGAIN, None)
    patient = Settling(least_s=5.0, clock=clock)
    assert not patient.seen(AGAIN, None)
    clock.now_s = 4.9
    assert not patient.seen(BACK, None)
    clock.now_s = 5.0
    assert patient.seen(BACK, None)


CONFIG = """Configuration data as of 2026-11-22T13:00:00
SchedulerParameters     = {parameters}
SchedulerType           = {kind}
SLURM_VERSION           = {version}
"""
SDIAG = """sdiag output at Sun Nov 22 13:48:45 2026 (1795355325)
Main schedule statistics (microseconds):
\tTotal cycles: 31

Backfilling stats (WARNING: data obtained in the middle of backfilling execution.)
\tTotal backfilled jobs (since last slurm start): 4
\tTotal cycles: 12
"""


def read_back(
    parameters: str = "", kind: str = "sched/backfill", version: str = "22.05.8"
) -> WriteBack | None:
    return write_backs(CONFIG.format(parameters=parameters, kind=kind, version=version), SDIAG)


def test_what_a_site_says_of_its_backfill() -> None:
    default = read_back("(null)")
    assert default is not None
    assert (default.interval_s, default.cycles, default.running) == (30.0, 12, True)
    assert 30.5 < default.longest_s < 40
    site = read_back("bf_window=4320,bf_continue,bf_interval=120,bf_max_time=300,bf_yield_sleep=1000000")
    assert site is not None
    assert site.interval_s == 120.0
    assert 301 <= site.longest_s < 310
    assert "bf_continue, a cycle each 120 s" in site.why
    assert "bf_continue" not in default.why
    unseen = write_backs(CONFIG.format(parameters="bf_interval=x", kind="sched/backfill", version=""), "")
    assert unseen is not None
    assert (unseen.interval_s, unseen.cycles, unseen.running) == (30.0, None, None)
    between = write_backs(
        CONFIG.format(parameters="", kind="sched/backfill", version=""), SDIAG.replace("(W", "\n(W")
    )
    assert between is not None
    assert between.running is False


@pytest.mark.parametrize(
    "mended",
    [
        {"kind": "sched/builtin"},
        {"parameters": "bf_interval=-1"},
        {"version": "26.05.3"},
        {"version": "26.11.0"},
    ],
)
def test_where_slurm_writes_nothing_back(mended: dict[str, str]) -> None:
    assert read_back(**mended) is None
    assert read_back(version="26.05.2") is not None
