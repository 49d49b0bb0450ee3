"""Job by job against the Lucid artifact's own simulator on a week of the Philly log."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from experiments.artifact_rules.rule_sets import LUCID_SIMULATOR
from experiments.pages import written
from experiments.policies.agreement import compare_schedules, load_slice, read_schedule, replayed
from experiments.policies.fidelity import (
    CASES,
    FidelityCase,
    agreement_table,
    compare,
    difference_table,
    main,
    reference_slice,
)
from tests.reference import ROOT

pytestmark = pytest.mark.reference


def folder():
    return ROOT / "reference" / "lucid"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_the_artifact(case):
    agreement = compare(case, folder())
    assert agreement.jobs == 10_650
    if agreement.starts_within_2s is not None:
        assert agreement.starts_within_2s >= 0.999
        assert agreement.ends_within_2s >= 0.999
    assert agreement.mean_jct_s == pytest.approx(agreement.reference_mean_jct_s, rel=0.001)
    assert agreement.mean_queuing_s == pytest.approx(agreement.reference_mean_queuing_s, rel=0.001)
    if agreement.reference_preemptions is not None:
        assert agreement.preemptions == agreement.reference_preemptions


def test_fifo_and_sjf_agree_to_the_second_under_our_own_rules():
    for case in CASES:
        if case.policy in ("fifo", "sjf") and case.rules == "default":
            assert compare(case, folder()).starts_within_2s in (None, 1.0)


def test_lucid_starts_every_job_when_the_artifact_does_and_ends_it_within_a_second():
    found = compare(FidelityCase("week1vc64", "lucid", "lucid-artifact"), folder())
    assert found.equal_starts == 1.0
    assert (found.differences["end_s"] - found.differences["reference_end_s"]).abs().max() <= 1


def test_where_lucid_differs_on_eleven_virtual_clusters_is_what_the_page_says():
    found = compare(FidelityCase("week", "lucid", "lucid-artifact"), folder()).differences
    others = found[~found["profiled_only"]]
    assert (others["start_s"] == others["reference_start_s"]).all()
    assert (others["end_s"] - others["reference_end_s"]).abs().max() <= 1
    in_profiler = found[found["profiled_only"]]
    # Who of two virtual clusters' jobs of the same second is profiled first is not in the data.
    assert len(in_profiler) <= 10
    assert (in_profiler["start_s"] - in_profiler["reference_start_s"]).abs().max() <= 10


def test_with_the_order_across_virtual_clusters_every_start_is_the_artifacts():
    # The one-cluster slice holds the same jobs, and its order is one for all of them.
    part = reference_slice("week", folder())
    order = pd.read_csv(folder() / "week1vc48_jobs.csv.gz", dtype={"job_id": str}).set_index("job_id")
    jobs = [replace(job, order=int(order.loc[job.job_id, "order_in_vc"])) for job in part.workload.jobs]
    jobs.sort(key=lambda job: (job.submit_time_s, job.order))
    known = replace(part, workload=replace(part.workload, jobs=tuple(jobs), rows=None))
    result = replayed(known, "lucid", "lucid-artifact")
    assert compare_schedules(result, read_schedule(folder() / "week_lucid.csv.gz")).equal_starts == 1.0


@pytest.mark.parametrize(
    "fault",
    [
        fault.name
        for fault in LUCID_SIMULATOR.faults
        if "lucid" in fault.policy_settings or (fault.rules and fault.name != "freest_remainder")
    ],
)
def test_lucid_disagrees_without_any_one_of_the_faults(fault):
    part = reference_slice("week1vc64", folder())
    result = replayed(part, "lucid", f"lucid-artifact-without:{fault}")
    found = compare_schedules(result, read_schedule(folder() / "week1vc64_lucid.csv.gz"))
    assert found.equal_ends < 0.9


def test_the_page_shows_the_tables_as_they_are():
    page = (Path(__file__).parents[2] / "docs" / "simulator_fidelity.md").read_text(encoding="utf-8")
    tables = {"agreement": agreement_table(folder()), "differences": difference_table(folder())}
    assert written(page, tables) == page


def test_any_slice_is_compared_from_the_command_line(tmp_path, capsys):
    listed = tmp_path / "differences.csv"
    jobs, schedule = folder() / "week_jobs.csv.gz", folder() / "week_sjf.csv.gz"
    arguments = [
        *("--jobs", str(jobs), "--nodes", str(folder() / "week_nodes.csv"), "--schedule", str(schedule)),
        *("--policy", "sjf", "--rules", "lucid-artifact", "--differences", str(listed)),
    ]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "starts: 100.00 % equal" in said
    assert "(0.0000 % off)" in said
    assert listed.read_text().count("\n") == 1


def test_a_slice_of_one_virtual_cluster_needs_only_the_number_of_its_nodes():
    part = load_slice(folder() / "week1vc48_jobs.csv.gz", 48)
    found = compare_schedules(
        replayed(part, "fifo", "default"), read_schedule(folder() / "week1vc48_fifo.csv.gz")
    )
    assert found.equal_starts == found.equal_ends == 1.0
