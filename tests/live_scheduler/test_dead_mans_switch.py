"""Without a heartbeat the cluster's own order returns, however the daemon ended, whatever the clocks do."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from foundation.errors import ServiceUnavailableError
from foundation.process_lock import ProcessLock
from live_scheduler.adapter import Advise, SetPriority
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.dead_mans_switch import (
    ALL_BACK,
    RESTORE_LOCK,
    Watch,
)
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Heartbeat, Moment, read_heartbeat, write_heartbeat
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.write_lease import LeaseLostError, present_lease
from tests.live_scheduler.memory_cluster import PRIORITIES, MemoryCluster

SETTINGS = LiveSettings("c", Mode.CONTROL, dead_after_s=60.0)


class Clocks:
    """The time of day and the monotonic clock of one machine."""

    def __init__(self) -> None:
        self.moment = Moment(1_700_000_000.0, 500.0, "boot-1")

    def __call__(self) -> Moment:
        return self.moment

    def pass_by(self, seconds: float) -> None:
        self.moment = replace(
            self.moment, at_s=self.moment.at_s + seconds, monotonic_s=self.moment.monotonic_s + seconds
        )

    def set_time_of_day(self, by_s: float) -> None:
        self.moment = replace(self.moment, at_s=self.moment.at_s + by_s)

    def reboot(self, took_s: float) -> None:
        self.moment = Moment(self.moment.at_s + took_s, 20.0, "boot-2")


def beat_at(moment: Moment, **changes: object) -> Heartbeat:
    beat = Heartbeat(moment.at_s, moment.monotonic_s, moment.boot_id, 60.0, True, 17)
    return replace(beat, **changes)  # type: ignore[arg-type]


# The heartbeat


@pytest.mark.parametrize(
    ("happens", "alive"),
    [
        (lambda clocks: clocks.pass_by(59.0), True),
        (lambda clocks: clocks.pass_by(61.0), False),
        (lambda clocks: clocks.set_time_of_day(+86_400.0), True),
        (lambda clocks: clocks.set_time_of_day(-86_400.0), True),
        (lambda clocks: (clocks.set_time_of_day(-86_400.0), clocks.pass_by(61.0)), False),
        (lambda clocks: clocks.reboot(120.0), False),
        (lambda clocks: clocks.reboot(-86_400.0), False),  # the battery of its clock was empty
    ],
)
def test_clocks_that_jump_neither_kill_nor_keep_alive(
    happens: Callable[[Clocks], object], alive: bool
) -> None:
    clocks = Clocks()
    beat = beat_at(clocks())
    happens(clocks)
    assert beat.alive(clocks()) is alive


def test_a_heartbeat_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / HEARTBEAT_FILE
    assert read_heartbeat(path) is None
    for number in range(3):
        beat = beat_at(Moment(1e9 + number, number, "b"))
        write_heartbeat(path, beat)
        assert read_heartbeat(path) == beat
    assert [each.name for each in tmp_path.iterdir()] == [HEARTBEAT_FILE]
    assert path.stat().st_mode & 0o777 == 0o644  # slurmctld reads it, as another user
    assert path.read_text().count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"at_s": 1}', "\x00" * 50])
def test_what_is_no_heartbeat_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / HEARTBEAT_FILE).write_text(text)
    assert read_heartbeat(tmp_path / HEARTBEAT_FILE) is None


def test_a_heartbeat_of_no_number_is_none(tmp_path: Path) -> None:
    write_heartbeat(tmp_path / HEARTBEAT_FILE, beat_at(Moment(float("nan"), 1.0, "b")))
    assert read_heartbeat(tmp_path / HEARTBEAT_FILE) is None


# The switch


class Stage:
    """A state folder, a cluster with five jobs ranked backwards, and a switch that watches."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clocks, self.cluster = folder, Clocks(), MemoryCluster()
        self.ids = [self.cluster.submit() for _ in range(5)]
        self.opened = 0
        self.said: list[str] = []
        self.beat()
        self.rank()
        self.watch = Watch(folder, self.open, clock=self.clocks, say=self.said.append)

    def open(self) -> tuple[MemoryCluster, None]:
        self.opened += 1
        return self.cluster, None

    def beat(self, **changes: object) -> None:
        write_heartbeat(self.folder / HEARTBEAT_FILE, beat_at(self.clocks(), **changes))

    def rank(self) -> None:
        changes = [SetPriority(job_id, 20_000 + at) for at, job_id in enumerate(self.ids)]
        changes_and_text = [*changes, Advise(self.ids[0], "soon")]
        TouchedJobs(self.folder).note(changes_and_text, self.cluster.read(), PRIORITIES)
        self.cluster.apply(changes_and_text)

    def look_until_well(self) -> None:
        for _ in range(20):
            if self.watch.look():
                return
            self.clocks.pass_by(1.0)
        raise AssertionError(self.said)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_daemon_that_lives_is_left_alone(stage: Stage) -> None:
    for _ in range(10):
        stage.clocks.pass_by(50.0)
        stage.beat()
        assert stage.watch.look()
    assert stage.opened == 0
    assert stage.cluster.order() == stage.ids[::-1]


