"""`lucid reproduce lucid`: every table from a small workload, end to end."""

import csv
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from experiments.reproduction import published
from experiments.reproduction.ablations import missing_settings
from experiments.reproduction.documents import write_documents, write_index
from experiments.reproduction.evaluation import evaluate
from experiments.reproduction.overall import table_4
from experiments.reproduction.report import to_html, to_markdown, write_page, write_report
from experiments.reproduction.runs import execute
from experiments.reproduction.sharing import (
    MIXES,
    SharingScores,
    drawn_profiles,
    is_heavy,
    read_measurements,
)
from experiments.reproduction.trace import read_trace, synthesize_trace
from foundation.progress import silent
from lucid_models.packing.model import PackingSettings
from simulator.workload.job_family import job_templates

pytestmark = pytest.mark.slow

SECTIONS = {
    "further_measures",
    "estimates",
    "claims",
    "table2_trace",
    "table4_overall",
    "fig8_jct_cdf",
    "fig9_queuing_by_vc",
    "table5_sizes",
    "utilisation",
    "debugging_feedback",
    "table3_testbed",
    "fig10_scheduling_latency",
    "fig11_ablations",
    "table6_profiling_limit",
    "thresholds",
    "fig12_workload_mixes",
    "update_intervals",
    "left_out",
}


def reference_log(folder: Path, jobs: int = 240) -> tuple[Path, Path]:
    """A loaded cluster: more is asked for than there is; some jobs are short, some larger than a node."""
    log, nodes = folder / "jobs.csv", folder / "nodes.csv"
    start = datetime(2024, 1, 1, tzinfo=UTC)
    with log.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["job_id", "virtual_cluster", "gpus", "submit_time", "duration_s", "estimated_duration_s"]
        )
        for i in range(jobs):
            submit = (start + timedelta(seconds=61 * i)).strftime("%Y-%m-%d %H:%M:%S")
            gpus = 16 if i % 29 == 7 else (1, 2, 4, 8)[i % 4]
            duration = 40 if i % 5 == 0 else 700 + 311 * (i % 13)
            rows.writerow([f"j{i}", f"vc{i % 2}", gpus, submit, duration, duration * (0.5 + (i % 7) / 4)])
    nodes.write_text("virtual_cluster,nodes\nvc0,6\nvc1,4\n")
    return log, nodes


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    log, nodes = reference_log(tmp_path_factory.mktemp("log"))
    trace = read_trace(jobs_path=log, source_format="reference-csv", nodes_path=nodes, like="philly")
    return evaluate(
        trace,
        read_measurements(None, None, 0),
        policies=["tiresias", "lucid", "clarity"],
        workers=1,
        queue_lengths=(64, 256),
        command="the test",
    )


def section(evaluation, key):
    return next(found for found in evaluation.report.sections if found.key == key)


def test_every_table_and_figure_of_the_paper_is_there(evaluation):
    assert {found.key for found in evaluation.report.sections} == SECTIONS
    empty = {found.key for found in evaluation.report.sections if found.tidy.empty}
    assert empty == {"left_out", "update_intervals"}  # the log has no users and names


def test_what_cannot_be_measured_says_why(evaluation):
    assert section(evaluation, "update_intervals").notes == (
        "Not measured: the log does not say who submitted its jobs and what they are called.",
    )


def test_published_numbers_stand_beside_ours_in_a_column_of_their_own(evaluation):
    table = section(evaluation, "table4_overall").tidy
    lucid = table[(table["policy"] == "lucid") & (table["measure"] == "mean_jct_s")].iloc[0]
    assert lucid["published_s"] == pytest.approx(6.84 * 3600)
    run = next(run for run in evaluation.outcomes if run == evaluation.study.run("lucid"))
    assert lucid["ours_s"] == evaluation.outcomes[run].summary["mean_jct_s"]
    assert set(table["published_trace"]) == {"philly"}


def test_utilisation_is_the_engines_own(evaluation):
    """Two ways of adding up: the recorder's spans, and the engine's attained time."""
    for policy in ("tiresias", "lucid"):
        outcome = evaluation.outcomes[evaluation.study.run(policy)]
        summary = outcome.summary
        capacity = evaluation.study.trace.cluster.total_gpus * summary["makespan_s"]
        assert 100 * outcome.activity.active_gpu_s / capacity == pytest.approx(summary["utilisation_pct"])


def test_waiting_adds_up_to_the_mean_queue(evaluation):
    """Little's law: the queue over time is the sum of all waits."""
    for policy in ("tiresias", "lucid"):
        outcome = evaluation.outcomes[evaluation.study.run(policy)]
        waited_s = outcome.summary["mean_queuing_delay_s"] * outcome.summary["jobs"]
        assert waited_s > 0
        assert outcome.activity.mean_queue * outcome.activity.queued_for_s == pytest.approx(waited_s)
        assert outcome.activity.max_queue >= outcome.activity.mean_queue


