"""Predictions from graphs as an operator gets them: one job, the jobs of a cluster, a study in simulation."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cluster_logs.lake import Lake
from cluster_logs.metrics.job_metrics import PREDICTED, RUNNING
from experiments.profiling.graph_predictions_study import TrueSpeeds, believed, unseen_predictions
from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from lucid_cli.main import app
from lucid_models.known_profiles import profiles_known_at
from parts.horus.graph_predictions import (
    GraphPredictor,
    describe_prediction,
    fit_predictor,
    predict_jobs,
    read_jobs_file,
    registered_predictor,
)
from parts.horus.model import read_zoo_features
from parts.horus.scorer import FIGURES, TERMS
from profiler_jobs.campaign import measure_simulated_profiles
from profiler_jobs.profile_table import write_profiles
from simulator.cluster.spec import ClusterSpec
from simulator.replay import simulate
from simulator.scenario.scenario import Scenario
from simulator.workload.colocation import SummedUtilisation
from simulator.workload.job import Job, JobProfile
from simulator.workload.workload import Workload
from tests.command_line import Shell

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

GRAPHS = read_zoo_features()
SUBMITTED = pd.Timestamp("2024-05-01T10:00:00Z")


@pytest.fixture(scope="module")
def profiles():
    return measure_simulated_profiles(0)


@pytest.fixture(scope="module")
def predictor(profiles) -> GraphPredictor:
    return fit_predictor(profiles, "the simulated GPU's profiles")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A linear layer 64 -> 32 over an open batch."""
    weight = numpy_helper.from_array(np.zeros((64, 32), dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 32])],
        [weight],
    )
    file = tmp_path / "network.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    file.write_bytes(model.SerializeToString())
    return file


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    jobs = pd.DataFrame(
        {
            "job_id": ["a", "b", "c", "d"],
            "virtual_cluster": "vc",
            "user": ["ann", "ann", "bob", "bob"],
            "name": ["train", "other", "train", "other"],
            "job_type": [None, None, None, "VGG/CIFAR-10/64/0"],
            "gpus": 1,
            "gpu_share": 1.0,
            "submit_time": [SUBMITTED + pd.Timedelta(days=day) for day in range(4)],
            "source_file": "log.csv",
            "source_row": range(1, 5),
        }
    )
    lake.write_jobs("alpha", jobs)
    return lake


def jobs_file(folder: Path, text: str) -> Path:
    file = folder / "jobs.csv"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.slow
def test_one_prediction_says_figures_score_reason_and_origin(predictor) -> None:
    found = describe_prediction(predictor, GRAPHS["ResNet50/ImageNet/64/1"], True)
    assert set(FIGURES) <= set(found)
    assert found["sharing_score"] == 2
    assert found["sharing_score_name"] == "Jumbo"
    assert "GPU utilisation" in found["reason"]
    assert any("simulated GPU" in remark for remark in found["remarks"])
    assert describe_prediction(predictor, GRAPHS["NeuMF/MovieLens/64/0"], False)["sharing_score"] == 0
    json.dumps(found, allow_nan=False)


def test_without_pairs_there_is_no_score(profiles) -> None:
    alone = fit_predictor(replace(profiles, pairs=profiles.pairs.iloc[:0]), "solo profiles")
    assert describe_prediction(alone, GRAPHS["VGG/CIFAR-10/32/0"], False)["sharing_score"] is None


def test_a_clusters_jobs_get_rows_that_are_known_at_their_submission(
    predictor, lake, network, tmp_path: Path
) -> None:
    file = jobs_file(
        tmp_path,
        "job_id,name,user,onnx,batch_size,amp\n"
        ",train,,network.onnx,16,0\n"
        "a,,,network.onnx,4096,1\n"
        ",other,bob,network.onnx,8,\n"
        "nobody,,,network.onnx,8,0\n",
    )
    at, asked = Site(lake=lake.uri, cluster="alpha"), {"jobs_file": file, "predictor": predictor}
    report = predict_jobs(at, **asked)
    assert (report.rows_in, report.rows_kept, report.rows_skipped, report.jobs) == (4, 3, 1, 3)
    rows = lake.read_job_metrics("alpha").set_index("job_id")
    assert sorted(rows.index) == ["a", "c", "d"]
    assert set(rows["origin"]) == {PREDICTED}
    assert (rows["known_time"] == rows["submit_time"]).all()
    assert rows["source"].str.contains("network.onnx by the simulated GPU").all()
    # The row with the job's own id counts: a larger batch in mixed precision.
    assert rows.loc["a", "gpu_mem_mib"] > rows.loc["c", "gpu_mem_mib"]
    assert predict_jobs(at, **asked).files_changed == 0

    jobs = lake.read_jobs("alpha")
    known = profiles_known_at(jobs, lake.read_job_metrics("alpha")).set_axis(jobs["job_id"])
    assert known["origin"].tolist() == [PREDICTED, None, PREDICTED, PREDICTED]
    assert known.loc["c", "gpu_util_pct"] == rows.loc["c", "gpu_util_pct"]