def test_silence_brings_the_clusters_own_order_back_once(stage: Stage) -> None:
    stage.clocks.pass_by(61.0)
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids
    assert stage.cluster.advice[stage.ids[0]] == ""
    assert len(TouchedJobs(stage.folder)) == 0
    done = list(stage.cluster.asked)
    for _ in range(100):
        stage.clocks.pass_by(10.0)
        assert stage.watch.look()
    assert stage.cluster.asked == done
    # Slurm's plugin is told too, whatever its clock says.
    beat = read_heartbeat(stage.folder / HEARTBEAT_FILE)
    assert beat is not None
    assert beat.left


def test_what_the_daemon_had_asked_for_before_it_died_may_come_late(stage: Stage) -> None:
    stage.cluster.priorities = replace(PRIORITIES, exclusive=True)
    stage.clocks.pass_by(61.0)
    assert not stage.watch.look()
    stage.cluster.apply([SetPriority(stage.ids[4], 30_000)])  # its scontrol lived a moment longer
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids


def test_a_cluster_that_is_away_is_asked_again(stage: Stage) -> None:
    stage.clocks.pass_by(61.0)
    stage.cluster.away = True
    for _ in range(5):
        with pytest.raises(ServiceUnavailableError):
            stage.watch.look()
        stage.clocks.pass_by(10.0)
    stage.cluster.away = False
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids


def test_a_daemon_that_comes_back_takes_over_and_may_die_again(stage: Stage) -> None:
    for _ in range(3):
        stage.clocks.pass_by(61.0)
        stage.look_until_well()
        assert stage.cluster.order() == stage.ids
        stage.beat()
        stage.rank()
        assert stage.watch.look()
        assert stage.cluster.order() == stage.ids[::-1]


