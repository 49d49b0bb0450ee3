"""Plans: what is left, in which order, how long it takes, and what a budget covers of it."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from profiler_jobs.campaign import measure_profiles, run_campaign, settled_tasks
from profiler_jobs.devices.device import DeviceWindow, RunFailure, RunOutcome
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.measurement_table import method_id, read_measurements
from profiler_jobs.method import Method
from profiler_jobs.plan import (
    BEYOND_MOST,
    NOT_YET_ALONE,
    OUT_OF_MEMORY_ALONE,
    TOO_BIG_TOGETHER,
    PairChoice,
    Plan,
    PlannedTask,
    pair_figures,
    pairs_that_fit,
    plan_pairs,
    plan_solo,
    rank_places,
    space_filling,
)
from profiler_jobs.plan_file import read_plan, write_plan
from profiler_jobs.profile_table import ProfileSet
from profiler_jobs.session import Session, measure, observed_overhead_s, plan_campaign, read_state
from profiler_jobs.tasks import MeasurementTask, pair_tasks, solo_tasks
from profiler_jobs.workload_choice import choose_job_types
from profiler_jobs.workloads import JobType, all_job_types, find_job_type, list_job_types

METHOD = Method()
ZOO = list_job_types()
FEW = choose_job_types("VGG,LSTM,BERT/SQuAD/32/0", all_job_types())
found_alone = measure_profiles(SimulatedGpu(0), FEW)
SOLO_ONLY = ProfileSet(found_alone.solo, found_alone.pairs.iloc[:0])
some_types = st.lists(st.sampled_from(FEW), min_size=1, unique=True)


class VirtualTime:
    """A simulated GPU on a clock of its own that takes as long as its runs would, but no real time."""

    def __init__(self, seed: int = 0, capacity_mib: float = 24_576.0, slower: float = 1.0) -> None:
        self.now_s = 0.0
        self.runs: list[str] = []
        self._gpu, self._slower = SimulatedGpu(seed, capacity_mib=capacity_mib), slower
        self.description, self.run_overhead_s = self._gpu.description, self._gpu.run_overhead_s

    def clock(self) -> float:
        return self.now_s

    def run(
        self, job_types: Sequence[JobType], windows: Sequence[DeviceWindow], *, warmup_s: float
    ) -> RunOutcome:
        self.runs.append(MeasurementTask(tuple(job_types)).name)
        seconds = (
            self.run_overhead_s() + warmup_s * len(job_types) + sum(window.seconds for window in windows)
        )
        self.now_s += self._slower * seconds
        return self._gpu.run(job_types, windows, warmup_s=warmup_s)


def planned_pairs(job_types: Sequence[JobType], settled: Sequence[str] = (), most: int | None = None) -> Plan:
    return plan_pairs(
        job_types,
        SOLO_ONLY,
        settled,
        memory_mib=24_576.0,
        method=METHOD,
        overhead_s=12.0,
        pairs=PairChoice(most=most),
    )


def test_a_plan_of_table_1_is_66_runs() -> None:
    plan = plan_solo(ZOO, [ZOO[0].name], method=METHOD, overhead_s=12.0)
    assert len(plan.planned) == 65
    assert plan.done == (ZOO[0].name,)
    # Starting and stopping, warm-up, three windows of 30 s.
    assert plan.expected_s == pytest.approx(65 * (12 + 10 + 3 * 30))


@given(some_types, st.integers(0, 30), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_every_pair_is_planned_done_or_left_out_by_a_rule(
    job_types: list[JobType], done: int, most: int
) -> None:
    order = [task.name for task in planned_pairs(job_types).tasks][:done]
    plan = planned_pairs(job_types, order, most)
    names = [*plan.done, *(task.name for task in plan.tasks)]
    names += [name for left_out in plan.left_out.values() for name in left_out]
    assert sorted(names) == sorted(task.name for task in pair_tasks(job_types))
    assert plan.done == tuple(order)
    assert len(plan.done) + len(plan.planned) <= max(most, len(order))


def test_pairs_that_cannot_fit_are_left_out_by_name() -> None:
    bert = find_job_type("BERT/SQuAD/32/0")
    _, left_out = pairs_that_fit(FEW, SOLO_ONLY, [], 24_576.0)
    # 20,380 MiB each by the simulated GPU; the largest LSTM asks for 5,606 MiB.
    assert left_out == {
        TOO_BIG_TOGETHER: (f"{bert.name} + {bert.name}", f"{bert.name} + LSTM/Wikitext2/128/0")
    }
    too_big = pd.DataFrame(
        {"job_type_1": [bert.name], "job_type_2": [None], "needed_mib": [3e4], "capacity_mib": [24_576.0]}
    )
    without = ProfileSet(
        SOLO_ONLY.solo[~SOLO_ONLY.solo["job_type"].isin([bert.name, "VGG/CIFAR-10/32/0"])],
        SOLO_ONLY.pairs,
        too_big,
    )
    fitting, left_out = pairs_that_fit(FEW, without, [bert.name], 24_576.0)
    assert {rule: len(names) for rule, names in left_out.items()} == {
        OUT_OF_MEMORY_ALONE: len(FEW),
        NOT_YET_ALONE: len(FEW) - 1,
    }
    assert len(fitting) == len(pair_tasks(FEW)) - 2 * len(FEW) + 1


def test_beyond_the_number_of_pairs_asked_for_comes_a_rule() -> None:
    plan = planned_pairs(FEW, most=7)
    assert len(plan.planned) == 7
    assert len(plan.left_out[BEYOND_MOST]) == len(planned_pairs(FEW).planned) - 7


@given(st.integers(1, 59), st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_a_space_filling_order_goes_on_as_it_would_have(position: int, shuffle: int) -> None:
    """Where the figures are the same, an order may be stopped and continued anywhere, from any listing."""
    pairs = list(pair_tasks(FEW))
    whole = [each.task for each in space_filling(SOLO_ONLY.solo, SOLO_ONLY.pairs, [], pairs)]
    position = min(position, len(pairs) - 1)
    rest = space_filling(SOLO_ONLY.solo, SOLO_ONLY.pairs, whole[:position], whole[position:])
    places = rank_places(pair_figures(SOLO_ONLY.solo, pairs))

    def gap(before: Sequence[MeasurementTask], chosen: MeasurementTask) -> float:
        index = {task.name: row for row, task in enumerate(pairs)}
        own = places[index[chosen.name]]
        return min(float(((own - places[index[task.name]]) ** 2).sum()) for task in before)

    assert gap(whole[:position], rest[0].task) == pytest.approx(gap(whole[:position], whole[position]))
    shuffled = [pairs[row] for row in np.random.default_rng(shuffle).permutation(len(pairs))]
    again = [each.task for each in space_filling(SOLO_ONLY.solo, SOLO_ONLY.pairs, [], shuffled)]
    for row in range(1, 10):
        assert gap(again[:row], again[row]) == pytest.approx(gap(whole[:row], whole[row]), rel=0.5)


def test_a_space_filling_order_leaves_smaller_gaps_than_the_listing() -> None:
    pairs = pair_tasks(ZOO[:30])
    solo = measure_profiles(SimulatedGpu(0), ZOO[:30]).solo
    places = rank_places(pair_figures(solo, pairs))
    index = {task.name: row for row, task in enumerate(pairs)}
    chosen = [index[each.task.name] for each in space_filling(solo, SOLO_ONLY.pairs, [], pairs)][:40]

    def largest_gap(rows: Sequence[int]) -> float:
        apart = ((places[:, None] - places[None, list(rows)]) ** 2).sum(axis=2)
        return float(apart.min(axis=1).max())

    random = [np.random.default_rng(seed).choice(len(pairs), 40, replace=False) for seed in range(10)]
    assert largest_gap(chosen) < min(largest_gap(rows) for rows in random)


def test_a_campaign_killed_within_a_batch_is_planned_on_as_before() -> None:
    whole = [task.name for task in planned_pairs(FEW).tasks]
    for done in (1, 7, 19, 20, 23):
        assert [task.name for task in planned_pairs(FEW, whole[:done]).tasks] == whole[done:]


@pytest.mark.slow
@pytest.mark.parametrize("most", [3, None])
def test_the_expected_time_is_what_a_campaign_takes(tmp_path: Path, most: int | None) -> None:
    table, device = str(tmp_path / "m.parquet"), VirtualTime()
    measure(Session(device, table, clock=device.clock), FEW)
    began_s, choice = device.now_s, PairChoice(most=most)
    plan = plan_campaign(
        read_state(table, None, METHOD),
        FEW,
        memory_mib=device.description.memory_mib,
        method=METHOD,
        overhead_s=device.run_overhead_s(),
        pairs=choice,
    )
    report = measure(Session(device, table, clock=device.clock), FEW, pairs=choice)
    assert device.now_s - began_s == pytest.approx(plan.expected_s)
    assert report.elapsed_s == pytest.approx(plan.expected_s)
    assert report.finished
    assert list(report.measured) == [task.name for task in plan.tasks]


@pytest.mark.slow
def test_budgets_are_kept_and_sessions_are_counted_right(tmp_path: Path) -> None:
    table, device, budget_s = str(tmp_path / "m.parquet"), VirtualTime(), 700.0
    ended: list[int] = []
    to_come: list[int | None] = []
    choice = PairChoice(most=5)
    expected = len(FEW) * 112.0 + 5 * 302.0
    for _ in range(100):
        began_s = device.now_s
        report = measure(Session(device, table, budget_s=budget_s, clock=device.clock), FEW, pairs=choice)
        assert device.now_s - began_s <= budget_s
        ended.append(len(report.measured))
        expected -= device.now_s - began_s
        assert report.expected_left_s == pytest.approx(expected)
        to_come.append(report.sessions_left)
        if report.finished:
            break
    # What a report says of the sessions to come is what comes.
    assert to_come == list(range(len(ended)))[::-1]
    assert sum(ended) == len(FEW) + 5
    tasks = [*solo_tasks(FEW), *pair_tasks(FEW)[:5]]
    planned = Plan(tuple(PlannedTask(task, METHOD.expected_s(task, overhead_s=12.0), "") for task in tasks))
    assert planned.sessions(budget_s) == tuple(ended)
    assert planned.sessions(50.0) == ()


def test_a_slow_device_does_not_overrun_by_more_than_one_run(tmp_path: Path) -> None:
    device = VirtualTime(slower=1.5)
    measure(Session(device, str(tmp_path / "m.parquet"), budget_s=700.0, clock=device.clock), FEW)
    assert 700.0 - 112.0 * 1.5 < device.now_s <= 700.0 + 0.5 * 112.0


def test_a_budget_too_short_for_any_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="a run takes 112 s"):
        measure(Session(SimulatedGpu(0), str(tmp_path / "m.parquet"), budget_s=100.0), FEW)


@pytest.mark.slow
def test_what_failed_is_tried_once_a_session(tmp_path: Path) -> None:
    class Broken(VirtualTime):
        def run(
            self, job_types: Sequence[JobType], windows: Sequence[DeviceWindow], *, warmup_s: float
        ) -> RunOutcome:
            outcome = super().run(job_types, windows, warmup_s=warmup_s)
            return RunFailure("the driver reset the device") if "LSTM" in self.runs[-1] else outcome

    device, table = Broken(), str(tmp_path / "m.parquet")
    report = measure(Session(device, table, clock=device.clock), FEW, pairs=PairChoice())
    lstm = [job_type.name for job_type in FEW if job_type.model.name == "LSTM"]
    assert report.failed == dict.fromkeys(lstm, "the driver reset the device")
    assert report.left == tuple(lstm)
    assert len(device.runs) == len(set(device.runs))
    assert not report.finished
    assert set(
        settled_tasks(read_measurements(table), device.description.name, method_id(METHOD))
    ).isdisjoint(lstm)


def test_a_plan_file_is_read_back_and_checked(tmp_path: Path) -> None:
    uri = str(tmp_path / "plan.json")
    plan = planned_pairs(FEW, most=4)
    write_plan(uri, plan, Method(window_s=20.0), "a card")
    assert read_plan(uri).plan == plan
    assert (read_plan(uri).method, read_plan(uri).device) == (Method(window_s=20.0), "a card")
    with pytest.raises(NotFoundError, match="There is no plan"):
        read_plan(str(tmp_path / "none.json"))
    good = json.loads(Path(uri).read_text())
    for spoiled, said in (
        ("[]", "is no plan"),
        ("{", "is no plan"),
        (json.dumps({**good, "format_version": 2}), "format version 2"),
        (json.dumps({**good, "method": {**good["method"], "window_s": "30"}}), "not a number"),
        (json.dumps({**good, "method": {"windows": 3}}), "no setting windows"),
        (json.dumps({**good, "method": {"window_s": 1e9}}), "window_s is"),
        (json.dumps({**good, "tasks": [{"task": "nobody", "expected_s": 1, "why": ""}]}), "Unknown job type"),
    ):
        Path(uri).write_text(spoiled)
        with pytest.raises(BadInputError, match=said):
            read_plan(uri)


def test_workloads_are_chosen_by_model_name_and_pattern() -> None:
    def names(text: str | None) -> list[str]:
        return [job_type.name for job_type in choose_job_types(text, all_job_types())]

    assert names(None) == names("table1") == [job_type.name for job_type in ZOO]
    assert set(names("all")) > set(names(None))
    assert names("bert") == ["BERT/SQuAD/32/0", "BERT/SQuAD/32/1"]
    assert names("BERT/SQuAD/32/1,vgg/cifar-10/32/0") == ["VGG/CIFAR-10/32/0", "BERT/SQuAD/32/1"]
    assert names("ResNet*/*/64/*") == [
        f"{model}/64/{amp}" for model in ("ResNet50/ImageNet", "ResNet18/CIFAR-10") for amp in (0, 1)
    ]
    with pytest.raises(UnknownNameError, match="Choose one of: BERT"):
        names("VGG,GPT-5")


def test_the_overhead_of_runs_is_seen_in_a_table(tmp_path: Path) -> None:
    table = str(tmp_path / "m.parquet")
    run_campaign(SimulatedGpu(0), solo_tasks(FEW[:4]), table)
    rows = read_measurements(table)
    assert observed_overhead_s(rows) is None  # the simulated clock begins anew in each run
    began = pd.Timestamp("2026-01-01", tz="UTC")
    # Runs of 3 x 30 s and 10 s of warm-up that begin 117 s after one another, with a break before the last.
    after_s = {task: 117.0 * place for place, task in enumerate(rows["task"].unique())}
    after_s[rows["task"].iloc[-1]] += 5_000.0
    rows["started"] = [
        began + pd.Timedelta(seconds=after_s[task] + 30.0 * repeat)
        for task, repeat in zip(rows["task"], rows["repeat"], strict=True)
    ]
    assert observed_overhead_s(rows) == pytest.approx(17.0)
