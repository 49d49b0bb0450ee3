"""`lucid simulate` shows what happened (timeline, waits, plots) and replays what happens to nodes."""

import csv
import gzip
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cluster_logs.lake import Lake

START = datetime(2024, 1, 1, tzinfo=UTC)


def write_log(path: Path, rows) -> Path:
    """Write (id, user, vc, gpus, cpus, state, submit, start, end), times in s from START, as Helios does."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        names = "job_id user vc gpu_num cpu_num node_num state submit_time start_time end_time duration queue"
        out.writerow(names.split())
        for job, user, vc, gpus, cpus, state, submit, start, end in rows:
            ran = "" if start is None else end - start
            out.writerow([job, user, vc, gpus, cpus, 1, state, *map(clock, (submit, start, end)), ran, ""])
    return path


def clock(second):
    """On Helios's clock, 8 hours ahead of UTC."""
    if second is None:
        return ""
    return f"{START + timedelta(hours=8, seconds=second):%Y-%m-%d %H:%M:%S}"


ROWS = [
    ("first", "ann", "vc0", 8, 16, "COMPLETED", 0, 0, 3600),
    ("second", "bob", "vc0", 8, 16, "COMPLETED", 60, 3600, 3700),
    ("gone", "bob", "vc0", 8, 16, "CANCELLED", 120, None, 600),
    ("other", "cyd", "vc1", 4, 8, "COMPLETED", 30, 30, 900),
    ("cpu", "ann", "vc1", 0, 6, "COMPLETED", 10, 10, 100),
]


@pytest.fixture
def simulate(lucid, tmp_path):
    log = write_log(tmp_path / "log.csv", ROWS)
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nvc0,1\nvc1,1\n")

    def run(*more, nodes="nodes.csv", policies=("fifo",)):
        size = () if nodes is None else ("--nodes", nodes)
        return lucid(
            "simulate",
            "--jobs",
            log,
            "--format",
            "helios",
            *size,
            "--out",
            "out",
            "--policy",
            *policies,
            *more,
        )

    return run


def rows_of(path):
    with path.open() as file:
        return {row["job_id"]: row for row in csv.DictReader(file)}


def test_timeline_waits_and_plots_of_each_policy(simulate, tmp_path):
    said = simulate("--timeline", "--waits", "--plot", "--json", policies=("fifo", "sjf"))
    assert said.code == 0, said.err
    assert [row["policy"] for row in said.json] == ["fifo", "sjf"]
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        "jobs_fifo.csv",
        "jobs_sjf.csv",
        "summary.json",
        "timeline_fifo.json.gz",
        "timeline_sjf.json.gz",
        "waits_fifo.csv",
        "waits_sjf.csv",
        "jct_cdf.png",
        "queuing_cdf.png",
        "queuing_delay_by_virtual_cluster.png",
        "usage.png",
        "waits.png",
    }
    assert said.json[0]["mean_waits_s"]["waited_for_gpus_s"] == 3540 / 3
    trace = json.loads(gzip.decompress((out / "timeline_fifo.json.gz").read_bytes()))
    runs = {e["args"]["job"]: e["args"] for e in trace["traceEvents"] if "start_s" in e.get("args", {})}
    assert {job: (run["start_s"], run["end_s"]) for job, run in runs.items()} == {
        "first": (0.0, 3600.0),
        "second": (3600.0, 3700.0),
        "other": (30.0, 900.0),
    }
    assert trace["otherData"]["policy"] == "fifo"
    assert trace["otherData"]["second_0"] == "2024-01-01T00:00:00+00:00"
    waits = rows_of(out / "waits_fifo.csv")
    assert float(waits["second"]["waited_for_gpus_s"]) == float(waits["second"]["queuing_delay_s"]) == 3540.0
    assert waits["second"]["released_by"] == "first"
    assert float(waits["gone"]["queuing_delay_s"]) == 480.0


def test_only_what_is_asked_for_is_written(simulate, tmp_path):
    assert simulate("--no-plot", "--json").code == 0
    written = {"jobs_fifo.csv", "summary.json"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == written
    shutil.rmtree(tmp_path / "out")
    assert simulate("--no-plot", "--json", "--waits").code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*written, "waits_fifo.csv"}


def test_why_in_words_and_as_json(simulate):
    said = simulate("--no-plot", "--why", "second", "gone")
    assert said.code == 0, said.err
    assert "second (8 GPUs, virtual cluster vc0) waited 59 min." in said.out
    assert "It could start when first ended." in said.out
    assert "What jobs waited for, on average" in said.out
    # 3540 s over the three jobs that ran
    assert ["fifo", "19 min 40 s", *["0 s"] * 5] in [
        [cell.strip() for cell in line.strip("│\n").split("│")] for line in said.out.splitlines()
    ]
    assert "gone (8 GPUs, virtual cluster vc0) waited 8 min, and was withdrawn before it started." in said.out
    row = simulate("--no-plot", "--why", "second", "--json").json[0]["why"][0]
    assert row["waited_for_gpus_s"] == 3540.0
    assert row["sentences"][0].startswith("second (8 GPUs")