def test_a_daemon_that_hung_and_beats_again_stops_the_return(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_scheduler.safety.restoring.BATCH", 2)
    apply = stage.cluster.apply

    def apply_and_wake(changes: object) -> object:
        refused = apply(changes)  # type: ignore[arg-type]
        stage.beat()
        return refused

    stage.cluster.apply = apply_and_wake  # type: ignore[assignment, method-assign]
    stage.clocks.pass_by(61.0)
    assert not stage.watch.look()
    assert len(TouchedJobs(stage.folder)) >= 3  # nothing is forgotten
    assert stage.watch.look()
    assert stage.opened == 1


def test_leaving_is_as_good_as_silence_and_quicker(stage: Stage) -> None:
    stage.beat(left=True)
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids


def test_a_daemon_that_only_looks_on_keeps_no_order_of_an_earlier_one(stage: Stage) -> None:
    stage.beat(controls=False)
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids
    # Advice that it writes itself stays.
    text = [Advise(stage.ids[1], "soon")]
    TouchedJobs(stage.folder).note(text, stage.cluster.read(), PRIORITIES)
    stage.cluster.apply(text)
    assert stage.watch.look()
    assert stage.cluster.advice[stage.ids[1]] == "soon"


def test_where_no_daemon_ever_was_nothing_is_done(tmp_path: Path) -> None:
    cluster = MemoryCluster()
    cluster.submit()
    assert Watch(tmp_path, lambda: (cluster, None)).look()
    assert cluster.asked == []


def test_a_heartbeat_that_was_lost_is_none(stage: Stage) -> None:
    (stage.folder / HEARTBEAT_FILE).write_text("{")
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids


def test_a_full_disk_does_not_keep_it_from_returning_or_make_it_repeat(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    stage.clocks.pass_by(61.0)
    monkeypatch.setattr("os.write", full)
    monkeypatch.setattr("live_scheduler.safety.dead_mans_switch.write_heartbeat", full)
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids
    done = list(stage.cluster.asked)
    for _ in range(10):
        stage.clocks.pass_by(10.0)
        assert stage.watch.look()
    assert stage.cluster.asked == done


# Beside a daemon that lives, and is late


class LateDaemon:
    """A daemon's lease on the stage's folder, which writes as a pass does."""

    def __init__(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, settings: LiveSettings = SETTINGS
    ) -> None:
        monkeypatch.setattr("live_scheduler.safety.control_lease.start_switch", lambda _: None)
        self.stage, self.lease = stage, ControlLease(stage.folder, settings, clock=stage.clocks)
        self.lease.take()
        self.make_pass()

    def begin_pass(self) -> list[SetPriority]:
        """Read and decide; what is to be asked for."""
        cluster = self.stage.cluster
        changes = [SetPriority(job_id, 20_000 + at) for at, job_id in enumerate(self.stage.ids)]
        self.lease.before(changes, cluster.read(), cluster.priorities)
        return changes

    def write(self, changes: list[SetPriority]) -> None:
        """Ask for it, as an adapter does that looks at its lease before each write."""
        with self.lease.writing():
            for change in changes:
                lease = present_lease()
                assert lease is not None
                lease.check()
                self.stage.cluster.apply([change])

    def make_pass(self) -> None:
        self.write(self.begin_pass())
        self.lease.beat()


def test_one_that_was_stopped_before_a_write_writes_nothing_afterwards(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = LateDaemon(stage, monkeypatch)
    assert stage.watch.look()
    changes = daemon.begin_pass()  # and here it is stopped
    stage.clocks.pass_by(61.0)
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids
    asked = len(stage.cluster.asked)
    with pytest.raises(LeaseLostError):
        daemon.write(changes)
    assert len(stage.cluster.asked) == asked


def test_one_that_was_late_takes_over_again_in_the_pass_after_the_next(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = LateDaemon(stage, monkeypatch)
    stage.clocks.pass_by(61.0)
    stage.look_until_well()
    with pytest.raises(LeaseLostError, match="the next one takes over again"):
        daemon.make_pass()  # what it has read may be of a moment at which the switch wrote
    assert stage.cluster.order() == stage.ids
    assert stage.watch.look()
    daemon.make_pass()
    assert stage.cluster.order() == stage.ids[::-1]
    assert stage.watch.look()
    assert stage.cluster.order() == stage.ids[::-1]


def test_one_that_cannot_say_that_it_lives_leaves_the_lease_with_the_switch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = LateDaemon(stage, monkeypatch)
    stage.clocks.pass_by(61.0)
    assert not stage.watch.look()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("live_scheduler.safety.control_lease.write_heartbeat", full)
    for _ in range(3):
        with pytest.raises(ServiceUnavailableError, match="No space"):
            daemon.make_pass()
    stage.look_until_well()
    assert stage.opened <= 3
    assert stage.cluster.order() == stage.ids


def test_a_long_write_that_gets_on_keeps_the_lease(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = LateDaemon(stage, monkeypatch)
    changes = daemon.begin_pass()
    for change in changes:  # slurmctld is slow: five times 50 s
        daemon.write([change])
        stage.clocks.pass_by(50.0)
        assert stage.watch.look()
    assert stage.cluster.order() == stage.ids[::-1]


def test_one_that_only_advises_waits_until_an_earlier_order_is_given_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = LateDaemon(stage, monkeypatch, replace(SETTINGS, mode=Mode.ADVISE))
    assert not stage.watch.look()
    with pytest.raises(ServiceUnavailableError, match="still to be given back"):
        daemon.begin_pass()
    stage.look_until_well()
    assert stage.cluster.order() == stage.ids


def test_one_that_hangs_while_it_gives_back_is_not_waited_for_for_ever(stage: Stage) -> None:
    stage.beat(left=True)
    with ProcessLock(stage.folder / RESTORE_LOCK) as lock:
        assert lock.acquire()
        for _ in range(5):
            with pytest.raises(ServiceUnavailableError, match="Another process gives jobs back"):
                stage.watch.look()
            stage.clocks.pass_by(10.0)
        stage.clocks.pass_by(120.0)
        stage.look_until_well()
    assert stage.cluster.order() == stage.ids


def test_it_says_that_all_are_back_when_it_has_seen_so(stage: Stage) -> None:
    stage.cluster.priorities = replace(PRIORITIES, exclusive=True)
    kept = stage.cluster.apply
    late = SetPriority(stage.ids[4], 20_004)  # as it was ranked

    def apply_and_more(changes: object) -> object:
        refused = kept(changes)  # type: ignore[arg-type]
        kept([late])  # what was on its way arrives
        return refused

    stage.cluster.apply = apply_and_more  # type: ignore[assignment, method-assign]
    stage.clocks.pass_by(61.0)
    for _ in range(10):
        assert not stage.watch.look()
        assert ALL_BACK not in stage.said
        stage.clocks.pass_by(1.0)
    assert "1 not back yet" in stage.said[-1]
    stage.cluster.apply = kept  # type: ignore[method-assign]
    stage.look_until_well()
    assert stage.said.count(ALL_BACK) == 1
    assert stage.cluster.order() == stage.ids


def test_a_daemon_that_came_and_died_between_two_looks_is_noticed(stage: Stage) -> None:
    stage.clocks.pass_by(61.0)
    stage.look_until_well()
    assert stage.watch.settled
    stage.beat()
    stage.rank()
    stage.clocks.pass_by(61.0)  # the switch was starved meanwhile
    assert not stage.watch.look()
    stage.look_until_well()
    assert stage.watch.settled
    assert stage.cluster.order() == stage.ids
    assert stage.said.count(ALL_BACK) == 2


def test_that_all_is_well_beside_a_daemon_is_not_that_all_is_back(stage: Stage) -> None:
    assert stage.watch.look()
    assert not stage.watch.settled
    stage.clocks.pass_by(61.0)
    stage.look_until_well()
    assert stage.watch.settled
    stage.beat()
    assert stage.watch.look()
    assert not stage.watch.settled
