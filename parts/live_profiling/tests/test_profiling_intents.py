"""The profiling stage without a cluster: intents on disk, clocks that jump, what it never asks for."""

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from live_scheduler.adapter import Change, MoveTo, SendHome, StartAfter
from live_scheduler.cluster_state import ClusterState, LiveJob, LiveNode
from live_scheduler.deciding.decision import Decision, QueuePlace
from live_scheduler.deciding.decision_maker import DecisionMaker
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.live_settings import LiveSettings, Mode
from parts.live_profiling.profiling_stage import (
    MOST_TRIES,
    OVERRUN_S,
    PATIENCE_S,
    Intent,
    Intents,
    ProfilingStage,
    Step,
)

SETTINGS = LiveSettings("c", Mode.CONTROL, profiling_partition="prof")
NOW_S = 1_700_000_000.0
NODES = (LiveNode("n1", 4, 4, True, ("vc1", "vc2")), LiveNode("p1", 2, 0, True, ("prof",)))

INTENTS = st.builds(
    Intent,
    job_id=st.sampled_from(["1", "2", "3"]),
    home=st.sampled_from(["vc1", "vc2"]),
    step=st.sampled_from(list(Step)),
    at_s=st.floats(0, 2e9),
    limit_s=st.floats(0, 1e6),
    restarts=st.integers(0, 3),
)
WORDS = st.lists(INTENTS | st.sampled_from(["1", "2", "3"]), max_size=12)  # a job's id: settled


def written(intents: Intents, words: Sequence[Intent | str]) -> None:
    for word in words:
        if isinstance(word, Intent):
            intents.note([word])
        else:
            intents.cross_off([word])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(WORDS, WORDS, st.integers(0, 400))
def test_a_torn_file_loses_its_last_line_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, before: list[Intent | str], after: list[Intent | str], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("intents")
    intents = Intents(folder)
    written(intents, before)
    assert Intents(folder).values == intents.values
    if before and intents.path.exists():
        content = intents.path.read_bytes()
        lines = content.splitlines(keepends=True)
        kept = content[: len(content) - min(cut, len(lines[-1]))] if lines else b""
        intents.path.write_bytes(kept)
    again = Intents(folder)
    expected = dict(again.values)
    written(again, after)
    for word in after:
        if isinstance(word, Intent):
            expected[word.job_id] = word
        else:
            expected.pop(word, None)
    assert Intents(folder).values == again.values == expected