def test_a_measurement_of_its_template_is_preferred_to_a_prediction(
    predictor, lake, network, tmp_path: Path
) -> None:
    file = jobs_file(tmp_path, "name,onnx,batch_size\ntrain,network.onnx,16\n")
    predict_jobs(Site(lake=lake.uri, cluster="alpha"), jobs_file=file, predictor=predictor)
    jobs = lake.read_jobs("alpha")
    later = pd.DataFrame([{**jobs[jobs["job_id"] == "c"].iloc[0], "job_id": "e"}])
    later["submit_time"] += pd.Timedelta(days=30)
    lake.write_jobs("alpha", later)
    ran = pd.DataFrame(
        [
            {
                "job_id": "c",
                "submit_time": jobs.set_index("job_id").loc["c", "submit_time"],
                "user": "bob",
                "name": "train",
                "gpu_util_pct": 77.0,
                "gpu_mem_util_pct": 33.0,
                "gpu_mem_mib": 4_444.0,
                "observed_gpu_s": 3_600.0,
                "coverage": 1.0,
                "origin": RUNNING,
                "known_time": SUBMITTED + pd.Timedelta(days=5),
                "source": "samples",
            }
        ]
    )
    lake.write_job_metrics("alpha", ran)
    predict_jobs(Site(lake=lake.uri, cluster="alpha"), jobs_file=file, predictor=predictor)
    jobs = lake.read_jobs("alpha")
    known = profiles_known_at(jobs, lake.read_job_metrics("alpha")).set_axis(jobs["job_id"])
    assert known.loc["c", "origin"] == PREDICTED  # its own measurement came after its submission
    assert (known.loc["e", "origin"], known.loc["e", "gpu_util_pct"]) == (RUNNING, 77.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("job_id,batch_size\na,3\n", "has the columns"),
        ("job_id,onnx,batch_size\n,network.onnx,3\n", "Row 1"),
        ("job_id,onnx,batch_size\na,network.onnx,3\nb,network.onnx,-3\n", "Row 2"),
        ("job_id,onnx,amp\na,network.onnx,yes\n", "Row 1"),
        ("job_id,onnx\na,\n", "Row 1"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        read_jobs_file(jobs_file(tmp_path, text))


def test_what_is_missing_is_named(predictor, lake, network, tmp_path: Path) -> None:
    file = jobs_file(tmp_path, "job_id,onnx\na,elsewhere.onnx\n")
    at, asked = Site(lake=lake.uri, cluster="alpha"), {"jobs_file": file, "predictor": predictor}
    with pytest.raises(NotFoundError, match=r"elsewhere\.onnx"):
        predict_jobs(at, **asked)
    assert lake.read_job_metrics("alpha").empty
    with pytest.raises(NotFoundError, match="beta"):
        predict_jobs(at.of("beta"), **asked)
    file.write_text("job_id,onnx\na,network.onnx\n", encoding="utf-8")
    with pytest.raises(BadInputError, match="has no size"):
        predict_jobs(at, **asked)


# The command line ------------------------------------------------------------------------------------


def run(*words: str) -> str:
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
def test_the_command_predicts_and_says_why(network, profiles, tmp_path: Path) -> None:
    found = Shell(tmp_path, f"sqlite:///{tmp_path / 'mlflow.db'}").document(
        "predict-profile", "--onnx", network, "--batch-size", "32", "--amp", "--simulated"
    )
    assert found["graph"]["batch_size"] == 32
    assert found["graph"]["dense_macs"] == 32 * 64 * 32
    assert found["gpu_util_low_pct"] <= found["gpu_util_pct"] <= found["gpu_util_high_pct"]
    assert found["sharing_score"] == 0
    solo, _ = write_profiles(profiles, tmp_path / "profiles")
    text = run("predict-profile", "--onnx", str(network), "--batch-size", "32", "--singles", str(solo))
    assert "Sharing Score" in text
    assert "solo_profiles.csv" in text
    assert "simulated GPU, not on a real one" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "What is to be predicted"),
        (("--onnx", "no.onnx", "--simulated"), "no.onnx"),
        (("--jobs", "no.csv"), "no.csv"),
        (("--jobs", __file__), "Whose jobs"),
        (("--onnx", __file__, "--dimension", "N"), "NAME=SIZE"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(words, says) -> None:
    with pytest.raises(BadInputError, match=says):
        CliRunner().invoke(app, ["predict-profile", *words], catch_exceptions=False)


@pytest.mark.slow
def test_training_registers_a_version_that_then_predicts(tmp_path: Path, network) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with pytest.raises(NotFoundError, match="lucid train utilisation"):
        registered_predictor(store)
    trained = json.loads(run("train", "utilisation", "--simulated", "--tracking-uri", store, "--json"))
    assert (trained["name"], trained["version"]) == ("lucid-utilisation", 1)
    mean = trained["baselines"]["mean"]
    assert trained["metrics"]["gpu_util_pct_mae"] < 0.6 * mean["gpu_util_pct_mae"]
    found = json.loads(
        run(
            *("predict-profile", "--onnx", str(network), "--batch-size", "8"),
            *("--tracking-uri", store, "--json"),
        )
    )
    assert found["model"] == "lucid-utilisation version 1"
    assert found["sharing_score"] is None  # nobody registered a packing model there
    assert any("simulated GPU" in remark for remark in found["remarks"])
    explained = json.loads(run("explain", "--model", "utilisation", "--tracking-uri", store, "--json"))
    assert explained["version"] == 1
    assert set(explained["global"][""]["importances"]) == set(TERMS)


# In simulation ---------------------------------------------------------------------------------------


@pytest.mark.thorough("the experiments")
def test_predictions_of_a_model_come_from_the_others_alone(profiles) -> None:
    solo = profiles.solo
    before = unseen_predictions(solo)
    assert set(before) == set(solo["job_type"])
    bent = solo.copy()
    bent.loc[bent["model"] == "VGG", ["gpu_util_pct", "gpu_mem_mib"]] = [99.0, 20_000.0]
    after = unseen_predictions(bent)
    for name in solo.loc[solo["model"] == "VGG", "job_type"]:
        assert after[name] == before[name]
    assert after["LSTM/Wikitext2/64/0"] != before["LSTM/Wikitext2/64/0"]


def test_a_believed_job_shows_what_it_is_after_a_minute() -> None:
    true, told = JobProfile(80, 40, 9_000, job_type="x"), JobProfile(20, 10, 2_000, job_type="x")
    job = Job("1", "vc", None, 1, 0.0, 600.0)
    assert believed(job, "x", {"x": told}, {"x": true}).phase == (60.0, true)
    assert believed(job, "x", {"x": true}, {"x": true}).phase is None
    assert believed(job, "x", None, {"x": true}).profile is None


def test_an_under_estimate_of_memory_costs_a_job_its_progress() -> None:
    true = JobProfile(20, 10, 14_000, job_type="x")
    speeds = TrueSpeeds(SummedUtilisation(), {"x": true})
    ended = {}
    for label, told in (("true", true), ("too little", replace(true, gpu_mem_mib=2_000))):
        jobs = tuple(
            believed(Job(str(i), "vc", None, 1, float(i), 1_000.0, order=i), "x", {"x": told}, {"x": true})
            for i in range(3)
        )
        cluster = ClusterSpec({"vc": 1}, 2)
        ended[label] = simulate(Scenario(Workload(jobs, {}), cluster, colocation=speeds), "horus").jobs
    # 14 GB twice do not fit 24: told the truth, the third waits; told less, it starts, dies, and waits.
    assert ended["true"]["preemptions"].sum() == 0
    assert ended["too little"]["preemptions"].sum() == 1
    assert ended["too little"]["jct_s"].mean() >= ended["true"]["jct_s"].mean()


def test_speeds_are_those_of_what_jobs_are() -> None:
    true = JobProfile(100, 40, 9_000, job_type="x")
    speeds = TrueSpeeds(SummedUtilisation(), {"x": true})
    idle = JobProfile(1, 1, 1, job_type="x")
    assert speeds.speeds(idle, idle) == SummedUtilisation().speeds(true, true) == (0.5, 0.5)
