"""The commands' contract: names, options and what they say with --json; scripts depend on them."""

import csv
import gzip
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.reference import ROOT

JOB_COLUMNS = {
    "job_id",
    "virtual_cluster",
    "gpus",
    "submit_time_s",
    "first_start_time_s",
    "end_time_s",
    "queuing_delay_s",
    "jct_s",
    "preemptions",
}
SUMMARY_KEYS = {
    "policy",
    "jobs",
    "mean_jct_s",
    "mean_queuing_delay_s",
    "p999_queuing_delay_s",
    "makespan_s",
    "preemptions",
    "cpu_s",
    "jobs_per_cpu_s",
}


def reference_csv(path: Path, jobs: int = 60) -> Path:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["job_id", "virtual_cluster", "gpus", "submit_time", "duration_s", "estimated_duration_s"]
        )
        for i in range(jobs):
            submit = (start + timedelta(seconds=37 * i)).strftime("%Y-%m-%d %H:%M:%S")
            rows.writerow([f"j{i}", f"vc{i % 2}", 1 + i % 8, submit, 600 + 13 * (i % 11), 500 + 17 * (i % 7)])
    return path


@pytest.mark.slow
def test_synthesize_validate_and_simulate_from_the_written_log(lucid, tmp_path):
    made = lucid(
        "synthesize",
        "--like",
        "helios-venus",
        "--days",
        2,
        "--seed",
        3,
        "--lake",
        "lake",
        "--out",
        "log.csv",
        "--format",
        "helios",
        "--json",
    )
    assert made.code == 0, made.err
    document = made.json
    assert document["jobs"] > 1000
    assert document["virtual_clusters"] > 1
    assert document["statistics"]

    checked = lucid("validate", "--lake", "lake", "--cluster", document["cluster"], "--json")
    assert checked.code == 0, checked.err
    assert checked.json["success"] is True
    assert checked.json["expectations"]
    assert Path(checked.json["docs"].removeprefix("file://")).is_file()

    again = lucid(
        "ingest", "--format", "helios", "--input", "log.csv", "--cluster", "again", "--lake", "lake", "--json"
    )
    assert again.code == 0, again.err
    assert again.json["rows_in"] == again.json["rows_kept"] == document["jobs"]


