"""`lucid simulate --predict`: how far ends were predicted."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from pipeline.replay.figures import jct_against_pred_err, pred_err_cdf
from simulator.results.result import SimulationResult


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["job_id"]: row for row in csv.DictReader(file)}


def test_errors_are_drawn(tmp_path):
    jobs = pd.DataFrame(
        {
            "state": "completed",
            "submit_time_s": 0.0,
            "jct_s": [10.0, 20.0, 30.0],
            "predicted_end_time_s": [10.0, 10.0, 40.0],
            "withdrawn": False,
        }
    )
    results = {"pcs": SimulationResult(jobs, {})}
    (cumulated,) = pred_err_cdf(results).axes
    assert cumulated.lines[0].get_xdata().tolist() == [0.0, 25.0, 100.0]
    averages, tails = jct_against_pred_err(results).axes
    (point,), (tail,) = (axes.collections[0].get_offsets().tolist() for axes in (averages, tails))
    assert point == pytest.approx([20 / 3600, 125 / 3])
    assert tail == pytest.approx([20 / 3600, 98.5])


def test_ends_are_predicted_by_what_was_known_and_every_output_says_so(lucid, tmp_path):
    (tmp_path / "log.csv").write_text(
        "job_id,virtual_cluster,gpus,submit_time,duration_s,estimated_duration_s\n"
        "a,x,4,2024-01-01 00:00:00,100,300\nb,x,4,2024-01-01 00:00:10,100,50\n"
        "c,x,4,2024-01-01 00:00:20,0,0\n"
    )

    def replayed(*more):
        done = lucid(
            *(
                "simulate",
                "--jobs",
                "log.csv",
                "--format",
                "reference-csv",
                "--gpus",
                "4",
                "--gpus-per-node",
                "4",
            ),
            *("--policy", "fifo", "--out", "out", "--no-plot", *more),
        )
        assert done.code == 0, done.err
        rows = rows_of(tmp_path / "out" / "jobs_fifo.csv")
        (summary,) = json.loads((tmp_path / "out" / "summary.json").read_text())
        ends = {job: float(row["predicted_end_time_s"]) for job, row in rows.items()}
        return ends, summary["predict_by"], done.out

    ends, by, said = replayed("--predict")
    # When c is submitted, a is believed to last 300 s, b 50 s and c a second.
    assert (ends, by) == ({"a": 300.0, "b": 350.0, "c": 351.0}, "estimates")
    assert "predict_by" in said.replace(" ", "_")
    assert "estimates" in said
    ends, by, said = replayed("--predict-by", "truth")
    assert (ends, by) == ({"a": 100.0, "b": 200.0, "c": 200.0}, "truth")
    assert "truth" in said


def test_logs_whose_jobs_all_left_or_took_no_time_are_drawn_as_far_as_they_can_be(lucid, tmp_path):
    head = "job_id,submit_time,start_time,end_time,gpus,virtual_cluster,user,state\n"
    at, later = "2026-07-01 08:00:00", "2026-07-01 09:00:00"
    (tmp_path / "left.csv").write_text(f"{head}1,{at},,{later},1,vc,ann,CANCELLED\n")
    (tmp_path / "zero.csv").write_text(f"{head}1,{at},{at},{at},1,vc,ann,COMPLETED\n")
    for log, jobs in (("left.csv", 0), ("zero.csv", 1)):
        done = lucid(
            *("simulate", "--jobs", log, "--format", "jobs-csv", "--gpus", 8, "--policy", "fifo"),
            *("--out", log.removesuffix(".csv"), "--predict", "--plot", "--waits", "--json"),
        )
        assert done.code == 0, done.err
        assert done.json[0]["jobs"] == jobs
    assert not list((tmp_path / "left").glob("*.png"))
