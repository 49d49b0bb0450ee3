"""Many configurations at once: the trail of windows, and rows as runs of their own would give them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler_jobs.commands import ProfileOptions, compare_tables, measure_workloads, profiles_of
from profiler_jobs.devices.device import DeviceWindow, WindowRecord
from profiler_jobs.devices.host_cpu import HostCpu
from profiler_jobs.devices.processes import ProcessDevice
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.measurement_table import as_measurement_frame, read_measurements
from profiler_jobs.method import Method
from profiler_jobs.plan import ALL_PAIRS, PairChoice
from profiler_jobs.session import Session, measure
from profiler_jobs.shared_run import groups, measure_together, trail
from profiler_jobs.summary import summarise
from profiler_jobs.tasks import pair_tasks
from profiler_jobs.workload_choice import choose_job_types
from profiler_jobs.workloads import all_job_types

FEW = "ResNet18,BERT/SQuAD/32/1,PPO,LSTM/*/64/*"
METHOD = Method(window_s=2.0, repeats=2, warmup_s=1.0)


def quiet(line: str) -> None:
    pass


def few(names: str = FEW):
    return choose_job_types(names, all_job_types())


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda pair: pair[0] < pair[1]), unique=True
    )
)
def test_every_pair_lies_between_both_of_its_configurations_alone(pairs):
    windows = trail(pairs, 9)
    assert sorted(window for window in windows if len(window) == 2) == sorted(pairs)
    for at, window in enumerate(windows):
        if len(window) == 2:
            assert {windows[at - 1], windows[at + 1]} == {(window[0],), (window[1],)}
    assert {(index,) for index in range(9)} <= set(windows)
    assert len(windows) <= 3 * len(pairs) + 9


def test_pairs_that_hang_together_cost_two_windows_each():
    chain = [(0, 1), (1, 2), (2, 3), (0, 3)]
    assert len(trail(chain, 4)) == 2 * len(chain) + 1


def test_a_shared_run_says_what_runs_of_their_own_say(tmp_path: Path):
    options = ProfileOptions(FEW, "simulated:3", str(tmp_path / "shared.parquet"), 2.0, 3, 1.0, most_pairs=30)
    shared = measure_workloads(replace(options, at_once=5), with_pairs=True, say=quiet)
    own = replace(options, out=str(tmp_path / "own.parquet"), most_pairs=None)
    measure_workloads(own, with_pairs=True, say=quiet)
    comparison = compare_tables(str(tmp_path / "shared.parquet"), str(tmp_path / "own.parquet"))
    assert comparison.agrees, comparison.document()
    assert (shared.solo_profiles, shared.pair_profiles, shared.shared_failures) == (12, 30, ())
    solo, alone = (profiles_of(str(tmp_path / f"{name}.parquet")).solo for name in ("shared", "own"))
    assert dict(zip(solo.job_type, solo.gpu_mem_mib, strict=True)) == pytest.approx(
        dict(zip(alone.job_type, alone.gpu_mem_mib, strict=True))
    ), "the memory of one, though five were loaded"


@pytest.mark.parametrize("pairs", [None, PairChoice(most=5)])
def test_the_same_command_again_goes_on(tmp_path: Path, pairs: PairChoice | None):
    session = Session(SimulatedGpu(0), str(tmp_path / "t.parquet"), METHOD, at_once=4)
    first = measure(session, few(), pairs=pairs)
    assert sum(" + " in name for name in first.measured) == (0 if pairs is None else 5)
    before = read_measurements(session.table_uri)
    report = measure(session, few(), pairs=pairs)
    assert report.measured == ()
    assert read_measurements(session.table_uri).equals(before)


def test_pairs_end_within_the_time_that_is_left():
    job_types = few("LSTM/*/64/*,PPO,NeuMF/*/64/0")
    pairs = [task for task in pair_tasks(job_types) if task.job_types[0] != task.job_types[1]]
    run = measure_together(SimulatedGpu(0), job_types, METHOD, lambda _: pairs, lambda: 60.0)
    done = [rows for rows in run.rows if rows[0]["job_type_2"] is not None]
    windows = {row["started"] for rows in run.rows for row in rows}
    assert 0 < len(done) < len(pairs)
    assert (len(windows) - len(job_types)) * METHOD.window_s <= 60.0


class Killed(SimulatedGpu):
    """A device whose run breaks off after so many looks at its windows."""

    looks = 3

    def run(self, job_types, windows, *, warmup_s, then=None):
        def look(records):
            self.looks -= 1
            if self.looks < 0:
                raise KeyboardInterrupt
            return then(records)

        return super().run(job_types, windows, warmup_s=warmup_s, then=look)


def test_a_run_that_is_killed_keeps_the_repeats_before(tmp_path: Path):
    session = Session(Killed(0), str(tmp_path / "t.parquet"), replace(METHOD, repeats=5), at_once=4)
    with pytest.raises(KeyboardInterrupt):
        measure(session, few("LSTM/*/64/*,PPO/*/64/0"), pairs=ALL_PAIRS)
    rows = read_measurements(session.table_uri)
    assert rows[rows["job_type_2"].notna()].groupby("task")["repeat"].nunique().to_list() == [2, 2, 2]
    assert len(summarise(rows).solo) == 3


def test_a_repeat_that_would_be_late_is_not_begun():
    job_types = few("LSTM/*/64/*,PPO/*/64/0")
    pairs = [task for task in pair_tasks(job_types) if task.job_types[0] != task.job_types[1]]
    left = iter((1e9, 1e9, 1.0))
    rounds: list[int] = []
    run = measure_together(
        SimulatedGpu(0),
        job_types,
        replace(METHOD, repeats=9),
        lambda _: pairs,
        lambda: next(left),
        progress=lambda done, total, what: rounds.append(done),
    )
    assert {max(row["repeat"] for row in rows) for rows in run.rows[3:]} == {2}
    assert rounds == [0, 1, 2, 3, 4]


class TellsNoMemory(SimulatedGpu):
    """A device that says how much memory all hold, not how much each."""

    def run(self, job_types, windows, *, warmup_s, then=None):
        def told(records: tuple[WindowRecord, ...]) -> tuple[WindowRecord, ...]:
            return tuple(
                replace(each, telemetry=replace(each.telemetry, memory_by_process=False)) for each in records
            )

        further = None if then is None else lambda records: then(told(records))
        return told(super().run(job_types, windows, warmup_s=warmup_s, then=further))


def test_where_memory_is_not_told_apart_each_is_measured_in_a_run_of_its_own(tmp_path: Path):
    session = Session(TellsNoMemory(0), str(tmp_path / "t.parquet"), METHOD, at_once=4)
    report = measure(session, few("LSTM/*/64/*,PPO/*/64/0"))
    assert report.shared_failures == (
        "3 configurations at once: the device does not report what memory each process holds",
    )
    assert report.solo_profiles == 3
    assert report.finished


def test_a_budget_that_is_too_short_for_a_group_is_spent_on_runs_of_their_own(tmp_path: Path):
    session = Session(SimulatedGpu(0), str(tmp_path / "t.parquet"), METHOD, budget_s=25.0, at_once=4)
    report = measure(session, few("LSTM/*/64/*,PPO/*/64/0"))
    assert report.shared_failures == ("3 configurations at once take 27 s alone, and 25 s are left",)
    assert report.finished


class Timed(SimulatedGpu):
    """A device whose windows take their time, on a clock of its own."""

    now_s = 0.0

    def run(self, job_types, windows, *, warmup_s, then=None):
        self.now_s += sum(window.seconds for window in windows)

        def look(records):
            further = then(records)
            self.now_s += sum(window.seconds for window in further)
            return further

        return super().run(job_types, windows, warmup_s=warmup_s, then=then and look)


def pairs_of_groups(table_uri):
    """Return how many pairs each group has, in the table's order: a group's own follow its configurations."""
    names = read_measurements(table_uri)["task"].drop_duplicates().to_list()
    kinds = "".join("+" if " + " in name else "." for name in names)
    return [len(pairs) for pairs in kinds.replace(".", " ").split()]


def test_each_group_has_its_share_of_the_pairs(tmp_path: Path):
    session = Session(SimulatedGpu(0), str(tmp_path / "t.parquet"), METHOD, at_once=6)
    report = measure(session, few(), pairs=PairChoice(most=11))
    assert pairs_of_groups(session.table_uri) == [4, 4, 3]
    assert report.shared_failures == ()


def test_each_group_has_its_share_of_the_time(tmp_path: Path):
    device = Timed(0)
    session = Session(
        device, str(tmp_path / "t.parquet"), METHOD, 130.0, at_once=6, clock=lambda: device.now_s
    )
    measure(session, few(), pairs=ALL_PAIRS)
    assert device.now_s <= 130.0
    shares = pairs_of_groups(session.table_uri)
    assert len(shares) == 3
    assert min(shares) >= 2, shares


def test_a_budget_without_time_for_pairs_says_so(tmp_path: Path):
    device = Timed(0)
    session = Session(
        device, str(tmp_path / "t.parquet"), METHOD, 32.0, at_once=5, clock=lambda: device.now_s
    )
    report = measure(session, few("LSTM/*/64/*,PPO/*/64/0,PPO/*/32/0"), pairs=ALL_PAIRS)
    assert report.shared_failures == ("4 configurations at once: no time for their pairs",)


def sizes(*arguments, **options):
    return sorted(len(group) for group in groups(*arguments, **options))


def test_groups_fit_the_device_by_what_was_measured():
    job_types = few("LSTM/*/64/*,PPO/*/64/0")
    first, *others = [each.name for each in job_types]
    assert sizes(job_types, {}, most=2, device_mib=1e6) == [1, 2]
    assert sizes(job_types, dict.fromkeys([first, *others], 500.0), most=9, device_mib=1_200.0) == [1, 2]
    half_of_the_figure = {first: job_types[0].gpu_mem_mib / 2}
    assert sizes(job_types, {}, most=9, device_mib=9_000.0) == [1, 2]
    assert sizes(job_types, half_of_the_figure, most=9, device_mib=9_000.0) == [3]
    assert sizes(job_types, dict.fromkeys([first, *others], 500.0), most=9, device_mib=600.0) == [1, 1, 1]


def test_groups_hold_large_and_small():
    dealt = groups(all_job_types(), {}, most=12, device_mib=1e6)
    assert sorted(each.name for group in dealt for each in group) == sorted(
        each.name for each in all_job_types()
    )
    held_mib = [sum(each.gpu_mem_mib for each in group) / len(group) for group in dealt]
    assert max(held_mib) < 1.2 * min(held_mib)


def test_a_result_is_refused_by_how_uncertain_its_mean_is():
    run = measure_together(
        SimulatedGpu(0), few("PPO/*/64/0,BERT/SQuAD/32/1"), METHOD, lambda _: [], lambda: math.inf
    )
    rows = [dict(row) for row in run.rows[0]]
    for speeds, trusted in (((100.0, 108.0), False), ((100.0, 108.0) * 8, True)):
        varied = [{**rows[0], "repeat": at, "speed_1": speed} for at, speed in enumerate(speeds)]
        profiles = summarise(as_measurement_frame(varied))
        assert (len(profiles.solo) == 1) is trusted
        assert (len(profiles.rejected) == 1) is not trusted


@pytest.mark.thorough("PyTorch")
@pytest.mark.slow
def test_real_processes_share_a_run(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    job_types = few("NeuMF/*/64/0,ResNet18/*/64/0,VGG/*/32/0")
    pairs = [task for task in pair_tasks(job_types) if task.job_types[0] != task.job_types[1]]
    method = Method(window_s=0.3, repeats=2, warmup_s=0.0)
    with ProcessDevice(HostCpu(), catalogue="tiny_workloads", settle_s=0.05) as device:
        run = measure_together(device, job_types, method, lambda _: pairs, lambda: math.inf)
        assert device.run(job_types[:1], [DeviceWindow((0,), 0.2)], warmup_s=0.0), "and it runs on"
    assert run.failure is None
    assert len(run.rows) == 6
    memory = {rows[0]["task"]: max(row["gpu_mem_mib"] for row in rows) for rows in run.rows}
    for pair in pairs:
        alone = [memory[job_type.name] for job_type in pair.job_types]
        assert memory[pair.name] == pytest.approx(sum(alone), rel=0.2)
    for rows in run.rows[3:]:
        assert [row["active"] for row in rows] == ["1", "12", "2"] * 2
        assert all(row["speed_1"] > 0 for row in rows if "1" in row["active"])
