"""A part that changes a cluster: what it says at each pass, and how its changes are undone."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from foundation import parts
from foundation.errors import BadInputError, ServiceUnavailableError
from foundation.parts import Part
from foundation.process_lock import ProcessLock
from live_scheduler.adapter import SetPriority
from live_scheduler.capability import LiveCapability, WayBack
from live_scheduler.client import ReleaseClient
from live_scheduler.cluster_state import ClusterState
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.memory.records import LastLines
from live_scheduler.release import LiveRelease
from live_scheduler.safety.control_lease import ControlLease
from live_scheduler.safety.dead_mans_switch import WATCH_LOCK, WATCH_SETTINGS, Watch, watch_settings
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Heartbeat, Moment, read_heartbeat, write_heartbeat
from live_scheduler.safety.restore_command import give_part_back
from live_scheduler.safety.touched import TouchedJobs
from live_scheduler.service.messages import Message
from tests.live_scheduler.live_answers import STATE, Live
from tests.live_scheduler.memory_cluster import PRIORITIES, MemoryCluster


@dataclass(frozen=True)
class LampSettings:
    """The table [lamps]."""

    mode: Mode = Mode.OBSERVE
    colour: str = "red"


class LampRecord(LastLines[str]):
    """The lamps that were lit."""

    file_name = "lamps.jsonl"

    def to_fields(self, key: str, value: str | None) -> Mapping[str, object]:
        return {"lamp": key, "colour": value or ""}

    def from_fields(self, fields: Mapping[str, Any]) -> tuple[str, str | None]:
        return str(fields["lamp"]), fields["colour"] or None


@dataclass(frozen=True)
class LampsOut:
    """What became of them."""

    out: tuple[str, ...] = ()
    complete: bool = True

    @property
    def changed(self) -> bool:
        return bool(self.out)

    def followed_by(self, later: "LampsOut") -> "LampsOut":
        return LampsOut(self.out + later.out, later.complete)

    def describe(self) -> str:
        return f"{len(self.out)} lamps out"

    def news(self, before: "LampsOut") -> Iterator[str]:
        yield self.describe()

    def refusals(self) -> Iterator[str]:
        yield from ()

    def document(self) -> dict[str, list[str]]:
        return {"lamps_out": list(self.out)}


class PutOut(WayBack):
    """Puts one lamp out at each look."""

    quick = True
    Record = LampRecord

    def nothing(self) -> LampsOut:
        return LampsOut()

    def look(
        self, control: list[str], record: LampRecord, go_on: Callable[[], bool] = lambda: True
    ) -> LampsOut:
        if not go_on():
            return LampsOut(complete=False)
        if "away" in control:
            raise ServiceUnavailableError("no lamp answers")
        out = tuple(record)[:1]
        control.extend(out)
        record.cross_off(out)
        return LampsOut(out, not len(record))

    def check(self, record: LampRecord, before: LampSettings | None, now: LampSettings | None) -> None:
        if before and (now is None or now.colour != before.colour):
            raise BadInputError(f"{len(record)} lamps are {before.colour}.")


class LampStatus(Message):
    lit: int = 0

    def told(self) -> "LampStatus":
        return self


class Lamps(LiveCapability):
    """Lights lamps."""

    name, title, Settings, needs = "lamps", "lamps", LampSettings, "light lamps"
    adapters: ClassVar[Mapping[str, str]] = {"slurm": f"{__name__}:open_lamps"}
    way_back = PutOut()


LAMPS = Lamps()
PUT_OUT: list[str] = []
SETTINGS = LiveSettings("c", tables={"lamps": LampSettings(Mode.CONTROL)})


def open_lamps(settings: LiveSettings, folder: Path) -> list[str]:
    return PUT_OUT


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    PUT_OUT.clear()
    monkeypatch.setattr(parts, "installed_parts", lambda: (Part("lamps", "", live=f"{__name__}:LAMPS"),))


@pytest.fixture
def record(tmp_path: Path) -> LampRecord:
    record = LampRecord(tmp_path)
    record.write({"l1": "red", "l2": "red"})
    return record


class Switch:
    """A switch over a folder whose part has lit lamps."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs = folder, MemoryCluster()
        self.moment = Moment(1_700_000_000.0, 500.0, "boot")
        self.said: list[str] = []
        self.watch = Watch(
            folder,
            lambda: (self.jobs, None),
            open_parts={"lamps": lambda: PUT_OUT},
            clock=lambda: self.moment,
            say=self.said.append,
        )

    def beat(self, *names: str, controls: bool = False) -> None:
        beat = Heartbeat(self.moment.at_s, self.moment.monotonic_s, "boot", 60.0, controls, 1, parts=names)
        write_heartbeat(self.folder / HEARTBEAT_FILE, beat)

    def pass_by(self, seconds: float) -> None:
        self.moment = replace(
            self.moment, at_s=self.moment.at_s + seconds, monotonic_s=self.moment.monotonic_s + seconds
        )