@pytest.mark.slow
def test_ingesting_twice_changes_nothing(lucid, tmp_path):
    log = reference_csv(tmp_path / "log.csv")
    arguments = (
        "ingest",
        "--format",
        "reference-csv",
        "--input",
        log,
        "--cluster",
        "c",
        "--lake",
        "lake",
        "--json",
    )
    first = lucid(*arguments).json
    before = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    second = lucid(*arguments).json
    after = {path: path.read_bytes() for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    assert first == second
    assert before
    assert before == after


@pytest.mark.slow
def test_simulate_writes_what_the_contract_says(lucid, tmp_path):
    log = reference_csv(tmp_path / "log.csv")
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nvc0,2\nvc1,3\n")
    policies = ["fifo", "sjf", "srtf", "qssf", "tiresias", "lucid"]
    said = lucid(
        "simulate",
        "--jobs",
        log,
        "--format",
        "reference-csv",
        "--nodes",
        "nodes.csv",
        "--gpus-per-node",
        8,
        *(word for policy in policies for word in ("--policy", policy)),
        "--out",
        "out",
        "--json",
    )
    assert said.code == 0, said.err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [row["policy"] for row in summary] == [row["policy"] for row in said.json] == policies
    for row in summary:
        assert set(row) >= SUMMARY_KEYS
        with (tmp_path / "out" / f"jobs_{row['policy']}.csv").open() as file:
            jobs = list(csv.DictReader(file))
        assert set(jobs[0]) >= JOB_COLUMNS
        assert len(jobs) == row["jobs"] == 60
        mean = sum(float(job["jct_s"]) for job in jobs) / len(jobs)
        assert mean == pytest.approx(row["mean_jct_s"])
    assert not list((tmp_path / "out").glob("*.png"))  # none is asked for


def test_one_pool_of_gpus(lucid, tmp_path):
    log = reference_csv(tmp_path / "log.csv")
    said = lucid(
        "simulate",
        "--jobs",
        log,
        "--format",
        "reference-csv",
        "--gpus",
        16,
        "--policy",
        "fifo",
        "--out",
        "out",
        "--json",
    )
    assert said.json[0]["jobs"] == 60


@pytest.mark.reference
@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_per_job_results_equal_the_reference_simulator(lucid, tmp_path, policy):
    folder = ROOT / "reference" / "lucid"
    said = lucid(
        "simulate",
        "--jobs",
        folder / "week_jobs.csv.gz",
        "--format",
        "reference-csv",
        "--nodes",
        folder / "week_nodes.csv",
        "--policy",
        policy,
        "--out",
        "out",
        "--json",
    )
    assert said.code == 0, said.err
    with gzip.open(folder / f"week_{policy}.csv.gz", "rt") as file:
        expected = {row["job_id"]: float(row["start_time"]) for row in csv.DictReader(file)}
    with (tmp_path / "out" / f"jobs_{policy}.csv").open() as file:
        found = {row["job_id"]: float(row["first_start_time_s"]) for row in csv.DictReader(file)}
    assert found.keys() == expected.keys()
    assert max(abs(found[job] - expected[job]) for job in expected) <= 2


@pytest.mark.reference
def test_the_philly_window_is_in_the_logs_own_zone(lucid, tmp_path):
    data = ROOT / "data" / "philly"
    said = lucid(
        "simulate",
        "--jobs",
        data / "philly_jobs.csv.gz",
        "--format",
        "philly-csv",
        "--nodes",
        data / "philly_vc_nodes.csv",
        "--start",
        "2017-10-01",
        "--end",
        "2017-10-07T23:59:00",
        "--policy",
        "fifo",
        "--out",
        "out",
        "--json",
    )
    assert said.code == 0, said.err
    assert said.json[0]["jobs"] == 10_650  # what the reference simulators replayed
    assert said.json[0]["mean_jct_s"] == pytest.approx(8118.0, rel=1e-3)


def test_help_is_quick_and_imports_no_heavy_library():
    code = (
        "import sys; from lucid_cli.main import app; "
        "heavy = {'pandas', 'mlflow', 'sklearn', 'interpret', 'airflow', 'great_expectations', 'pyarrow', "
        "'typer.rich_utils'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "[]"


def test_a_queue_is_ranked_without_a_server_and_says_so(lucid, tmp_path):
    (tmp_path / "queue.csv").write_text(
        "job_id,user,virtual_cluster,name,gpus,submit_time\n"
        "late,u,vc,train,1,2024-01-01T00:09:00\nearly,u,vc,train,8,2024-01-01T00:01:00\n"
    )
    words = ("live", "rank", "--queue", "queue.csv", "--tracking-uri", "http://127.0.0.1:9")
    said = lucid(*words, "--json")
    assert said.code == 0, said.err
    assert [job["job_id"] for job in said.json["jobs"]] == ["early", "late"]  # first in, first out
    assert "fallback" in said.json["release"]
    assert {"job_id", "priority", "estimated_duration_s", "reason"} <= set(said.json["jobs"][0])
    assert lucid(*words).out.lower().count("first in") == 1  # not again for each job


def test_a_window_keeps_its_jobs_and_names_the_rule_for_the_rest(lucid, tmp_path):
    log = reference_csv(tmp_path / "log.csv")  # one job every 37 s from midnight on
    arguments = (
        "ingest",
        "--format",
        "reference-csv",
        "--input",
        log,
        "--cluster",
        "c",
        "--lake",
        "lake",
        "--json",
    )
    window = ("--start", "2024-01-01T00:00:37", "--end", "2024-01-01T00:03:05")
    report = lucid(*arguments, *window).json
    assert (report["rows_in"], report["rows_kept"]) == (60, 4)  # 37, 74, 111, 148 s; 185 s is the end
    assert report["reasons"] == {"outside_window": 56}
    rest = lucid(*arguments).json
    assert rest["rows_kept"] == 60
    assert lucid(*arguments, "--start", "2024-02-01", "--end", "2024-01-01").code == 1
