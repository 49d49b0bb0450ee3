"""`lucid sweep` as people run it: in parallel, interrupted, with runs that fail."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pyarrow.fs as pafs
import pytest

from cluster_logs.job_table import JOB_SCHEMA, conform, to_frame
from cluster_logs.lake import Lake
from foundation.errors import BadInputError, UnknownNameError
from pipeline.replay.cluster_events import ClusterEvents, one_pool
from pipeline.studies.sweeps.inputs import SweepInputs, load_inputs, store_inputs
from pipeline.studies.sweeps.report import SweepFailedError, collect_sweep
from pipeline.studies.sweeps.run import RunReplayer, execute_run, noisy_estimates_s, scaled_sizes
from pipeline.studies.sweeps.runs import SweepRun, expand
from pipeline.studies.sweeps.spec import SweepSpec
from pipeline.studies.sweeps.sweep import SweepPlan, pending, plan_sweep, run_pending
from simulator.workload.job import Job
from simulator.workload.workload import Workload
from tests.fixtures import small_jobs, small_profiles
from tests.lucid_cli.test_cli_contract import reference_csv
from tests.waiting import PATIENCE_S


@pytest.fixture
def inputs() -> SweepInputs:
    solo, pairs = small_profiles()
    sizes = one_pool(8).assign(virtual_cluster="vc", nodes=6)
    jobs = to_frame(conform(small_jobs(400).assign(cluster="c"), JOB_SCHEMA, what="job table"))
    return SweepInputs(jobs, sizes, job_types="drawn", solo=solo, pairs=pairs)


def sweep_arguments(folder: Path, out: str, *more: object) -> list[str]:
    log = folder / "log.csv"
    if not log.exists():
        reference_csv(log, jobs=60)
        (folder / "nodes.csv").write_text("virtual_cluster,nodes\nvc0,1\nvc1,2\n")
    words = ["sweep", "--jobs", log, "--format", "reference-csv", "--nodes", folder / "nodes.csv"]
    return [str(word) for word in [*words, "--out", folder / out, *more]]


@pytest.mark.slow
def test_the_table_of_a_sweep(lucid, tmp_path):
    varied = ("--policy", "fifo", "lucid", "--setting", "lucid.profiling_limit_s=60,100", "--seed", "0,1")
    said = lucid(*sweep_arguments(tmp_path, "out", *varied, "--workers", 1, "--json"))
    assert said.code == 0, said.err
    assert (said.json["runs"], said.json["executed"], said.json["reused"], said.json["failed"]) == (
        6,
        6,
        0,
        0,
    )
    assert "6 of 6 runs" in said.err
    assert "jobs/s" in said.err
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["policy"], row["lucid.profiling_limit_s"], row["seed"]) for row in rows] == [
        ("fifo", "", "0"),
        ("fifo", "", "1"),
        ("lucid", "60", "0"),
        ("lucid", "60", "1"),
        ("lucid", "100", "0"),
        ("lucid", "100", "1"),
    ]
    assert {row["status"] for row in rows} == {"ok"}
    parquet = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert parquet["mean_jct_s"].tolist() == [float(row["mean_jct_s"]) for row in rows]
    assert [row["mean_jct_s"] for row in said.json["rows"]] == parquet["mean_jct_s"].tolist()
    for name in ("sweep_policies.png", "sweep_lucid.profiling_limit_s.png"):
        assert (tmp_path / "out" / name).stat().st_size > 5_000
    alone = lucid("simulate", *sweep_arguments(tmp_path, "one", "--policy", "fifo", "--json")[1:])
    assert parquet["mean_jct_s"][0] == alone.json[0]["mean_jct_s"]  # as `lucid simulate` says


@pytest.mark.slow
def test_again_computes_nothing_and_more_computes_what_is_new(lucid, tmp_path):
    first = lucid(*sweep_arguments(tmp_path, "out", "--policy", "fifo,sjf", "--workers", 1, "--json"))
    table = (tmp_path / "out" / "results.csv").read_bytes()
    again = lucid(*sweep_arguments(tmp_path, "out", "--policy", "fifo,sjf", "--workers", 1, "--json"))
    assert (first.json["executed"], again.json["executed"], again.json["reused"]) == (2, 0, 2)
    assert (tmp_path / "out" / "results.csv").read_bytes() == table
    fresh = lucid(
        *sweep_arguments(tmp_path, "out", "--policy", "fifo,sjf", "--fresh", "--workers", 1, "--json")
    )
    assert (fresh.json["executed"], fresh.json["reused"]) == (2, 0)
    assert (tmp_path / "out" / "results.csv").read_bytes() == table
    manifest = json.loads((tmp_path / "out" / "run_manifest.json").read_text())
    assert "--fresh" in manifest["command"]
    assert len(manifest["settings"]) == 2
    more = lucid(*sweep_arguments(tmp_path, "out", "--policy", "fifo,sjf,srtf", "--workers", 1, "--json"))
    assert (more.json["executed"], more.json["reused"]) == (1, 2)
    (tmp_path / "log.csv").unlink()
    reference_csv(tmp_path / "log.csv", jobs=50)  # another workload: nothing of the old one is reused
    other = lucid(*sweep_arguments(tmp_path, "out", "--policy", "fifo,sjf", "--workers", 1, "--json"))
    assert (other.json["executed"], other.json["reused"]) == (2, 0)


@pytest.mark.slow
def test_a_run_that_fails_is_a_row_and_the_others_go_on(lucid, tmp_path):
    varied = ("--policy", "fifo", "lucid", "--setting", "lucid.profiling_limit_s=-1,60", "--workers", 1)
    said = lucid(*sweep_arguments(tmp_path, "out", *varied, "--json"))
    assert said.code == 1
    assert said.json["failed"] == 1
    rows = {(row["policy"], row["lucid.profiling_limit_s"]): row for row in said.json["rows"]}
    assert rows["lucid", -1]["status"] == "failed"
    assert "profiling_limit_s is -1" in rows["lucid", -1]["error"]
    assert rows["lucid", 60]["status"] == rows["fifo", None]["status"] == "ok"
    assert "1 of 3 runs" in said.err.splitlines()[-1]
    again = lucid(*sweep_arguments(tmp_path, "out", *varied, "--json"))
    assert (again.code, again.json["executed"], again.json["reused"]) == (
        1,
        1,
        2,
    )  # failed runs are tried again


@pytest.mark.parametrize(
    "words", [("--policy", "fifo", "--setting", "fifo.speed=1"), ("--policy", "no-such"), ("--policy",)]
)
def test_a_wrong_name_is_an_error_before_anything_is_written(lucid, tmp_path, words):
    said = lucid(*sweep_arguments(tmp_path, "out", *words))
    assert said.code != 0
    assert not (tmp_path / "out").exists()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.mark.slow
def test_a_killed_sweep_goes_on_and_gives_the_same_table(lucid, tmp_path):
    """kill -9 in mid-sweep: what is done counts, nothing is half written, no worker stays behind."""
    reference_csv(tmp_path / "log.csv", jobs=400)  # long enough to be killed in the middle
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nvc0,3\nvc1,4\n")
    varied = ("--policy", "fifo", "srtf", "--seed", "0:20", "--estimate-noise", "1")
    command = [sys.executable, "-m", "lucid_cli.main"]
    interrupted = sweep_arguments(tmp_path, "killed", *varied, "--workers", 2, "--json")
    process = subprocess.Popen(
        [*command, *interrupted], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    runs = tmp_path / "killed" / "runs"
    deadline = time.monotonic() + PATIENCE_S
    while len(list(runs.glob("*.json")) if runs.exists() else []) < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None, "it was over before it could be killed"
        time.sleep(0.002)
    workers = children_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=PATIENCE_S)
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker stayed behind"
        time.sleep(0.01)
    done = len(list(runs.glob("*.json")))
    assert 3 <= done < 40
    assert not (tmp_path / "killed" / "results.csv").exists()

    resumed = lucid(*sweep_arguments(tmp_path, "killed", *varied, "--workers", 1, "--json")).json
    assert (resumed["reused"], resumed["executed"]) == (done, 40 - done)
    lucid(*sweep_arguments(tmp_path, "straight", *varied, "--workers", 1, "--json"))
    for name in ("results.csv", "results.parquet", "sweep_policies.png"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def children_of(pid: int) -> list[int]:
    listing = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listing.stdout.split()]


@pytest.mark.slow
def test_a_run_under_way_is_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("LUCID_ENGINE", "python")  # machine code is through before there is anything to tell
    jobs = to_frame(conform(small_jobs(12_000).assign(cluster="c"), JOB_SCHEMA, what="job table"))
    slow = SweepInputs(jobs, one_pool(8).assign(virtual_cluster="vc", nodes=40))
    plan = plan_sweep(slow, expand(["fifo", "tiresias"]), str(tmp_path))
    reported: list[tuple[int, int | None, str]] = []
    executed = run_pending(plan, progress=lambda *report: reported.append(report))
    assert (executed.runs, executed.failed, executed.jobs) == (2, 0, 24_000)
    assert reported[-1] == (24_000, 24_000, "2 runs")
    jobs_done = [done for done, _, _ in reported]
    assert any(0 < done < 12_000 for done in jobs_done)  # within the first run
    assert any(12_000 < done < 24_000 for done in jobs_done)
    assert jobs_done == sorted(jobs_done)
    assert {total for done, total, _ in reported if done} == {24_000}


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_run_only(inputs, tmp_path, monkeypatch):
    fixed = SweepInputs(inputs.jobs, inputs.sizes)
    plan = plan_sweep(fixed, expand(["fifo", "srtf"], seeds=range(8)), str(tmp_path))
    killed: list[object] = []

    def kill_one(done_jobs: int, total_jobs: int | None, what: str) -> None:
        if total_jobs and done_jobs >= total_jobs / 10 and not killed:
            ours = [
                one for one in psutil.Process().children() if "worker_processes" in " ".join(one.cmdline())
            ]
            victim = ours[-1]
            killed.append(victim)
            victim.kill()

    executed = run_pending(plan, workers=2, progress=kill_one)
    table = collect_sweep(plan, figures=False).table
    assert killed
    lost = table[table["status"] == "failed"]
    assert len(lost) <= 1  # none when the worker was between two runs
    assert all("signal 9" in error for error in lost["error"])
    assert len(table[table["status"] == "ok"]) == 16 - len(lost)
    assert (executed.runs, executed.failed) == (16, len(lost))
    assert len(pending(plan)) == len(lost)


def test_seeds_draw_what_is_random_and_nothing_else(inputs):
    replayer = RunReplayer(inputs)
    drawn = [replayer.workload(SweepRun("lucid", seed=seed)) for seed in (0, 1, 0)]
    types = [[job.profile.job_type for job in workload.jobs] for workload in drawn]
    assert types[0] == types[2] != types[1]
    assert all(job.profile.sharing_score in (0, 1, 2) for job in drawn[0].jobs)
    noisy = [replayer.workload(SweepRun("qssf", seed=seed, estimate_noise=0.5)) for seed in (0, 1)]
    assert [job.estimated_duration_s for job in noisy[0].jobs] != [
        job.estimated_duration_s for job in noisy[1].jobs
    ]
    assert [job.duration_s for job in noisy[0].jobs] == [job.duration_s for job in noisy[1].jobs]
    exact = replayer.workload(SweepRun("qssf", seed=5, estimate_noise=0.0))
    assert all(job.estimated_duration_s == max(1.0, job.duration_s) for job in exact.jobs)


def test_noise_is_lognormal_and_grows_from_the_same_numbers(inputs):
    workload = Workload(tuple(Job(str(i), "vc", None, 1, float(i), 1e6) for i in range(20_000)), {})
    logs = {s: np.log(noisy_estimates_s(workload, 20_000, s, seed=1) / 1e6) for s in (0.5, 1.0)}
    assert abs(logs[1.0].mean()) < 0.03
    assert logs[1.0].std() == pytest.approx(1, rel=0.03)
    assert logs[1.0] == pytest.approx(2 * logs[0.5])


def test_noise_stays_with_its_row_whichever_jobs_are_replayed(inputs):
    """A job without a usable run time is not replayed; the other jobs' noise is what it was."""
    run = SweepRun("qssf", seed=2, estimate_noise=1.0)
    whole = {job.job_id: job.estimated_duration_s for job in RunReplayer(inputs).workload(run).jobs}
    jobs = inputs.jobs.copy()
    jobs.loc[::3, "duration_s"] = np.nan
    part = {
        job.job_id: job.estimated_duration_s
        for job in RunReplayer(SweepInputs(jobs, inputs.sizes)).workload(run).jobs
    }
    assert len(part) == 266
    assert part == {job: whole[job] for job in part}


