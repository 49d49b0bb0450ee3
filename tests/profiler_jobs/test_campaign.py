"""A campaign on any device: resumed after a kill, every task accounted for, nothing trusted that varies."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import BadInputError
from profiler_jobs.campaign import CampaignReport, measure_profiles, outcome_rows, run_campaign
from profiler_jobs.devices.device import (
    DeviceKind,
    DeviceWindow,
    OutOfMemory,
    RunFailure,
    RunOutcome,
    WindowRecord,
)
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.measurement_table import (
    MEASUREMENT_SCHEMA,
    as_measurement_frame,
    origin_columns,
    read_measurements,
)
from profiler_jobs.method import Method
from profiler_jobs.summary import colocated_speeds, run_columns, summarise
from profiler_jobs.tasks import MeasurementTask, pair_tasks, parse_task, solo_tasks
from profiler_jobs.workloads import JobType, find_job_type, list_job_types

FEW = [find_job_type(name) for name in ("VGG/CIFAR-10/32/0", "DCGAN/LSUN/64/1", "ResNet50/ImageNet/64/0")]
TASKS = [*solo_tasks(FEW), *pair_tasks(FEW)]
job_types = st.sampled_from(list_job_types())


class CountedGpu(SimulatedGpu):
    """A simulated GPU that knows its runs and can do odd things in one of them."""

    def __init__(self, seed: int = 0, *, break_at: int | None = None) -> None:
        super().__init__(seed)
        self.runs: list[str] = []
        self._break_at = break_at

    def run(
        self, job_types: Sequence[JobType], windows: Sequence[DeviceWindow], *, warmup_s: float
    ) -> RunOutcome:
        if len(self.runs) == self._break_at:
            raise KeyboardInterrupt
        self.runs.append(MeasurementTask(tuple(job_types)).name)
        return super().run(job_types, windows, warmup_s=warmup_s)


def rows_of(task: MeasurementTask, outcome: RunOutcome, method: Method) -> pd.DataFrame:
    device = SimulatedGpu(0).description
    began = pd.Timestamp("2026-01-01", tz="UTC").to_pydatetime()
    return as_measurement_frame(outcome_rows(task, outcome, origin_columns(device, method), method, began))


def windows_of(task: MeasurementTask, method: Method) -> tuple[WindowRecord, ...]:
    outcome = SimulatedGpu(0, capacity_mib=1e6).run(task.job_types, method.windows(task), warmup_s=0.0)
    assert isinstance(outcome, tuple)
    return outcome


def test_an_interrupted_campaign_goes_on_and_ends_as_if_undisturbed(tmp_path: Path) -> None:
    whole, resumed = str(tmp_path / "whole.parquet"), str(tmp_path / "resumed.parquet")
    run_campaign(CountedGpu(), TASKS, whole)
    with pytest.raises(KeyboardInterrupt):
        run_campaign(CountedGpu(break_at=4), TASKS, resumed)
    assert set(read_measurements(resumed)["task"]) == {task.name for task in TASKS[:4]}
    rest = CountedGpu()
    report = run_campaign(rest, TASKS, resumed)
    assert rest.runs == [task.name for task in TASKS[4:]]
    assert report.already_done == [task.name for task in TASKS[:4]]
    pd.testing.assert_frame_equal(read_measurements(whole), read_measurements(resumed))


def test_the_table_is_one_parquet_file_with_units(tmp_path: Path) -> None:
    table = tmp_path / "m.parquet"
    run_campaign(SimulatedGpu(0), TASKS[:2], str(table))
    schema = pq.read_schema(table)
    assert schema.names == MEASUREMENT_SCHEMA.names
    assert schema.field("gpu_mem_mib").metadata[b"unit"] == b"MiB"
    assert all(schema.field(name).metadata[b"description"] for name in schema.names)
    rows = read_measurements(str(table))
    assert (rows["device_kind"] == DeviceKind.SIMULATED).all()
    assert summarise(rows).solo["simulated"].all()


@pytest.mark.slow
@settings(deadline=None)  # files are written
@given(budget_runs=st.integers(0, len(TASKS)))
def test_a_budget_is_kept_and_every_task_accounted_for(
    budget_runs: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    method = Method(window_s=1.0, warmup_s=0.0)
    now_s = 0.0

    class Timed(SimulatedGpu):
        def run(
            self, job_types: Sequence[JobType], windows: Sequence[DeviceWindow], *, warmup_s: float
        ) -> RunOutcome:
            nonlocal now_s
            now_s += method.expected_s(MeasurementTask(tuple(job_types)), overhead_s=self.run_overhead_s())
            return super().run(job_types, windows, warmup_s=warmup_s)

    device = Timed(0)
    budget_s = sum(
        method.expected_s(task, overhead_s=device.run_overhead_s()) for task in TASKS[:budget_runs]
    )
    table = str(tmp_path_factory.mktemp("budget") / "m.parquet")
    report = run_campaign(device, TASKS, table, method=method, budget_s=budget_s + 1e-6, clock=lambda: now_s)
    assert now_s <= budget_s + 1e-6
    assert len(report.measured) >= budget_runs
    found = CampaignReport().__dict__.keys()
    assert sorted(name for each in found for name in getattr(report, each)) == sorted(
        task.name for task in TASKS
    )


def test_another_method_is_measured_anew_and_the_latest_counts(tmp_path: Path) -> None:
    table = str(tmp_path / "m.parquet")
    run_campaign(SimulatedGpu(0), TASKS[:1], table)
    again = CountedGpu()
    run_campaign(again, TASKS[:1], table, method=Method(window_s=60.0))
    assert again.runs == [TASKS[0].name]
    rows = read_measurements(table)
    assert rows["window_s"].nunique() == 2
    assert len(summarise(rows).solo) == 1


def test_another_device_is_refused_by_name(tmp_path: Path) -> None:
    table = str(tmp_path / "m.parquet")
    run_campaign(SimulatedGpu(0), TASKS[:1], table)
    with pytest.raises(BadInputError, match="simulated-24gib, and the device is other"):
        run_campaign(SimulatedGpu(0, name="other"), TASKS[:1], table)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.parquet").write_text("not parquet")
    with pytest.raises(BadInputError, match=r"m\.parquet is no Parquet file"):
        run_campaign(SimulatedGpu(0), TASKS[:1], str(tmp_path / "m.parquet"))


def test_out_of_memory_and_failures_are_results(tmp_path: Path) -> None:
    table = str(tmp_path / "m.parquet")

    class Odd(CountedGpu):
        def run(
            self, job_types: Sequence[JobType], windows: Sequence[DeviceWindow], *, warmup_s: float
        ) -> RunOutcome:
            super().run(job_types, windows, warmup_s=warmup_s)
            if job_types[0].model.name == "VGG":
                return OutOfMemory(None, 24_576.0, "CUDA out of memory")
            return RunFailure("the worker died: signal 11")

    report = run_campaign(Odd(), TASKS[:2], table)
    assert report.out_of_memory == [TASKS[0].name]
    assert report.failed == [TASKS[1].name]
    found = summarise(read_measurements(table))
    assert found.out_of_memory["job_type_1"].tolist() == [TASKS[0].name]
    assert found.rejected["reason"].tolist() == ["failed: the worker died: signal 11"]
    retried = CountedGpu()
    run_campaign(retried, TASKS[:2], table)
    assert retried.runs == [TASKS[1].name]  # what failed is tried again, what does not fit is known
    assert len(summarise(read_measurements(table)).rejected) == 0


@pytest.mark.slow
@given(first=job_types, second=job_types, drift=st.floats(-0.02, 0.02), repeats=st.integers(2, 6))
def test_a_clock_that_drifts_cancels_against_the_solo_windows_beside(
    first: JobType, second: JobType, drift: float, repeats: int
) -> None:
    """A linear drift of the clock over the run leaves the normalised speeds as they are without it."""
    method = Method(repeats=repeats)
    task = MeasurementTask((first, second))
    truth = {(0,): (100.0, None), (0, 1): (80.0, 30.0), (1,): (None, 50.0)}
    records = []
    for position, record in enumerate(windows_of(task, method)):
        speeds = tuple(
            None if speed is None else speed * (1 + drift * position) for speed in truth[record.window.active]
        )
        records.append(replace(record, speeds=speeds))
    rows = rows_of(task, tuple(records), method)
    speeds, overlap = colocated_speeds(run_columns(rows))
    # The first one's last window and the second one's first have a neighbour on one side only.
    assert speeds[:-1, 0] == pytest.approx(np.full(repeats - 1, 0.8))
    assert speeds[1:, 1] == pytest.approx(np.full(repeats - 1, 0.6))
    assert (overlap == 1).all()


def altered(task: MeasurementTask, method: Method, **changes: object) -> pd.DataFrame:
    rows = rows_of(task, windows_of(task, method), method)
    for column, values in changes.items():
        rows.loc[rows["active"] == "12", column] = values
    return rows


PAIR = TASKS[4]


def test_unsteady_speeds_are_rejected_with_the_number() -> None:
    method = Method()
    found = summarise(altered(PAIR, method, speed_1=[100.0, 140.0, 60.0]))
    assert found.pairs.empty
    assert found.rejected["task"].tolist() == [PAIR.name]
    assert "vary by 40" in found.rejected["reason"][0]


def test_windows_without_overlap_do_not_count() -> None:
    found = summarise(altered(PAIR, Method(), overlap=[0.5, 0.99, 0.99]))
    assert len(found.pairs) == 1
    refused = summarise(altered(PAIR, Method(), overlap=[0.5, 0.5, 0.99]))
    assert "only 1 of 3 repeats" in refused.rejected["reason"][0]


def test_a_speed_above_solo_is_kept_and_flagged() -> None:
    usual = summarise(altered(PAIR, Method()))
    assert not usual.pairs["suspicious"].any()
    alone = rows_of(PAIR, windows_of(PAIR, Method()), Method()).set_index("active").loc["1", "speed_1"].mean()
    fast = summarise(altered(PAIR, Method(), speed_1=alone * 1.2))
    assert fast.pairs["suspicious"].tolist() == [True]
    assert fast.pairs["speed_1"][0] == pytest.approx(1.2, rel=0.02)


def test_one_repeat_says_nothing_of_its_spread() -> None:
    found = measure_profiles(SimulatedGpu(0), FEW, method=Method(repeats=1))
    assert found.pairs["speed_cv_1"].isna().all()
    assert len(found.pairs) + len(found.out_of_memory) == len(pair_tasks(FEW))


@given(first=job_types, second=job_types)
def test_a_pair_has_one_name(first: JobType, second: JobType) -> None:
    task = MeasurementTask((first, second))
    assert task == MeasurementTask((second, first)) == parse_task(task.name)
    method = Method()
    lasts_s = sum(window.seconds for window in method.windows(task)) + 2 * method.warmup_s
    assert math.isclose(method.expected_s(task, overhead_s=7.0), lasts_s + 7.0)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("window_s", 0.0), ("repeats", 0), ("overlap_min", 1.5), ("variation_max", math.nan)],
)
def test_a_method_names_what_is_wrong(setting: str, value: float) -> None:
    with pytest.raises(BadInputError, match=setting):
        Method(**{setting: value})


def test_a_pair_holds_solo_windows_of_both_between_the_colocated_ones() -> None:
    active = ["".join(str(i + 1) for i in window.active) for window in Method(repeats=2).windows(PAIR)]
    assert active == ["1", "12", "2", "1", "12", "2"]


def test_simulated_runs_do_not_depend_on_the_day(tmp_path: Path) -> None:
    rows = [windows_of(PAIR, Method())[0].started for _ in range(2)]
    assert rows[0] - rows[1] == timedelta(0)


def test_what_a_processor_says_is_no_measurement_of_a_gpu() -> None:
    rows = rows_of(TASKS[0], windows_of(TASKS[0], Method()), Method())
    for kind, no_gpu in ((DeviceKind.GPU, False), (DeviceKind.CPU, True), (DeviceKind.SIMULATED, True)):
        found = summarise(rows.assign(device_kind=str(kind))).solo
        assert found["simulated"].tolist() == [no_gpu]
        assert found["measured_at"].isna().tolist() == [kind == DeviceKind.SIMULATED]
