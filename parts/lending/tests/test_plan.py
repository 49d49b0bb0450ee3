"""`lucid plan` with servers on loan."""

import csv
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from tests.command_line import Lucid
from tests.fixtures import small_jobs
from tests.lucid_cli.test_plan import mlflow_file as mlflow_file
from tests.lucid_cli.test_plan import repeated, write_log


def test_what_loans_save(lucid: Lucid, tmp_path: Path) -> None:
    columns = "job_id,submit_s,duration_s,gpus,elastic,gpus_per_worker,workers_min,workers_max,fungible"
    draws = "heterogeneous,u_checkpoint,u_elastic,u_hetero,u_wrong,u_err"
    with (tmp_path / "jobs.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(f"{columns},{draws}".split(","))
        for i in range(80):
            rows.writerow((i, 300 * i, 4_000, 2, 0, 2, 1, 1, 1, 0, 0.5, 0.5, 0.5, 0.5, 0.0))
    (tmp_path / "load.csv").write_text(
        "time_s,usage,gap\n" + "".join(f"{300 * i},0.2,0\n" for i in range(200))
    )
    asked = ("--jobs", "jobs.csv", "--format", "lyra-csv", "--training-servers", "2", "--policy", "lyra")
    lending = ("--inference", "load.csv", "--inference-servers", "6", "--points", "2", "--out", "plan")
    said = lucid("plan", *asked, *lending, "--json")
    assert said.code == 0, said.err
    alone, lent, *savings = of_jobs(said.json)
    assert (alone["variant"], lent["variant"]) == ("awake", "loans")
    assert lent["nodes"] < alone["nodes"]
    assert {each["saved_nodes"] for each in savings} == {alone["nodes"] - lent["nodes"]}
    assert savings[0]["used_gpu_h"] > 0
    assert savings[0]["added_wait"]["mean"]["added_s"] < 0
    for answer in (alone, lent):
        assert repeated(lucid, answer)["p95_queuing_delay_s"] == answer["p95_wait_s"]
    nothing = lucid("plan", *asked, "--out", "plan")
    assert nothing.code == 1
    assert "is replayed beside inference servers" in nothing.err


def of_jobs(said: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers that stand on replays of jobs."""
    return [each for each in said["questions"] if each["kind"] != "inference"]


def write_load(folder: Path) -> tuple[str, ...]:
    """Six inference servers, one of them busy but for rushes; returns the options that name them."""
    usage = [0.9 if i % 12 > 9 else 0.2 for i in range(200)]
    rows = "".join(f"{300 * i},{share},0\n" for i, share in enumerate(usage))
    (folder / "load.csv").write_text(f"time_s,usage,gap\n{rows}")
    return ("--inference", "load.csv", "--inference-servers", "6")


def test_what_loans_save_under_a_policy_that_knows_nothing_of_them(lucid: Lucid, tmp_path: Path) -> None:
    asked = (*write_log(tmp_path), "--gpus", "72", *write_load(tmp_path), "--cluster-only")
    more = ("--policy", "sjf", "--setting", "headroom=0.2", "--points", "2", "--out", "plan")
    said = lucid("plan", *asked, *more, "--json")
    assert said.code == 0, said.err
    alone, lent, *savings = of_jobs(said.json)
    assert (alone["variant"], lent["variant"]) == ("awake", "loans")
    assert lent["nodes"] <= alone["nodes"]
    assert savings[-1]["used_gpu_h"] > 0
    assert savings[-1]["added_wait"]["mean"]["added_s"] < 0
    for answer in (alone, lent):
        summary = repeated(lucid, answer)
        assert summary["p95_queuing_delay_s"] == answer["p95_wait_s"]
    assert 0 < summary["servers_on_loan_mean"] <= 3  # of 6, 2 in use and 2 kept back
    kept_alone, kept_lent = (each for each in said.json["questions"] if each["kind"] == "inference")
    # 0.9 of 6 servers in 2 bins of 12: all are needed, and what is lent is short at the first bin of a rush.
    assert (kept_alone["nodes"], kept_alone["present_short_pct"]) == (6, 0.0)
    assert kept_lent["present_short_pct"] == pytest.approx(100 * 16 / 199, abs=0.6)
    assert "servers (" in kept_alone["answer"]


def test_loans_of_a_cluster_of_the_lake_that_knows_its_inference_load(
    lucid: Lucid, tmp_path: Path, mlflow_file: str
) -> None:
    lake, jobs = Lake(str(tmp_path / "lake")), small_jobs(200)
    lake.write_jobs("tiny", jobs)
    nodes = {"virtual_cluster": ["vc"], "nodes": [3], "gpus_per_node": [8], "date": [None]}
    lake.write_nodes("tiny", pd.DataFrame(nodes))
    times = pd.date_range(jobs["submit_time"].min().floor("5min"), periods=500, freq="5min")
    load = {"time": times, "usage": 0.3, "servers": 5, "gap": False, "origin": "synthetic"}
    lake.write_series("inference_load", "tiny", pd.DataFrame(load))
    kept = ("--out", "plan", "--tracking-uri", mlflow_file)
    asked = ("plan", "--cluster", "tiny", "--lake", "lake", "--points", "2", *kept, "--json")
    said = lucid(*asked)
    assert said.code == 0, said.err
    alone, lent, *savings = of_jobs(said.json)
    assert (alone["variant"], lent["variant"]) == ("awake", "loans")
    assert savings[0]["servers_on_loan_mean"] > 0
    assert repeated(lucid, lent)["p95_queuing_delay_s"] == lent["p95_wait_s"]
    # A policy for jobs in workers alone lends nothing to these, says so, and plans all the same.
    alike = lucid(*asked, "--policy", "lyra")
    assert alike.code == 0, alike.err
    assert "Nothing is lent" in " ".join(alike.json["remarks"])
    without = lucid(*asked, "--loaning", "off").json
    assert {each["variant"] for each in without["questions"]} == {"awake"}
    assert without["questions"][0]["nodes"] == alone["nodes"]