def test_scaled_clusters(inputs):
    assert [scaled_sizes(inputs.sizes, factor)["nodes"].item() for factor in (0.5, 0.25, 0.01)] == [3, 2, 1]
    assert scaled_sizes(inputs.sizes.assign(nodes=0), 2.0)["nodes"].item() == 0
    assert scaled_sizes(one_pool(8), 4.0, one_pool=True)["gpus_per_node"].item() == 32
    assert RunReplayer(inputs).record(SweepRun("fifo", node_scale=2.0))["figures"]["total_gpus"] == 96
    pool = SweepInputs(inputs.jobs, one_pool(8))
    record = RunReplayer(pool).record(SweepRun("fifo", node_scale=4.0))
    assert (record["figures"]["total_gpus"], record["figures"]["jobs"]) == (32, 400)


def test_failures_are_drawn_with_the_seed(inputs):
    replayer = RunReplayer(
        SweepInputs(inputs.jobs, inputs.sizes, events=ClusterEvents(failure_mtbf_hours=24.0))
    )
    suffered = [
        replayer.record(SweepRun("fifo", seed=seed))["figures"]["node_failures_suffered"]
        for seed in (0, 1, 0)
    ]
    assert suffered[0] == suffered[2] > 0
    assert suffered[0] != suffered[1]


