"""Cores for workers: which are chosen, that workers run on them, and what the table says of their speed."""

import os
from pathlib import Path

import pytest

from profiler_jobs.devices import host_cores
from profiler_jobs.devices.device import DeviceWindow
from profiler_jobs.devices.host_cores import HostCores, bind_process, cores_of_gpu, one_thread_a_core
from profiler_jobs.devices.host_cpu import HostCpu
from profiler_jobs.devices.processes import ProcessDevice
from profiler_jobs.measurement_table import ADDED_LATER, read_measurements, write_measurements
from profiler_jobs.method import Method
from profiler_jobs.session import Session, measure
from profiler_jobs.summary import summarise
from profiler_jobs.workers.host_speed import mean_probe_s, probe_core
from profiler_jobs.workload_choice import choose_job_types
from profiler_jobs.workloads import all_job_types


def test_quick_cores_are_chosen_and_slow_ones_left():
    took_s = {0: 2.0, 1: 1.0, 2: 1.05, 3: 1.0}
    cores = HostCores(took_s, took_s.__getitem__)
    assert set(cores.choose(2)) <= {1, 2, 3}
    took_s.update({1: 1.9, 3: 2.1})
    assert cores.choose(1) == (2,)
    assert cores.choose(2) == (2, 1), "where too few are quick, the quickest"
    took_s[0] = 1.0
    assert set(cores.choose(2)) == {0, 2}, "what was slow is looked at again when it is needed"


def test_a_core_is_looked_at_only_when_it_may_be_needed():
    looked_at = []
    cores = HostCores(range(64), lambda core: looked_at.append(core) or 1.0)
    looked_at.clear()
    cores.choose(2)
    assert len(looked_at) == 2


def test_the_mean_of_a_window_is_that_of_the_speed():
    probes = [(0.5, 9.0), (1.0, 1.0), (1.5, 3.0), (2.0, 9.0)]
    assert mean_probe_s(probes, 1.0, 2.0) == pytest.approx(1.5)
    assert mean_probe_s(probes, 3.0, 4.0) == pytest.approx(18 / 7), "steps longer than the window"
    assert mean_probe_s([], 0.0, 1.0) is None
    ended_s, took = probe_core()
    assert 0 < took < ended_s


def test_a_process_that_has_ended_is_bound_to_nothing():
    bind_process(2**22 + 1, (0,))


def test_each_gpu_has_its_share_of_the_cores_and_few_are_left_to_the_kernel(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(host_cores, "one_thread_a_core", sorted)
    shares = [set(cores_of_gpu(position, 2).choose(4)) for position in (0, 1)]
    assert shares == [{0, 2, 4, 6}, {1, 3, 5, 7}]
    assert cores_of_gpu(0, 3) is not None
    assert cores_of_gpu(2, 3) is None, "two cores: one a worker, and none for the watching process"


def test_hardware_threads_of_one_core_count_once(tmp_path):
    for processor in range(6):
        folder = tmp_path / f"cpu{processor}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{processor % 3},{processor % 3 + 3}\n")
    assert one_thread_a_core(range(6), tmp_path) == [0, 1, 2]
    assert one_thread_a_core({1, 4, 5}, tmp_path) == [1, 5]
    assert one_thread_a_core({7, 8}, tmp_path) == [7, 8], "the topology is unknown"


def test_where_binding_is_refused_nothing_is_bound(monkeypatch):
    def refused(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "sched_setaffinity", refused)
    assert cores_of_gpu(0, 1) is None


@pytest.mark.thorough("PyTorch")
@pytest.mark.slow
def test_workers_run_on_cores_of_their_own_and_say_how_quick_these_are(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("one core")
    job_types = choose_job_types("NeuMF/*/64/0,VGG/*/32/0", all_job_types())
    cores = HostCores(allowed[:2])
    seen = []

    def look(records):
        for entry in Path("/proc").glob("[0-9]*/task/[0-9]*/children"):
            seen.extend(
                frozenset(os.sched_getaffinity(int(child)))
                for child in entry.read_text().split()
                if b"fork_server" in Path(f"/proc/{child}/cmdline").read_bytes()
            )
        return ()

    with ProcessDevice(HostCpu(), catalogue="tiny_workloads", settle_s=0.05, cores=cores) as device:
        windows = [DeviceWindow((0,), 0.3), DeviceWindow((0, 1), 0.3)]
        alone, both = device.run(job_types, windows, warmup_s=0.0, then=look)
        session = Session(device, str(tmp_path / "t.parquet"), Method(window_s=0.2, repeats=2, warmup_s=0.0))
        measure(session, job_types[:1])
    assert {frozenset({core}) for core in allowed[:2]} <= set(seen)
    assert sorted(os.sched_getaffinity(0)) == allowed, "the watching process is bound to none"
    first, second = alone.host_probes_s
    assert first > 0
    assert second is None
    assert all(probe_s > 0 for probe_s in both.host_probes_s)
    rows = read_measurements(session.table_uri)
    assert (rows["host_probe_1_us"] > 10).all()
    assert rows["host_probe_2_us"].isna().all()


def test_a_refusal_says_how_much_the_cores_varied():
    rows = read_measurements("docs/measurements/nvidia_h100.parquet")
    reasons = dict(summarise(rows).rejected[["task", "reason"]].to_numpy())
    assert reasons["TD3/BipedalWalker/64/0"] == (
        "speeds vary by 36.0% between 3 repeats, more than 5.0% (the host's own cores by 18.7%)"
    )


def test_older_tables_do_not_tell_and_are_read(tmp_path):
    rows = read_measurements("docs/measurements/nvidia_h200.parquet")
    assert rows[list(ADDED_LATER)].isna().all(axis=None)
    assert "host" not in "".join(summarise(rows).rejected["reason"])
    write_measurements(str(tmp_path / "t.parquet"), rows)
    assert read_measurements(str(tmp_path / "t.parquet")).equals(rows)
