"""`lucid simulate` under the authors' rules: whose measurements count, and what a user is told."""

import csv

import pytest

from experiments.artifact_rules.published_packing import (
    has_labels,
    read_labelled_profiles,
    read_published_pairs,
)
from foundation.errors import BadInputError, UnknownNameError
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.log_scenario import LogToReplay
from pipeline.replay.simulation import simulate_log
from simulator.scenario.rules import load_rules
from tests.reference import ROOT

JOBS_HEADER = (
    *("job_id", "virtual_cluster", "order_in_vc", "gpus", "submit_time", "duration_s"),
    *("estimated_duration_s", "model", "dataset", "batchsize", "amp"),
)
SINGLES = """model,dataset,batchsize,amp,speed,gpu_util,gmem_util,gmem,label
VGG,CIFAR-10,64,0,100.0,40.0,20.0,3000.0,1
LSTM,Wikitext2,64,1,100.0,90.0,60.0,3000.0,0
"""
_OF_A_PAIR = ("model{}", "dataset{}", "gpu_num{}", "batchsize{}", "amp{}", "speed{}")
PAIRS = "\n".join(
    (
        ",".join(["", *(c.format(i) for i in (1, 2) for c in _OF_A_PAIR), "gpu_util", "gmem_util", "gmem"]),
        "0,VGG,CIFAR-10,1,64,0,0.5,LSTM,Wikitext2,1,64,1,0.25,99.0,60.0,6000",
        "",
    )
)


@pytest.fixture
def log(tmp_path):
    jobs = tmp_path / "jobs.csv"
    with jobs.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(JOBS_HEADER)
        rows.writerow(["first", "a", 0, 8, "2017-10-01 00:00:00", 100, 100, "VGG", "CIFAR-10", 64, 0])
        rows.writerow(["second", "a", 1, 8, "2017-10-01 00:00:00", 100, 100, "LSTM", "Wikitext2", 64, 1])
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\na,3\n")
    (tmp_path / "singles.csv").write_text(SINGLES)
    (tmp_path / "pairs.csv").write_text(PAIRS)
    return tmp_path


def replay(folder, rules, **options):
    log, size = LogFile(str(folder / "jobs.csv"), "reference-csv"), ClusterSize(str(folder / "nodes.csv"))
    asked = LogToReplay(log, size, rules=load_rules(rules), **options)
    return simulate_log(asked, ["lucid"], folder / "out")


def ends(folder):
    with (folder / "out" / "jobs_lucid.csv").open() as file:
        return {row["job_id"]: float(row["end_time_s"]) for row in csv.DictReader(file)}


def test_the_published_labels_and_speeds_are_what_counts(log):
    replay(log, rules="lucid-artifact", singles_path=log / "singles.csv", pairs_path=log / "pairs.csv")
    # Scores 1 + 0 allow the pair. The VGG ends at 200 s and a second late; the LSTM is lost at a quarter.
    assert ends(log) == {"first": 201.0, "second": 401.0}


def test_a_fault_left_out_is_left_out(log):
    replay(
        log,
        rules="lucid-artifact-without:lost_partner",
        singles_path=log / "singles.csv",
        pairs_path=log / "pairs.csv",
    )
    # The LSTM has done 201 / 4 s of its work when it is alone: 49.75 s remain, which is up to 251, and one.
    assert ends(log) == {"first": 201.0, "second": 252.0}


def test_without_measurements_nobody_shares_and_the_user_is_told(log, monkeypatch):
    monkeypatch.delenv("LUCID_REFERENCE_DATA", raising=False)
    report = replay(log, rules="lucid-artifact")
    assert any("--singles" in remark for remark in report.remarks)
    assert report.summaries[0]["colocated_jobs"] == 0


def test_measurements_of_the_reference_data_are_found(log, monkeypatch):
    packing = log / "reference" / "data" / "packing"
    packing.mkdir(parents=True)
    (packing / "single_jobs_rtx3090.csv").write_text(SINGLES)
    (packing / "colocated_pairs_rtx3090.csv").write_text(PAIRS)
    monkeypatch.setenv("LUCID_REFERENCE_DATA", str(log / "reference"))
    report = replay(log, rules="lucid-artifact")
    assert any("colocated_pairs" in remark for remark in report.remarks)
    assert report.summaries[0]["colocated_jobs"] == 2


def test_an_unknown_fault_is_an_error_before_any_work(log):
    with pytest.raises(UnknownNameError, match="free_profiling"):
        replay(log, rules="lucid-artifact-without:nothing")


def test_tables_are_read_in_their_published_layout(log):
    assert has_labels(log / "singles.csv")
    assert not has_labels(log / "pairs.csv")
    profiles = read_labelled_profiles(log / "singles.csv")
    assert profiles["LSTM/Wikitext2/64/1"].sharing_score == 0
    assert profiles["LSTM/Wikitext2/64/1"].amp
    assert profiles["VGG/CIFAR-10/64/0"].gpu_mem_mib == 3000
    assert read_published_pairs(log / "pairs.csv").to_dict("records") == [
        {
            "job_type_1": "VGG/CIFAR-10/64/0",
            "speed_1": 0.5,
            "job_type_2": "LSTM/Wikitext2/64/1",
            "speed_2": 0.25,
        }
    ]
    with pytest.raises(BadInputError, match="label"):
        read_labelled_profiles(log / "pairs.csv")


@pytest.mark.reference
def test_lucid_agrees_from_the_log_to_the_table(tmp_path):
    folder = ROOT / "reference" / "lucid"
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("virtual_cluster,nodes\nphilly,64\n")
    log = LogFile(str(folder / "week1vc48_jobs.csv.gz"), "reference-csv")
    asked = LogToReplay(log, ClusterSize(str(nodes)), rules=load_rules("lucid-artifact"))
    report = simulate_log(asked, ["lucid"], tmp_path / "out")
    assert report.summaries[0]["mean_jct_s"] == pytest.approx(8034.9, abs=0.1)
    assert report.summaries[0]["mean_queuing_delay_s"] == pytest.approx(119.0, abs=0.1)