@pytest.mark.parametrize(("job", "named"), [("nobody", "not in the log"), ("cpu", "not replayed")])
def test_a_job_that_cannot_be_explained(simulate, job, named):
    said = simulate("--why", job)
    assert said.code == 1
    assert named in said.err


def test_a_part_of_the_timeline(simulate, tmp_path):
    said = simulate("--timeline-from", clock(600), "--timeline-until", clock(1200), "--no-plot", "--json")
    assert said.code == 0, said.err
    trace = json.loads(gzip.decompress((tmp_path / "out" / "timeline_fifo.json.gz").read_bytes()))
    spans = {(e["ts"] / 1e6, e["dur"] / 1e6) for e in trace["traceEvents"] if e["ph"] == "X"}
    assert spans == {(600.0, 600.0), (600.0, 300.0)}


def test_a_bounded_timeline_says_where_it_ends(simulate):
    said = simulate("--timeline", "--timeline-slices", 3, "--no-plot", "--json")
    assert "The timeline of fifo ends at 900 s" in said.err


def test_withdrawn_and_cpu_jobs_reach_the_simulator(simulate, tmp_path):
    said = simulate("--no-plot", "--json")
    assert (said.json[0]["left_waiting"], said.json[0]["would_have_started"]) == (1, 0)
    assert said.json[0]["jobs"] == said.json[0]["completed_jobs"] == 3
    assert "Jobs that left the log's queue without a run: 1; they leave when they did" in said.err
    ran = simulate("--no-plot", "--json", "--withdrawn", "run")
    # It waited for 480 s; its user's last run took 100 s, after it was submitted.
    assert (ran.json[0]["left_waiting"], ran.json[0]["withdrawn_that_ran"]) == (0, 1)
    assert "they run as they are estimated" in ran.err
    said = simulate("--no-plot", "--json")
    assert said.json[0]["skipped"] == {"cpu_job": 1}
    with_cores = simulate("--cpu-cores-per-node", 8, "--no-plot", "--json").json[0]
    assert with_cores["cpu_jobs"] == 1
    assert not with_cores["skipped"]
    assert set(rows_of(tmp_path / "out" / "jobs_fifo.csv")) == {row[0] for row in ROWS}


def test_nodes_that_come_later(simulate, tmp_path):
    (tmp_path / "grow.csv").write_text(
        f"virtual_cluster,nodes,from\nvc0,1,\nvc0,2,{clock(1000)}\nvc1,1,\nvc2,1,{clock(90)}\n"
    )
    said = simulate("--no-plot", "--json", nodes="grow.csv")
    assert said.code == 0, said.err
    jobs = rows_of(tmp_path / "out" / "jobs_fifo.csv")
    assert float(jobs["second"]["first_start_time_s"]) == 1000.0


def test_nodes_of_the_lake_day_by_day(simulate, lucid, tmp_path):
    (tmp_path / "gpus.csv").write_text(
        "date,vc0,vc1,total\n2024-01-01,8,8,16\n2024-01-02,8,0,8\n2024-01-03,8,8,16\n"
    )
    made = lucid(
        "ingest", "--format", "helios-nodes", "--input", "gpus.csv", "--cluster", "demo", "--lake", "lake"
    )
    assert made.code == 0, made.err
    assert Lake("lake").node_dates("demo")
    night = [("late", "cyd", "vc1", 8, 8, "COMPLETED", 57_600 + 60, 57_660, 57_700)]
    write_log(tmp_path / "log.csv", [*ROWS, *night])  # submitted a minute after Shanghai's midnight
    said = simulate("--cluster", "demo", "--lake", "lake", "--no-plot", "--json", nodes=None)
    assert said.code == 0, said.err
    jobs = rows_of(tmp_path / "out" / "jobs_fifo.csv")
    assert float(jobs["late"]["first_start_time_s"]) == 57_600.0 + 86_400.0


def test_nodes_that_fail(simulate, tmp_path):
    (tmp_path / "failures.csv").write_text("virtual_cluster,node,at,down_s\nvc0,0,1800,200\n")
    said = simulate("--failures", "failures.csv", "--no-plot", "--json")
    assert said.code == 0, said.err
    assert said.json[0]["node_failures_suffered"] == 1
    jobs = rows_of(tmp_path / "out" / "jobs_fifo.csv")
    assert float(jobs["first"]["end_time_s"]) == 2000.0 + 3600.0


def test_failures_at_random_are_those_of_the_seed(simulate, tmp_path):
    def schedule(*more):
        asked = ("--failure-mtbf-hours", 0.5, "--failure-repair-hours", 0.1, "--no-plot", "--json", *more)
        said = simulate(*asked)
        assert said.code == 0, said.err
        return (tmp_path / "out" / "jobs_fifo.csv").read_text(), said.json[0]["node_failures_suffered"]

    first, suffered = schedule("--seed", 1)
    assert suffered > 0
    assert schedule("--seed", 1) == (first, suffered)
    assert schedule("--seed", 2)[0] != first


def test_one_size_only(simulate):
    said = simulate("--gpus", 8)
    assert said.code == 1
    assert "--nodes" in said.err


def test_standard_output_is_one_document_and_progress_has_no_carriage_return(simulate):
    said = simulate("--json", "--no-plot")
    json.loads(said.out)
    assert "\r" not in said.err
    assert "\x1b" not in said.err