def test_the_file_stays_small_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Intents, "most_stale_lines", 20)
    intents = Intents(tmp_path / "state")
    kept = Intent("7", "vc1", Step.ENTER, NOW_S, 200.0, 0)
    intents.note([kept])
    for _ in range(40):
        intents.note([replace(kept, job_id="8")])
        intents.cross_off(["8"])
        assert len(intents.path.read_text().splitlines()) <= 24
    assert Intents(tmp_path / "state").values == {"7": kept}
    assert stat.S_IMODE(intents.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(intents.path.parent.stat().st_mode) == 0o700


def cluster(*jobs: LiveJob, at_s: float = NOW_S, nodes: tuple[LiveNode, ...] = NODES) -> ClusterState:
    return ClusterState(at_s, jobs, nodes)


def decision(*starts: str, sends_home: tuple[str, ...] = (), limit_s: float = 200.0) -> Decision:
    places = [
        QueuePlace(job_id, "prof", at, True, None, (), limit_s=limit_s) for at, job_id in enumerate(starts, 1)
    ]
    return Decision(NOW_S, "r", 1, "lucid", tuple(places), sends_home, {}, 0.0)


def waits(job_id: str = "1", **facts: object) -> LiveJob:
    job = LiveJob(job_id, "vc1", "vc1", 1, NOW_S - 50, time_limit_s=600.0)
    return replace(job, **facts)  # type: ignore[arg-type]


def measured(job_id: str = "1", *, since_s: float = NOW_S, **facts: object) -> LiveJob:
    there = {"partition": "prof", "start_time_s": since_s, "gpus_on": (("p1", 1),)}
    return waits(job_id, **there | facts)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stage(tmp_path: Path, clock: Clock) -> ProfilingStage:
    return ProfilingStage(SETTINGS, Intents(tmp_path), monotonic=clock)


def entered(stage: ProfilingStage, *jobs: LiveJob, limit_s: float = 200.0) -> list[Change]:
    return stage.changes(decision(*(job.job_id for job in jobs), limit_s=limit_s), cluster(*jobs))


def test_no_more_move_in_than_there_is_room_for(stage: ProfilingStage) -> None:
    assert entered(stage, waits("1"), waits("2"), waits("3")) == [
        MoveTo("1", "prof", "vc1"),
        MoveTo("2", "prof", "vc1"),
    ]
    # One that has not started yet takes its room all the same.
    there = waits("1", partition="prof")
    assert stage.changes(decision("2", "3"), cluster(there, waits("2"), waits("3"))) == [
        MoveTo("2", "prof", "vc1")
    ]


def test_a_move_that_never_happens_is_not_asked_for_for_ever(stage: ProfilingStage) -> None:
    asked = [entered(stage, waits()) for _ in range(MOST_TRIES + 2)]
    assert asked == [[MoveTo("1", "prof", "vc1")]] * MOST_TRIES + [[], []]
    assert stage.why_not(waits(), cluster(waits())) != ""
    stage.reconcile(cluster())
    assert stage.why_not(waits(), cluster(waits())) == ""


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_a_clock_that_is_set_makes_no_run_longer_or_shorter(
    stage: ProfilingStage, clock: Clock, jump_s: float
) -> None:
    entered(stage, waits())
    assert stage.reconcile(cluster(measured(), at_s=NOW_S + 1)) == []
    clock.now += 100
    assert stage.reconcile(cluster(measured(), at_s=NOW_S + 101 + jump_s)) == []
    clock.now += 100
    assert stage.reconcile(cluster(measured(), at_s=NOW_S + 201 + jump_s)) == [SendHome("1", "vc1")]


def test_each_job_has_its_own_time_also_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    stage = ProfilingStage(SETTINGS, Intents(tmp_path), monotonic=clock)
    entered(stage, waits("1"), limit_s=60.0)
    stage.changes(decision("2", limit_s=600.0), cluster(measured("1"), waits("2")))
    again = ProfilingStage(SETTINGS, Intents(tmp_path), monotonic=clock)
    both = cluster(measured("1"), measured("2"), at_s=NOW_S + 61)
    assert again.reconcile(both) == [SendHome("1", "vc1")]


def test_a_guest_without_an_intent_has_the_time_of_the_policy_that_decides(
    stage: ProfilingStage, clock: Clock
) -> None:
    guest = measured(mark="a mark of ours")
    assert stage.limit_s("1") is None
    by_policy = replace(decision(), profiling_limit_s=60.0)
    assert stage.changes(by_policy, cluster(guest)) == []
    clock.now += 59
    assert stage.changes(by_policy, cluster(guest, at_s=NOW_S + 59)) == []
    clock.now += 1
    assert stage.changes(by_policy, cluster(guest, at_s=NOW_S + 60)) == [SendHome("1", "vc1")]
    # A policy that profiles no job leaves the limit of the one before.
    assert stage.changes(decision(), cluster(guest, at_s=NOW_S + 60)) == [SendHome("1", "vc1")]


def test_work_that_nobody_stopped_in_time_is_not_thrown_away(stage: ProfilingStage) -> None:
    entered(stage, waits())
    late = cluster(measured(), at_s=NOW_S + 201 + OVERRUN_S)
    assert stage.reconcile(late) == []
    assert "would be lost" in stage.left_alone["1"]
    assert stage.all_home(late) == []


def test_the_policy_may_cut_a_run_short(stage: ProfilingStage) -> None:
    entered(stage, waits())
    here = cluster(measured(), at_s=NOW_S + 5)
    assert stage.changes(decision(sends_home=("1",)), here) == [SendHome("1", "vc1")]


def test_who_waits_there_in_vain_comes_home_and_is_not_tried_again(
    stage: ProfilingStage, clock: Clock
) -> None:
    entered(stage, waits())
    there = waits(partition="prof")
    assert stage.reconcile(cluster(there)) == []
    clock.now += PATIENCE_S
    assert stage.reconcile(cluster(there)) == [MoveTo("1", "vc1", "vc1")]
    assert entered(stage, waits()) == []


@pytest.mark.parametrize(
    "facts",
    [
        {"requeueable": False},
        {"tasks": 3},
        {"job_id": "1_2"},
        {"time_limit_s": None},
        {"time_limit_s": 3601.0},
        {"restarts": 1},
        {"held": True},
        {"waits_for": "Dependency"},
        {"shares_gpus": True},
    ],
)
def test_who_must_not_be_moved(stage: ProfilingStage, facts: dict[str, object]) -> None:
    job = waits(**facts)
    limited = replace(cluster(job), longest_run_s={"prof": 3600.0})
    assert stage.changes(decision(job.job_id), limited) == []


def test_when_nothing_can_be_written_nobody_moves_in_and_everybody_comes_home(
    stage: ProfilingStage, tmp_path: Path
) -> None:
    entered(stage, waits("1"))
    stage.intents.path.unlink()
    stage.intents.path.mkdir()
    over = cluster(measured("1"), waits("2"), at_s=NOW_S + 201)
    assert stage.changes(decision("2"), over) == [SendHome("1", "vc1")]


def test_who_only_looks_on_writes_nothing(tmp_path: Path) -> None:
    stage = ProfilingStage(replace(SETTINGS, mode=Mode.OBSERVE), Intents(tmp_path))
    assert entered(stage, waits()) == [MoveTo("1", "prof", "vc1")]
    assert list(tmp_path.iterdir()) == []


def test_only_slurms_own_begin_time_is_shortened(stage: ProfilingStage) -> None:
    entered(stage, waits())
    assert stage.reconcile(cluster(measured(), at_s=NOW_S + 201)) == [SendHome("1", "vc1")]
    home = waits(restarts=1, begin_time_s=NOW_S + 320)
    assert stage.reconcile(cluster(home, at_s=NOW_S + 203)) == [StartAfter("1", 3)]
    tomorrow = replace(home, begin_time_s=NOW_S + 86_400)
    assert stage.reconcile(cluster(tomorrow, at_s=NOW_S + 205)) == []
    assert stage.intents.values == {}


class Alike:
    """Everybody is believed to run for so long."""

    def __init__(self, seconds: float) -> None:
        self.waiting: list[str] = []
        self._seconds = seconds

    def join(self, jobs: Iterable[Mapping[str, Any]]) -> None:
        self.waiting += [job["job_id"] for job in jobs]

    def leave(self, job_ids: Iterable[str]) -> None:
        gone = set(job_ids)
        self.waiting = [job_id for job_id in self.waiting if job_id not in gone]

    def estimates(self, at_s: float) -> NDArray[np.float64]:
        return np.full(len(self.waiting), self._seconds)

    def estimate_now(self, jobs: Sequence[Mapping[str, Any]], at_s: float) -> list[float]:
        return [self._seconds] * len(jobs)


@pytest.mark.parametrize(("believed_s", "idle", "home"), [(600.0, 4, ["1"]), (600.0, 0, []), (100.0, 4, [])])
def test_lucid_cuts_a_run_short_when_gpus_at_home_turn_up_unless_it_is_about_to_end(
    stage: ProfilingStage, believed_s: float, idle: int, home: list[str]
) -> None:
    entered(stage, waits())
    maker = DecisionMaker(live_policy(SETTINGS), Alike(believed_s), SETTINGS, release="r", profiling=stage)
    nodes = (replace(NODES[0], gpus_used=4 - idle), replace(NODES[1], gpus_used=1))
    here = cluster(measured(), at_s=NOW_S + 5, nodes=nodes)
    maker.follow(here)
    decided = maker.decide()
    assert list(decided.sends_home) == home
    assert stage.changes(decided, here) == [SendHome(job_id, "vc1") for job_id in home]


JOBS = st.builds(
    lambda number, partition, start, held, restarts, requeueable, waits_for, known: LiveJob(
        str(number),
        partition,
        partition if partition != "prof" or not known else "vc1",
        1,
        NOW_S - 100,
        time_limit_s=600.0,
        held=held and start is None,
        restarts=restarts,
        requeueable=requeueable,
        waits_for=waits_for if start is None else "",
        start_time_s=start,
        mark=f"lucid:home=vc1,submitted={int(NOW_S) - 100},stage=profiling" if known else "",
    ),
    st.integers(1, 6),
    st.sampled_from(["vc1", "vc2", "prof"]),
    st.sampled_from([None, NOW_S - 1, NOW_S - 250, NOW_S - 5_000]),
    st.booleans(),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(["", "Dependency", "BeginTime"]),
    st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(JOBS, max_size=6, unique_by=lambda job: job.job_id), min_size=1, max_size=4),
    st.sets(st.integers(1, 6)),
)
def test_whatever_the_cluster_shows_only_its_own_guests_are_stopped(
    tmp_path_factory: pytest.TempPathFactory, readings: list[list[LiveJob]], wanted: set[int]
) -> None:
    """No run at home is stopped, no hold or dependency passed over, no job asked for twice."""
    stage = ProfilingStage(SETTINGS, Intents(tmp_path_factory.mktemp("s")), monotonic=Clock())
    ours: set[str] = set()  # moved by it, or marked once
    for number, jobs in enumerate(readings):
        state = cluster(*jobs, at_s=NOW_S + number)
        ours |= {job.job_id for job in jobs if job.mark}
        said = decision(*(str(each) for each in wanted), sends_home=tuple(str(each) for each in wanted))
        changes = stage.changes(said, state)
        assert len({change.job_id for change in changes}) == len(changes)
        for change in changes:
            job = state.by_id[change.job_id]
            if isinstance(change, SendHome):
                assert job.partition == "prof"
                assert not job.waiting
                assert job.requeueable
                assert job.job_id in ours
                assert change.home != "prof"
            elif isinstance(change, MoveTo) and change.partition == "prof":
                assert job.eligible
                assert job.partition == change.home != "prof"
                ours.add(job.job_id)
            elif isinstance(change, MoveTo):
                assert job.waiting
                assert job.partition == "prof"
                assert job.job_id in ours
            else:
                assert isinstance(change, StartAfter)
                assert job.waiting
                assert not job.held