def test_inputs_come_back_as_they_were_stored(inputs, tmp_path):
    uri = store_inputs(inputs, str(tmp_path))
    again = load_inputs(uri)
    assert again.sha256 == inputs.sha256
    run = SweepRun("lucid", seed=1)
    here, there = RunReplayer(inputs).record(run), execute_run(uri, run)
    assert here["run_id"] == there["run_id"]
    assert here["figures"]["mean_jct_s"] == there["figures"]["mean_jct_s"]
    before = {file: file.stat().st_mtime_ns for file in Path(uri).iterdir()}
    assert store_inputs(inputs, str(tmp_path)) == uri
    assert {file: file.stat().st_mtime_ns for file in Path(uri).iterdir()} == before


def test_a_sweep_in_an_object_store(inputs):
    """Any storage that the lake can live in: here fsspec's memory."""
    plan = plan_sweep(inputs, expand(["fifo", "sjf"]), "memory://sweeps/one")
    run_pending(plan)
    again = SweepPlan.load("memory://sweeps/one")
    assert again == plan
    assert not pending(again)
    report = collect_sweep(again)
    report.raise_for_failure()
    from foundation.storage import locate

    fs, folder = locate("memory://sweeps/one")
    assert fs.get_file_info(f"{folder}/results.parquet").type == pafs.FileType.File
    assert [Path(uri).name for uri in report.figures] == ["sweep_policies.png"]


