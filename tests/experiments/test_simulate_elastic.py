"""`lucid simulate --predict`: elastic jobs in a shared pool, and how far their ends were predicted."""

import csv
import json
from pathlib import Path

import pytest

from tests.reference import ROOT

LOG = """app_id,submit_time,service,num_jobs,sleep_time,model_name
0,5.0,1000.0,1,5.0,LinearModel
1,5.0,4000.0,4,0.0,LinearModel
2,10.0,80.0,2,5.0,LinearModel
3,700.0,60.0,2,690.0,DcganModel256
4,1000.0,6000.0,8,300.0,VggnetModel256
"""
ELASTIC = ("elastic_fifo", "srsf", "afs", "themis", "pcs")
CONTRACT = [
    *("job_id", "virtual_cluster", "gpus", "submit_time_s", "first_start_time_s", "end_time_s"),
    *("queuing_delay_s", "jct_s", "preemptions", "predicted_end_time_s", "fair_time_s"),
]


@pytest.fixture
def simulate(lucid, tmp_path):
    (tmp_path / "trace.csv").write_text(LOG)

    def run(*more, policies=ELASTIC, rules="pcs-artifact", predict=("--predict",)):
        return lucid(
            "simulate",
            *("--jobs", "trace.csv", "--format", "pcs-csv", "--gpus", "4", "--rules", rules),
            *("--out", "out", "--policy", *policies, *predict, *more),
            *(() if "--plot" in more else ("--no-plot",)),
        )

    return run


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["job_id"]: row for row in csv.DictReader(file)}


def test_every_elastic_policy_predicts_every_job(simulate, tmp_path):
    done = simulate("--json")
    assert done.code == 0, done.err
    summaries = {row["policy"]: row for row in done.json}
    assert list(summaries) == list(ELASTIC)
    for policy in ELASTIC:
        rows = rows_of(tmp_path / "out" / f"jobs_{policy}.csv")
        assert list(next(iter(rows.values())))[: len(CONTRACT)] == CONTRACT
        assert list(rows) == ["0", "1", "2", "3", "4"]
        assert summaries[policy]["skipped"] == {}
        assert summaries[policy]["predicted_jobs"] == 5
        assert {"mean_pred_err_pct", "p99_pred_err_pct", "p99_unfairness", "unfair_jobs_pct"} <= set(
            summaries[policy]
        )
        assert [float(row["submit_time_s"]) for row in rows.values()] == [5.0, 5.0, 10.0, 700.0, 1000.0]
        # Nothing comes after the last one: what it is told is what happens.
        assert float(rows["4"]["predicted_end_time_s"]) == pytest.approx(float(rows["4"]["end_time_s"]))
    assert "more GPUs than there are get all of them: 1." in done.err


def test_first_come_first_served_is_predicted_exactly(simulate, tmp_path):
    assert simulate(policies=["elastic_fifo"]).code == 0
    rows = rows_of(tmp_path / "out" / "jobs_elastic_fifo.csv")
    # Job 0 takes one GPU for 1,000 s, job 1 the other three; when job 0 ends it gets the fourth.
    assert float(rows["0"]["end_time_s"]) == 1005.0
    assert float(rows["1"]["end_time_s"]) == 1005.0 + (4000 - 3 * 1000) / 4
    assert all(row["predicted_end_time_s"] == row["end_time_s"] for row in rows.values())
    (summary,) = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["mean_pred_err_pct"] == summary["p99_pred_err_pct"] == 0.0


def test_a_configuration_on_the_command_line_is_that_of_its_file(simulate, tmp_path):
    given = ("thresholds_s=500,inf", "weights=0.75,0.25", "efficiency_min=0.5", "efficiency_step=0.25")
    settings = [word for part in given for word in ("--setting", f"pcs.{part}")]
    assert simulate(*settings, policies=["pcs"]).code == 0
    outright = rows_of(tmp_path / "out" / "jobs_pcs.csv")
    # The small class owns three of four GPUs, and uses two of them; the other class has the rest.
    assert float(outright["2"]["end_time_s"]) == pytest.approx(10.0 + 80 / 2)
    document = {
        "thresholds_s": [500, "inf"],
        "weights": [0.75, 0.25],
        "efficiency_min": 0.5,
        "efficiency_step": 0.25,
    }
    (tmp_path / "picked.json").write_text(json.dumps(document))
    assert simulate("--setting", "pcs.configuration=picked.json", policies=["pcs"]).code == 0
    assert rows_of(tmp_path / "out" / "jobs_pcs.csv") == outright


