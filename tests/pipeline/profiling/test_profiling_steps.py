"""The DAG's steps from outside: plan, measure in batches, collect; a killed task, a mix of devices."""

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from foundation.errors import BadInputError, ServiceUnavailableError, UnknownNameError
from foundation.site import Site
from pipeline.profiling import steps
from pipeline.profiling.measurement_store import measurements_uri
from pipeline.profiling.profile_store import ingest_profiles, read_profile_set, write_profile_set
from pipeline.profiling.request import ProfilingForm, read_request
from pipeline.profiling.steps import (
    collect_measurements,
    measure_batch,
    plan_pair_stage,
    plan_solo_stage,
)
from profiler_jobs.devices import opening
from profiler_jobs.devices.device import DeviceDescription, DeviceKind, RunFailure, RunOutcome, SharingMode
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.measurement_table import read_measurements
from tests.fixtures import small_profiles


class StandIn(SimulatedGpu):
    """Answers like the simulated GPU under another name and kind: what the steps do with a GPU's rows."""

    def __init__(self, name: str, kind: DeviceKind, *, fails: bool = False) -> None:
        super().__init__(7, name=name)
        self._kind = kind
        self._fails = fails

    @property
    def description(self) -> DeviceDescription:
        return replace(super().description, kind=self._kind, sharing_mode=SharingMode.TIME_SLICING)

    def run(self, *arguments: Any, **options: Any) -> RunOutcome:
        return RunFailure("fell off the bus") if self._fails else super().run(*arguments, **options)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two GPUs of one kind, one of another, and one that is broken."""
    devices = {
        "0": StandIn("Stand-in A", DeviceKind.GPU),
        "1": StandIn("Stand-in A", DeviceKind.GPU),
        "2": StandIn("Stand-in B", DeviceKind.GPU),
        "3": StandIn("Stand-in A", DeviceKind.GPU, fails=True),
        "cpu": StandIn("Stand-in processor", DeviceKind.CPU),
    }
    real = opening.open_device
    monkeypatch.setattr(opening, "open_device", lambda name: devices.get(name) or real(name))


def request(lake: Path, run: str = "run", **asked: Any) -> steps.Request:
    form = {"devices": ["simulated:0"], "workloads": "PPO,NeuMF/MovieLens/64/0", **asked}
    return read_request(Site(lake=str(lake), cluster="c"), ProfilingForm(**form), run_id=run)


def measure(stage: steps.PlannedStage) -> list[dict[str, Any]]:
    return [
        measure_batch(**{name: value for name, value in batch.items() if name != "what"})
        for batch in stage.batches
    ]


def whole_run(lake: Path, run: str = "run", **asked: Any) -> dict[str, Any]:
    asked_for = request(lake, run, **asked)
    measure(plan_solo_stage(asked_for))
    measure(plan_pair_stage(asked_for))
    return collect_measurements(asked_for)


def counted(done: Sequence[dict[str, Any]], what: str) -> int:
    return sum(each[what] for each in done)


@pytest.mark.slow
def test_two_devices_share_a_stage_and_the_lake_has_one_table(tmp_path: Path) -> None:
    asked = request(tmp_path, devices=["simulated:0", "simulated:1"])
    alone = plan_solo_stage(asked)
    assert {batch["device"] for batch in alone.batches} == {"simulated:0", "simulated:1"}
    assert len({batch["table_uri"] for batch in alone.batches}) == len(alone.batches)
    assert counted(measure(alone), "measured") == len(asked.job_types)
    together = plan_pair_stage(asked)
    pairs = counted(measure(together), "measured")
    assert pairs == len(asked.job_types) * (len(asked.job_types) + 1) // 2
    result = collect_measurements(asked)
    stored = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    assert (result["solo_profiles"], result["pair_profiles"]) == (len(stored.solo), len(stored.pairs))
    assert (len(stored.solo), len(stored.pairs)) == (len(asked.job_types), pairs)
    assert stored.solo["simulated"].all()
    rows = read_measurements(measurements_uri(Site(lake=str(tmp_path), cluster="c"), DeviceKind.SIMULATED))
    assert set(rows["driver"]) == {"simulation, seed 0", "simulation, seed 1"}
    assert len(rows) == result["rows"] == 3 * len(asked.job_types) + 9 * pairs
    assert not list((tmp_path / "profiles" / "cluster=c" / "parts").rglob("*.parquet"))
    again = collect_measurements(asked)  # a retry after it had done everything
    assert {**again, "remarks": []} == {**result, "remarks": []}


@pytest.mark.slow
def test_what_has_a_result_is_not_measured_again_unless_asked(tmp_path: Path) -> None:
    whole_run(tmp_path)
    assert plan_solo_stage(request(tmp_path, "second")).batches == ()
    assert plan_pair_stage(request(tmp_path, "second")).batches == ()
    shorter = plan_solo_stage(request(tmp_path, "third", method={"window_s": 5.0}))
    assert len(shorter.batches) == 1
    before = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    anew = whole_run(tmp_path, "fourth", again="everything", method={"repeats": 4})
    assert anew["solo_profiles"] == len(before.solo)
    after = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    assert not after.pairs["speed_1"].equals(before.pairs["speed_1"])


def test_what_was_rejected_is_measured_again_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unsteady(SimulatedGpu):
        def run(self, *arguments: Any, **options: Any) -> RunOutcome:
            found = super().run(*arguments, **options)
            assert isinstance(found, tuple)
            if found[0].speeds[0] is None or arguments[0][0].model.name != "NeuMF":
                return found
            return (replace(found[0], speeds=(2 * found[0].speeds[0],)), *found[1:])

    asked = request(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(opening, "open_device", lambda name: Unsteady(0))
        (done,) = measure(plan_solo_stage(asked))
    assert list(done["rejected"]) == ["NeuMF/MovieLens/64/0"]
    assert collect_measurements(asked)["rejected"] == 1
    assert plan_solo_stage(request(tmp_path, "second")).batches == ()
    (done,) = measure(plan_solo_stage(again := request(tmp_path, "third", again="rejected")))
    assert done["measured"] == 1
    assert collect_measurements(again)["rejected"] == 0


@pytest.mark.slow
def test_a_killed_task_goes_on_after_its_last_measurement(tmp_path: Path) -> None:
    asked = request(tmp_path, workloads="ResNet50,ResNet18")
    (batch,) = plan_solo_stage(asked).batches
    script = textwrap.dedent(f"""
        from profiler_jobs.devices import opening
        from profiler_jobs.devices.simulated import SimulatedGpu
        opening.open_device = lambda name: SimulatedGpu(0, seconds_per_run=0.3)
        from pipeline.profiling.steps import measure_batch
        measure_batch(plan_uri={batch["plan_uri"]!r}, table_uri={batch["table_uri"]!r}, device="simulated:0")
    """)
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        try:
            deadline = time.monotonic() + 120
            while len(read_measurements(batch["table_uri"])) < 6:
                assert process.poll() is None, "it ended before it could be killed"
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            process.send_signal(signal.SIGKILL)
    kept = read_measurements(batch["table_uri"])["task"].nunique()
    (done,) = measure(plan_solo_stage(asked))
    assert done["done_before"] == kept
    assert done["measured"] == len(asked.job_types) - kept > 0


def test_a_stopped_task_keeps_what_it_measured_and_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(tmp_path)
    runs = 0

    class Stopped(SimulatedGpu):
        def run(self, *arguments: Any, **options: Any) -> RunOutcome:
            nonlocal runs
            runs += 1
            if runs == 3:
                signal.raise_signal(signal.SIGTERM)
            return super().run(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(opening, "open_device", lambda name: Stopped(0))
        with pytest.raises(ServiceUnavailableError, match="was stopped"):
            measure(plan_solo_stage(asked))
    (done,) = measure(plan_solo_stage(asked))
    assert done["done_before"] == 2


def test_a_run_that_broke_off_is_continued_by_the_next(tmp_path: Path) -> None:
    measure(plan_solo_stage(request(tmp_path, "first")))
    second = plan_solo_stage(request(tmp_path, "second"))
    assert second.batches == ()
    assert any("broke off" in remark for remark in second.remarks)
    assert len(
        read_measurements(measurements_uri(Site(lake=str(tmp_path), cluster="c"), DeviceKind.SIMULATED))
    )


def test_a_budget_bounds_what_each_device_measures(tmp_path: Path, machine: None) -> None:
    # A configuration takes 3 x 30 s, 10 s of warm-up and about 30 s of starting.
    asked = request(tmp_path, devices=["0", "1"], workloads="table1", budget_minutes=10, batch_minutes=5)
    stage = plan_solo_stage(asked)
    by_device: dict[str, int] = {}
    for batch in stage.batches:
        count = len(steps.read_plan(batch["plan_uri"]).plan.tasks)
        assert count <= 2
        by_device[batch["device"]] = by_device.get(batch["device"], 0) + count
    assert by_device == {"0": 4, "1": 4}
    assert any("do not fit the budget" in remark for remark in stage.remarks)
    measure(stage)
    assert plan_pair_stage(asked).batches == ()  # the time is spent
    more = request(tmp_path, "second", devices=["0", "1"], workloads="table1", budget_minutes=10)
    assert any("8 were before" in remark for remark in plan_solo_stage(more).remarks)


@pytest.mark.slow
def test_measured_rows_replace_simulated_ones(tmp_path: Path, machine: None) -> None:
    whole_run(tmp_path)
    result = whole_run(tmp_path, "real", devices=["0", "1"])
    assert result["device"] == "Stand-in A"
    assert not result["simulated"]
    rows = read_measurements(measurements_uri(Site(lake=str(tmp_path), cluster="c"), DeviceKind.GPU))
    assert set(rows["device_kind"]) == {"gpu"}
    stored = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    assert set(stored.solo["device"]) | set(stored.pairs["device"]) == {"Stand-in A"}
    assert any("gave way" in remark for remark in result["remarks"])


@pytest.mark.slow
def test_simulated_rows_never_replace_or_join_measured_ones(tmp_path: Path, machine: None) -> None:
    whole_run(tmp_path, devices=["0"])
    before = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    with pytest.raises(
        BadInputError, match=r"'c' has profiles measured on Stand-in A; simulated.*simulated:0"
    ):
        plan_solo_stage(request(tmp_path, "simulated"))
    pd.testing.assert_frame_equal(read_profile_set(Site(lake=str(tmp_path), cluster="c")).pairs, before.pairs)


def test_simulated_rows_that_were_under_way_when_measured_ones_came_are_refused(tmp_path: Path) -> None:
    asked = request(tmp_path)
    measure(plan_solo_stage(asked))
    measure(plan_pair_stage(asked))
    solo, pairs = small_profiles()
    from profiler_jobs.profile_table import ProfileSet

    real = ProfileSet(solo.assign(simulated=False), pairs.assign(simulated=False))
    write_profile_set(Site(lake=str(tmp_path), cluster="c"), real)
    with pytest.raises(BadInputError, match="measured on test GPU"):
        collect_measurements(asked)
    assert not read_profile_set(Site(lake=str(tmp_path), cluster="c")).solo["simulated"].any()


@pytest.mark.slow
def test_a_processor_never_becomes_a_profile(tmp_path: Path, machine: None) -> None:
    result = whole_run(tmp_path, devices=["cpu"])
    assert result["rows"] > 0
    assert not result["stored"]
    assert result["measurements_uri"].endswith("measurements-cpu.parquet")
    assert not (tmp_path / "profiles" / "cluster=c" / "solo.parquet").exists()
    whole_run(tmp_path, "simulated")
    result = whole_run(tmp_path, "cpu again", devices=["cpu"], again="everything")
    assert not result["stored"]
    assert read_profile_set(Site(lake=str(tmp_path), cluster="c")).solo["simulated"].all()


@pytest.mark.slow
def test_two_kinds_of_gpu_do_not_mix(tmp_path: Path, machine: None) -> None:
    whole_run(tmp_path, devices=["0"])
    other = request(tmp_path, "other", devices=["2"], method={"repeats": 2})
    measure(plan_solo_stage(other))
    with pytest.raises(BadInputError, match="has measurements of Stand-in A; those of Stand-in B"):
        plan_pair_stage(other)
    left = plan_solo_stage(request(tmp_path, "next", devices=["0"]))
    assert any("Left as it is" in remark for remark in left.remarks)
    result = whole_run(tmp_path, "anew", devices=["2"], again="everything")
    assert result["device"] == "Stand-in B"
    assert set(read_profile_set(Site(lake=str(tmp_path), cluster="c")).solo["device"]) == {"Stand-in B"}


def test_a_device_that_does_not_work_is_an_error_and_the_others_rows_stay(
    tmp_path: Path, machine: None
) -> None:
    asked = request(tmp_path, devices=["0", "3"], batch_minutes=120)
    good, bad = plan_solo_stage(asked).batches
    measure_batch(plan_uri=good["plan_uri"], table_uri=good["table_uri"], device="0")
    with pytest.raises(ServiceUnavailableError, match="fell off the bus"):
        measure_batch(plan_uri=bad["plan_uri"], table_uri=bad["table_uri"], device="3")
    done = measure_batch(plan_uri=bad["plan_uri"], table_uri=bad["table_uri"], device="0")
    assert done["measured"] == len(steps.read_plan(bad["plan_uri"]).plan.tasks)


@pytest.mark.slow
def test_profiles_alone_teach_nothing_and_leave_the_tables(tmp_path: Path, machine: None) -> None:
    ingest_profiles(Site(lake=str(tmp_path), cluster="c"), singles_uri=None, pairs_uri=None)
    before = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    asked = request(tmp_path, devices=["0"])
    measure(plan_solo_stage(asked))
    result = collect_measurements(asked)
    assert not result["stored"]
    assert result["solo_measured"] == len(asked.job_types)
    pd.testing.assert_frame_equal(read_profile_set(Site(lake=str(tmp_path), cluster="c")).solo, before.solo)


@pytest.mark.slow
def test_a_profile_of_the_same_device_stays_until_it_is_measured_anew(tmp_path: Path) -> None:
    ingest_profiles(Site(lake=str(tmp_path), cluster="c"), singles_uri=None, pairs_uri=None)
    before = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    result = whole_run(tmp_path, method={"repeats": 2})
    after = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    assert result["solo_measured"] < len(before.solo) == len(after.solo)
    assert len(after.pairs) == len(before.pairs)
    assert after.solo["job_type"].is_unique
    assert not after.pairs[["job_type_1", "job_type_2"]].duplicated().any()


@pytest.mark.slow
def test_a_later_ingest_without_files_keeps_what_was_measured(tmp_path: Path, machine: None) -> None:
    site, files = Site(lake=str(tmp_path), cluster="c"), {"singles_uri": None, "pairs_uri": None}
    assert not ingest_profiles(site, **files).kept
    assert not ingest_profiles(site, **files).kept  # simulated ones are made anew
    whole_run(tmp_path, devices=["0"])
    before = read_profile_set(Site(lake=str(tmp_path), cluster="c"))
    report = ingest_profiles(site, **files)
    assert report.kept
    assert not report.simulated
    pd.testing.assert_frame_equal(read_profile_set(Site(lake=str(tmp_path), cluster="c")).solo, before.solo)


@pytest.mark.slow
def test_pairs_may_be_ordered_by_what_the_model_does_not_know(tmp_path: Path) -> None:
    workloads = "PPO,ResNet50/ImageNet/64/*,BERT,DCGAN/LSUN/64/*,NeuMF"
    asked = request(tmp_path, workloads=workloads)
    measure(plan_solo_stage(asked))
    measure(plan_pair_stage(asked, most=60))
    collect_measurements(asked)
    by_order = {}
    for order in ("space-filling", "uncertainty"):
        (batch,) = plan_pair_stage(request(tmp_path, order, workloads=workloads), order=order).batches
        by_order[order] = [task.name for task in steps.read_plan(batch["plan_uri"]).plan.tasks]
    assert set(by_order["space-filling"]) == set(by_order["uncertainty"])
    assert by_order["space-filling"] != by_order["uncertainty"]
    with pytest.raises(UnknownNameError, match="alphabet"):
        plan_pair_stage(asked, order="alphabet")


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"devices": ["0", "simulated:0"]}, BadInputError, "must be of one kind"),
        ({"devices": []}, BadInputError, "none"),
        ({"devices": ["auto"]}, BadInputError, "There is no device 'auto'"),
        ({"workloads": "ResNet5000"}, UnknownNameError, "ResNet5000"),
        ({"method": {"window": 3}}, BadInputError, "no setting window"),
        ({"method": {"repeats": 0}}, BadInputError, "repeats is 0"),
        ({"again": "perhaps"}, UnknownNameError, "perhaps"),
    ],
)
def test_a_form_that_cannot_be_followed_is_refused(
    tmp_path: Path, asked: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        request(tmp_path, **asked)


def test_a_device_is_used_by_one_task_at_a_time() -> None:
    script = (
        "from pipeline.profiling.steps import only_user_of\n"
        "with only_user_of('simulated:77'):\n    print('mine', flush=True)\n    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "mine\n"
        said: list[str] = []

        def progress(done: int, total: int | None, what: str) -> None:
            said.append(what)
            other.stdin.write("\n")  # type: ignore[union-attr]
            other.stdin.flush()  # type: ignore[union-attr]

        with steps.only_user_of("simulated:77", progress):
            assert other.wait(60) == 0  # it gives the device back before it has ended
    assert said == ["waiting for device simulated:77"]