def test_each_ablation_is_a_run_of_its_own(evaluation):
    assert missing_settings() == ""
    table = section(evaluation, "fig11_ablations").tidy
    assert list(table[table["panel"] == "a"]["variant"]) == [
        "QSSF",
        "w/o Binder",
        "w/o Sharing",
        "w/o Estimator",
        "Lucid",
    ]
    by_variant = table.set_index("variant")
    assert by_variant.loc["w/o Sharing", "colocated_jobs"] == 0
    assert by_variant.loc["Lucid", "colocated_jobs"] > 0
    assert len(set(table["mean_jct_s"])) > 3


def test_the_figures_data(evaluation):
    cdf = section(evaluation, "fig8_jct_cdf")
    for _, rows in cdf.tidy.groupby("policy"):
        assert rows["jct_s"].is_monotonic_increasing
        assert rows["jobs_pct"].iloc[[0, -1]].tolist() == [0.0, 100.0]
    drawn = cdf.figure.axes[0].get_lines()
    assert len(drawn) == 3
    tiresias = cdf.tidy[cdf.tidy["policy"] == "tiresias"]["jct_s"]
    assert drawn[0].get_xdata().tolist() == tiresias.tolist()

    by_vc = section(evaluation, "fig9_queuing_by_vc")
    outcome = evaluation.outcomes[evaluation.study.run("tiresias")]
    rows = by_vc.tidy[by_vc.tidy["policy"] == "tiresias"]
    mean = (rows["jobs"] * rows["mean_queuing_delay_s"]).sum() / rows["jobs"].sum()
    assert mean == pytest.approx(outcome.summary["mean_queuing_delay_s"])
    bars = [bar.get_height() for bar in by_vc.figure.axes[0].containers[0]]
    assert bars[-1] == pytest.approx(mean / 3600)

    mixes = section(evaluation, "fig12_workload_mixes").tidy
    assert set(mixes["mix"]) == {"L", "M", "H"}
    light, heavy = (
        mixes[(mixes["mix"] == mix) & (mixes["policy"] == "lucid")]["mean_queuing_delay_s"].iloc[0]
        for mix in "LH"
    )
    assert light <= heavy  # lighter jobs find more partners


def test_latency_is_measured_at_the_lengths_asked_for(evaluation):
    table = section(evaluation, "fig10_scheduling_latency").tidy
    assert set(table["queued_jobs"]) <= {64, 256}
    assert (table["median_ms"] > 0).all()
    assert (table["median_ms"] <= table["p99_ms"]).all()
    assert set(table["policy"]) == {"tiresias", "lucid", "clarity"}


def test_claims_are_judged_by_the_papers_bound(evaluation):
    table = section(evaluation, "claims").tidy.set_index("claim")
    assert set(table.index) == set(published.CLAIMS)
    assert pd.isna(table.loc["jct_vs_fifo", "reached"])  # FIFO was not asked for
    row = table.loc["jct_vs_tiresias"]
    jct = {
        policy: evaluation.outcomes[evaluation.study.run(policy)].summary["mean_jct_s"]
        for policy in ("tiresias", "lucid")
    }
    assert row["ours"] == pytest.approx(jct["tiresias"] / jct["lucid"])
    assert row["reached"] == (row["ours"] >= 1.1)
    clarity = evaluation.outcomes[evaluation.study.run("clarity")].summary["mean_jct_s"]
    assert row["clarity"] == pytest.approx(jct["tiresias"] / clarity)
    assert pd.isna(table.loc["without_binder", "clarity"])  # an ablation is of Lucid alone


def test_the_report_as_files(evaluation, tmp_path):
    written = {path.name for path in write_report(evaluation.report, tmp_path)}
    assert {"report.md", "report.html", "table4_overall.csv", "fig8_jct_cdf.png"} <= written
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == sum(
        found.figure is not None for found in evaluation.report.sections
    )
    assert not re.search(r'(src|href)="(https?:)?//', page)  # nothing is loaded from elsewhere
    assert "<table>" in page
    for found in evaluation.report.sections:
        assert found.title in (tmp_path / "report.md").read_text()
        if not found.tidy.empty:
            assert len(pd.read_csv(tmp_path / f"{found.key}.csv")) == len(found.tidy)


def test_the_page_says_where_its_numbers_come_from(evaluation):
    text = to_markdown(evaluation.report)
    for word in ("data: jobs.csv", "commit: ", "machine: ", "command: `the test`", "seed: 0"):
        assert word in text
    assert "job types were drawn" not in text  # this log has none: they are drawn here
    assert "types are drawn from the measured configurations" in text
    assert "simulated GPU" in text


def test_pages_of_docs(evaluation, tmp_path):
    page, *_ = write_page(evaluation.report, tmp_path / "philly.md")
    text = page.read_text()
    for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (tmp_path / path).is_file()
    assert ".csv](" not in text  # tables are not kept beside the pages
    index = write_index(tmp_path).read_text()
    claims = section(evaluation, "claims").shown["reached by Lucid"]
    row = next(line for line in index.splitlines() if line.startswith("| [philly]"))
    counted = [int(cell) for cell in row.split("|")[3:6]]
    assert counted == [int((claims == word).sum()) for word in ("yes", "**no**", "not measured")]