@pytest.mark.parametrize(
    ("more", "policies", "said"),
    [
        ((), ["fifo"], "afs, elastic_fifo, pcs, srsf, themis"),
        (("--failure-mtbf-hours", "0.1"), ["pcs"], "no nodes"),
        (("--waits",), ["pcs"], "no nodes"),
        (("--setting", "pcs.configuration=fig8"), ["pcs"], "fig7-bal, fig7-jct"),
        (("--setting", "pcs.thresholds_s=5,3,inf"), ["pcs"], "Ascend"),
        (("--setting", "pcs.weights=1"), ["pcs"], "1 weights for 4 size classes"),
        (("--setting", "pcs.configuration=none.json"), ["pcs"], "none.json"),
        (("--setting", "themis.lease_s=0"), ["themis"], "lease_s"),
    ],
)
def test_what_cannot_be_is_said(simulate, more, policies, said):
    done = simulate(*more, policies=policies)
    assert done.code != 0
    assert said in " ".join(done.err.split())


def test_a_model_that_nobody_measured_needs_a_curve(simulate, tmp_path):
    (tmp_path / "trace.csv").write_text(LOG.replace("LinearModel", "GPT-9"))
    done = simulate(policies=["pcs"])
    assert done.code != 0
    said = " ".join(done.err.split())
    for word in ("'GPT-9'", "--speed-ups FILE", "DcganModel256"):
        assert word in said
    (tmp_path / "curves.csv").write_text(
        "model,gpus,time_us\nGPT-9,1,4\nGPT-9,4,1\nDcganModel256,1,1\nVggnetModel256,1,1\n"
    )
    assert simulate("--speed-ups", "curves.csv", policies=["pcs"]).code == 0


def test_the_jobs_of_another_log_may_be_elastic(lucid, tmp_path):
    (tmp_path / "log.csv").write_text(
        "job_id,virtual_cluster,gpus,submit_time,duration_s,estimated_duration_s\n"
        "a,x,4,2024-01-01 00:00:00,100,100\nb,y,4,2024-01-01 00:00:00,100,100\n"
        "c,x,2,2024-01-01 00:00:10,100,100\n"
    )
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\nx,1\ny,1\n")

    def ends(*more):
        done = lucid(
            *("simulate", "--jobs", "log.csv", "--format", "reference-csv", "--nodes", "nodes.csv"),
            *("--gpus-per-node", "4", "--rules", "pcs-artifact", "--policy", "elastic_fifo", "srsf"),
            *("--out", "out", "--predict", "--no-plot", *more),
        )
        assert done.code == 0, done.err
        rows = rows_of(tmp_path / "out" / "jobs_srsf.csv")
        return {job: float(row["end_time_s"]) for job, row in rows.items()}

    # Each virtual cluster is a pool of its own. Elastic, c takes two GPUs from a.
    assert ends("--elastic", "1") == pytest.approx({"a": 150.0, "b": 100.0, "c": 110.0})


def test_pools_without_nodes_predict_by_the_truth_alone(simulate):
    assert {row["predict_by"] for row in simulate("--json").json} == {"truth"}
    refused = simulate("--predict-by", "estimates")
    assert refused.code == 1
    assert "Under the rules pcs-artifact ends are predicted by true run times" in refused.err
    unknown = simulate("--predict-by", "guesses")
    assert "estimates, truth" in unknown.err


@pytest.mark.reference
def test_the_published_trace_needs_no_further_option(lucid, tmp_path):
    done = lucid(
        *("simulate", "--jobs", ROOT / "data/pcs/trace_0e4a51.csv.gz", "--format", "pcs-csv"),
        *("--gpus", "64", "--rules", "pcs-artifact", "--policy", "pcs", "srsf", "--predict", "--no-plot"),
        *("--out", "out", "--json"),
    )
    assert done.code == 0, done.err
    figures = {
        row["policy"]: [round(row[name], 3) for name in ("mean_pred_err_pct", "p99_pred_err_pct")]
        for row in done.json
    }
    assert figures == {"pcs": [5.568, 115.522], "srsf": [26.619, 313.503]}
