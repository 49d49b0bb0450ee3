"""The files of a simulation: the columns and keys that scripts depend on, and the plots."""

import json

import pandas as pd
import pytest

from pipeline.replay.figures import draw_figures
from pipeline.replay.report import write_results
from simulator.conformance import sample_workload
from simulator.replay import simulate
from simulator.results.metrics import by_group
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

CONTRACT = """job_id virtual_cluster gpus submit_time_s first_start_time_s end_time_s queuing_delay_s jct_s
preemptions"""
SUMMARY = """policy jobs mean_jct_s mean_queuing_delay_s p999_queuing_delay_s makespan_s preemptions cpu_s
jobs_per_cpu_s"""


def test_files_say_what_the_contract_says(tmp_path):
    workload, cluster = sample_workload("loaded", seed=5)
    results = {name: simulate(Scenario(workload, cluster), name) for name in ("fifo", "srtf")}
    files = [*write_results(results, tmp_path / "out"), *draw_figures(results, tmp_path / "out")]
    assert [file.name for file in files] == [
        "jobs_fifo.csv",
        "jobs_srtf.csv",
        "summary.json",
        "jct_cdf.png",
        "queuing_cdf.png",
        "queuing_delay_by_virtual_cluster.png",
    ]
    jobs = pd.read_csv(tmp_path / "out" / "jobs_srtf.csv", dtype={"job_id": str})
    assert jobs.columns[:9].tolist() == CONTRACT.split()
    assert jobs["job_id"].tolist() == [job.job_id for job in workload.jobs]
    assert (jobs["jct_s"] == jobs["end_time_s"] - jobs["submit_time_s"]).all()
    summaries = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [summary["policy"] for summary in summaries] == ["fifo", "srtf"]
    for summary, result in zip(summaries, results.values(), strict=True):
        assert set(SUMMARY.split()) <= set(summary)
        assert summary["mean_jct_s"] == result.jobs["jct_s"].mean()
        assert sum(row["jobs"] for row in summary["virtual_clusters"]) == summary["jobs"] == 120
    for file in files[3:]:
        assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert file.stat().st_size > 5_000


def test_the_same_results_give_the_same_plots(tmp_path):
    workload, cluster = sample_workload("quiet", seed=5, jobs=30)
    results = {"fifo": simulate(Scenario(workload, cluster), "fifo")}
    first = [file.read_bytes() for file in draw_figures(results, tmp_path / "a")]
    again = [file.read_bytes() for file in draw_figures(results, tmp_path / "b")]
    assert first == again


def test_an_empty_workload_gives_empty_files_and_no_plot(tmp_path):
    _, cluster = sample_workload("quiet", seed=5)
    nothing = Scenario(Workload((), {}), cluster)
    results = {name: simulate(nothing, name) for name in ("fifo", "lucid")}
    files = [*write_results(results, tmp_path), *draw_figures(results, tmp_path)]
    assert [file.name for file in files] == ["jobs_fifo.csv", "jobs_lucid.csv", "summary.json"]
    assert [summary["jobs"] for summary in json.loads(files[-1].read_text())] == [0, 0]


def test_groups_add_up_and_unknown_users_are_one_group():
    workload, cluster = sample_workload("loaded", seed=6)
    jobs = simulate(Scenario(workload, cluster), "fifo").jobs
    users = by_group(jobs, "user")
    assert sum(row["jobs"] for row in users) == len(jobs)
    assert sum(row["mean_jct_s"] * row["jobs"] for row in users) == pytest.approx(jobs["jct_s"].sum())
    assert by_group(jobs.assign(user=None), "user")[0]["user"] == "(unknown)"