def test_a_policy_that_breaks_is_a_row(inputs, tmp_path, monkeypatch):
    """What a policy of somebody else may do."""
    import simulator.policies.fifo as fifo

    def broken(self, snapshot):
        raise ZeroDivisionError("nobody tested this")

    monkeypatch.setattr(fifo.Fifo, "decide", broken)
    monkeypatch.setenv("LUCID_ENGINE", "python")
    plan = plan_sweep(inputs, expand(["fifo", "sjf"]), str(tmp_path))
    executed = run_pending(plan)
    assert (executed.runs, executed.failed) == (2, 1)
    report = collect_sweep(plan)
    assert report.table["status"].tolist() == ["failed", "ok"]
    assert "ZeroDivisionError: nobody tested this (broken" in report.table["error"][0]
    with pytest.raises(SweepFailedError, match="1 of 2 runs"):
        report.raise_for_failure()


def test_seeds_that_change_nothing_are_remarked_on(inputs, tmp_path):
    fixed = SweepInputs(inputs.jobs, inputs.sizes)
    assert "random" in plan_sweep(fixed, expand(["fifo"], seeds=[0, 1]), str(tmp_path)).remarks[0]
    assert not plan_sweep(fixed, expand(["fifo"]), str(tmp_path)).remarks
    assert not plan_sweep(inputs, expand(["fifo"], seeds=[0, 1]), str(tmp_path)).remarks