def test_a_daemon_that_lives_keeps_what_its_part_has_changed(tmp_path: Path, record: LampRecord) -> None:
    switch = Switch(tmp_path)
    switch.beat("lamps")
    assert switch.watch.look()
    assert PUT_OUT == []
    assert read_heartbeat(tmp_path / HEARTBEAT_FILE).parts == ("lamps",)  # type: ignore[union-attr]
    switch.beat(controls=True)  # now with other settings: it orders jobs alone
    assert not switch.watch.look()
    assert switch.watch.look()
    assert PUT_OUT == ["l1", "l2"]


@pytest.mark.parametrize("lamps_answer", [True, False])
def test_without_a_heartbeat_lamps_and_jobs_are_given_back_each_whatever_becomes_of_the_other(
    tmp_path: Path, record: LampRecord, lamps_answer: bool
) -> None:
    switch = Switch(tmp_path)
    job = switch.jobs.submit()
    own = switch.jobs.jobs[job].priority
    TouchedJobs(tmp_path).note([SetPriority(job, 20_000)], switch.jobs.read(), PRIORITIES)
    switch.jobs.apply([SetPriority(job, 20_000)])
    switch.beat("lamps", controls=True)
    switch.pass_by(61.0)
    if not lamps_answer:
        PUT_OUT.append("away")
        with pytest.raises(ServiceUnavailableError, match="no lamp answers"):
            switch.watch.look()
    else:
        assert not switch.watch.look()
    assert switch.jobs.jobs[job].priority == own
    PUT_OUT[:] = [lamp for lamp in PUT_OUT if lamp != "away"]
    for _ in range(10):
        switch.pass_by(6.0)
        if switch.watch.look():
            break
    assert PUT_OUT == ["l1", "l2"]
    assert "1 lamps out" in switch.said
    assert len(LampRecord(tmp_path)) == 0


def test_a_part_leaves_word_under_the_lease_and_gives_back_at_the_end(tmp_path: Path) -> None:
    with ProcessLock(tmp_path / WATCH_LOCK) as lock:
        assert lock.acquire()  # another process watches
        lease = ControlLease(tmp_path, SETTINGS)
        lease.take()
        with lease.before_change():
            lease.record(LampRecord).write({"l1": "red"})
        assert watch_settings(tmp_path).tables == SETTINGS.tables
        lease.beat()
        assert read_heartbeat(tmp_path / HEARTBEAT_FILE).parts == ("lamps",)  # type: ignore[union-attr]
        lease.leave()
    assert PUT_OUT == ["l1"]


def test_settings_by_which_it_would_not_come_back_are_refused(tmp_path: Path, record: LampRecord) -> None:
    with ProcessLock(tmp_path / WATCH_LOCK) as lock:
        assert lock.acquire()
        (tmp_path / WATCH_SETTINGS).write_text(json.dumps(asdict(SETTINGS)))
        with pytest.raises(BadInputError, match="2 lamps are red"):
            ControlLease(tmp_path, LiveSettings("c")).take()
        ControlLease(tmp_path, SETTINGS).take()


def test_the_restore_command_goes_on_until_all_is_back(tmp_path: Path, record: LampRecord) -> None:
    back = give_part_back("lamps", tmp_path, SETTINGS, limit_s=5.0)
    assert (back.complete, back.document()) == (True, {"lamps_out": ["l1", "l2"]})
    assert give_part_back("lamps", tmp_path, SETTINGS, limit_s=5.0) == LampsOut()


class Lighting:
    """Looks after each decision."""

    view: LampStatus | None = None

    def after_decision(self, cluster: ClusterState, release: LiveRelease) -> None:
        self.view = LampStatus(lit=len(cluster.jobs))


def test_the_view_has_the_last_look_of_a_part(tmp_path: Path, client: ReleaseClient) -> None:
    live = Live(tmp_path, client)
    live.daemon.part_stages["lamps"] = Lighting()
    assert live.daemon.view.parts == {}
    with live:
        live.see(STATE)
    assert live.daemon.view.parts == {"lamps": LampStatus(lit=len(STATE.jobs))}