def test_pages_without_their_data_stay_as_they_are(monkeypatch, tmp_path):
    monkeypatch.delenv("LUCID_REFERENCE_DATA", raising=False)
    (tmp_path / "philly.md").write_text("as it was")
    said = []
    write_documents(tmp_path, ["philly"], workers=1, progress=silent, say=said.append)
    assert (tmp_path / "philly.md").read_text() == "as it was"
    assert said == ["philly: left as it is, because LUCID_REFERENCE_DATA is not set."]


def test_html_shows_text_as_text():
    assert "<script>" not in to_html("# <script>alert(1)</script>", "<b>", {})


def test_outcomes_do_not_depend_on_the_number_of_processes(evaluation):
    runs = [evaluation.study.run(policy) for policy in ("tiresias", "lucid", "clarity")]
    done = execute(evaluation.study.materials, runs, workers=2)
    assert list(done) == runs
    for run in runs:
        once = evaluation.outcomes[run]
        assert done[run].activity == once.activity
        assert done[run].jct_s.tolist() == once.jct_s.tolist()
        for key in set(once.summary) - {"engine", "cpu_s", "jobs_per_cpu_s"}:
            assert done[run].summary[key] == once.summary[key]


def test_drawn_mixes_are_as_heavy_as_they_say_and_recur(trace_of_names):
    scores = SharingScores(read_measurements(None, None, 0), PackingSettings())
    jobs = trace_of_names.jobs
    heavy = {}
    for mix, share in MIXES.items():
        found = drawn_profiles(jobs, scores, mix, seed=1)
        assert found == drawn_profiles(jobs, scores, mix, seed=1)
        heavy[mix] = sum(map(is_heavy, found)) / len(found)
        assert heavy[mix] == pytest.approx(share, abs=0.12)
        names = pd.Series([profile.job_type for profile in found])
        families = job_templates([None] * len(jobs), jobs["user"], jobs["name"])
        assert (names.groupby(families).nunique() == 1).all()  # what recurs runs the same
    assert heavy["L"] < heavy["M"] < heavy["H"]


def test_what_a_job_runs_is_what_recurs(evaluation):
    """A policy that remembers templates must never meet two programs under one."""
    study = evaluation.study
    for mix in ("log", *MIXES):
        run = study.run("clarity", profiles=mix)
        jobs = study.materials.workload_of(run).jobs
        assert all(job.template == job.profile.job_type for job in jobs)


def test_a_policy_that_fails_is_named_and_the_others_stand(evaluation):
    run = evaluation.study.run("lucid", {"profiling_limit_s": -1.0})
    outcome = execute(evaluation.study.materials, [run])[run]
    assert "profiling_limit_s" in outcome.failed
    table = table_4(evaluation.study, {"lucid": outcome})
    assert "could not replay this trace" in table.notes[0]
    assert table.tidy["ours_s"].isna().all()


def test_the_command_line(lucid, tmp_path):
    log, nodes = reference_log(tmp_path, jobs=150)
    said = lucid(
        "reproduce",
        "lucid",
        *("--jobs", log, "--format", "reference-csv", "--nodes", nodes, "--like", "philly"),
        *("--policy", "fifo", "--policy", "sjf", "--workers", 1, "--out", tmp_path / "out", "--json"),
    )
    assert said.code == 0, said.err
    assert {row["policy"] for row in said.json["overall"]} == {"fifo", "sjf"}
    assert all(Path(path).is_file() for path in said.json["files"])
    assert "lucid is not among the policies" in (tmp_path / "out" / "report.md").read_text()


def test_bad_input_is_one_line(lucid, tmp_path):
    log, nodes = reference_log(tmp_path, jobs=20)
    base = ("reproduce", "lucid", "--out", tmp_path / "out")
    for arguments, word in (
        ((), "--synthetic"),
        (("--jobs", log, "--synthetic", "helios-venus"), "--synthetic"),
        (("--jobs", log), "--format"),
        (("--synthetic", "nowhere"), "nowhere"),
        (
            ("--jobs", log, "--format", "reference-csv", "--nodes", nodes, "--policy", "nosuch"),
            "nosuch",
        ),
        (("--jobs", log, "--format", "reference-csv", "--nodes", nodes, "--like", "mars"), "mars"),
    ):
        said = lucid(*base, *arguments)
        assert said.code == 1
        assert said.err.count("Error:") == 1
        assert word in said.err


@pytest.fixture(scope="module")
def trace_of_names():
    return synthesize_trace("helios-venus", days=1, seed=3, history_days=2)


def test_a_synthetic_trace_is_evaluated_after_its_history(trace_of_names):
    trace = trace_of_names
    assert trace.earlier["submit_time"].max() < trace.jobs["submit_time"].min()
    assert trace.jobs["submit_time"].max() - trace.jobs["submit_time"].min() < pd.Timedelta(days=1)
    assert trace.has_users_and_names
    assert trace.like == "venus"
    assert any("synthetic" in remark for remark in trace.remarks)