def test_a_file_says_what_to_sweep_and_options_stand_above_it(lucid, tmp_path):
    reference_csv(tmp_path / "log.csv", jobs=20)
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nvc0,1\nvc1,2\n")
    (tmp_path / "sweep.toml").write_text(
        """
        jobs = "log.csv"
        format = "reference-csv"
        nodes = "nodes.csv"
        start = 2024-01-01T00:01:00
        policies = ["fifo", "lucid"]
        seeds = [0, 1]
        [settings.lucid]
        profiling_limit_s = [60, 100]
        sharing = "none"
        [[variants]]
        policy = "lucid"
        settings = { profiling_nodes = 0 }
        [[variants]]
        policy = "sjf"
        """
    )
    said = lucid("sweep", "--spec", "sweep.toml", "--out", "out", "--seed", 3, "--workers", 1, "--json")
    assert said.code == 0, said.err
    assert [(row["policy"], row["seed"], row["jobs"]) for row in said.json["rows"]] == [
        ("fifo", 3, 18),
        ("lucid", 3, 18),
        ("lucid", 3, 18),
        ("lucid", 3, 18),
        ("sjf", 3, 18),
    ]
    assert [row["lucid.profiling_nodes"] for row in said.json["rows"]] == [None, None, None, 0, None]
    assert [row["lucid.sharing"] for row in said.json["rows"]] == [None, "none", "none", None, None]


@pytest.mark.slow
def test_a_cluster_of_the_lake(lucid, inputs, tmp_path):
    lake = Lake(str(tmp_path / "lake"))
    lake.write_jobs("tiny", inputs.jobs)
    nodes = pd.DataFrame({"virtual_cluster": ["vc"], "nodes": [6], "gpus_per_node": [8], "date": [None]})
    lake.write_nodes("tiny", nodes)
    words = ("sweep", "--cluster", "tiny", "--lake", tmp_path / "lake", "--policy", "fifo", "--out", "out")
    said = lucid(*words, "--workers", 1, "--json")
    assert said.code == 0, said.err
    assert "simulated GPU" in said.err  # nobody stored profiles
    alone = RunReplayer(SweepInputs(inputs.jobs, inputs.sizes)).record(SweepRun("fifo"))
    assert said.json["rows"][0]["mean_jct_s"] == alone["figures"]["mean_jct_s"]
    both = lucid(*words, "--gpus", 8)
    assert both.code == 1
    assert "takes everything from the lake" in both.err


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("policy = ['fifo']", UnknownNameError, "policies"),
        ("seeds = [0.5]", BadInputError, "seeds is"),
        ("settings = 3", BadInputError, "settings is"),
        ("gpus = 0", BadInputError, "gpus is 0"),
        ("variants = [{ name = 'x' }]", BadInputError, "variants is"),
        ("job_types = 'guessed'", BadInputError, "drawn"),
        ("jobs = ", BadInputError, "cannot be read"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path, text, error, said):
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    with pytest.raises(error, match=said):
        SweepSpec.from_toml(file)
