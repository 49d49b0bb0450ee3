"""A job that scales perfectly does so on as many GPUs as it asks for.

The ends are those of PCS' own simulator (OSDI '24 artifact, its LinearModel), to the microsecond.
"""

import csv

import pytest

TRACE = """app_id,submit_time,service,num_jobs,sleep_time,model_name
0,0.0,90000.0,200,0.0,LinearModel
1,30.0,64000.0,128,30.0,LinearModel
2,60.0,5000.0,4,30.0,LinearModel
3,90.0,250000.0,256,30.0,LinearModel
4,120.0,33000.0,65,30.0,LinearModel
5,150.0,12000.0,100,30.0,LinearModel
6,400.0,150000.0,300,250.0,LinearModel
7,900.0,70000.0,72,500.0,LinearModel
"""
ENDS_S = {
    "elastic_fifo": (450.0, 766.25, 1700.0, 1602.698413, 2110.390721, 1722.698413, 2365.9375, 3338.159722),
    "srsf": (839.0, 568.4375, 1310.0, 2639.375, 627.692308, 270.0, 1580.869565, 1872.222222),
    "afs": (1457.200826, 1136.417667, 1310.0, 2639.375, 756.539792, 385.294118, 2315.551471, 1982.514393),
    "themis": (813.323077, 852.505769, 1340.0, 2639.375, 627.692308, 520.0, 2075.625, 1872.222222),
    "pcs": (451.607143, 925.357143, 1701.607143, 2053.4375, 959.299451, 1035.355754, 2639.375, 1917.326665),
}
PCS_SETTINGS = (
    "thresholds_s=100000,1000000,inf",
    "weights=0.7,0.2,0.1",
    "efficiency_min=0.9",
    "efficiency_step=0.3",
)


def test_jobs_of_more_than_64_gpus_end_when_they_do_in_the_reference(lucid, tmp_path):
    (tmp_path / "trace.csv").write_text(TRACE)
    done = lucid(
        *(
            "simulate",
            "--jobs",
            "trace.csv",
            "--format",
            "pcs-csv",
            "--gpus",
            "256",
            "--rules",
            "pcs-artifact",
        ),
        *("--policy", *ENDS_S, "--out", "out", "--no-plot"),
        *(word for setting in PCS_SETTINGS for word in ("--setting", f"pcs.{setting}")),
    )
    assert done.code == 0, done.err
    for policy, ends_s in ENDS_S.items():
        with (tmp_path / "out" / f"jobs_{policy}.csv").open(newline="") as file:
            ours = [float(row["end_time_s"]) for row in csv.DictReader(file)]
        assert ours == pytest.approx(ends_s, rel=0, abs=2e-6), policy


def test_rigid_jobs_that_are_taken_as_elastic_scale_perfectly_too(lucid, tmp_path):
    (tmp_path / "log.csv").write_text(
        "job_id,virtual_cluster,gpus,submit_time,duration_s,estimated_duration_s\n"
        "a,vc,200,2024-01-01 00:00:00,100,100\n"
    )
    done = lucid(
        *("simulate", "--jobs", "log.csv", "--format", "reference-csv", "--gpus", "100", "--elastic", "1"),
        *("--rules", "pcs-artifact", "--policy", "srsf", "--out", "out", "--no-plot", "--json"),
    )
    assert done.code == 0, done.err
    assert done.json[0]["mean_jct_s"] == 200.0
