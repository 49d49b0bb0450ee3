"""The traces of PCS: elastic jobs, whose run time on one GPU is known and that on more is not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cluster_logs.ingest import ingest_log, read_jobs_file
from cluster_logs.lake import Lake
from foundation.errors import BadInputError, UnknownNameError
from simulator.workload.speed_up_table import measured_speed_ups, read_speed_ups, speed_ups_for
from simulator.workload.workload import Workload
from tests.reference import ROOT

LOG = Path(__file__).parent / "data" / "pcs-csv.csv"


def jobs() -> pd.DataFrame:
    return read_jobs_file(str(LOG), "pcs-csv")[0]


def test_a_row_is_an_elastic_job() -> None:
    read = jobs().set_index("job_id")
    assert read.loc["1", ["gpus", "single_gpu_s", "name"]].tolist() == [4, 7200.25, "ChatbotModel256"]
    assert read["duration_s"].isna().all()
    assert read.loc["1", "submit_time"] == pd.Timestamp(60.5, unit="s", tz="UTC")


def test_the_lake_keeps_the_run_time_on_one_gpu(tmp_path: Path) -> None:
    ingest_log(source_format="pcs-csv", input_uri=str(LOG), cluster="pcs", lake_uri=str(tmp_path))
    lake = Lake(str(tmp_path)).read_jobs("pcs")
    assert lake["single_gpu_s"].tolist() == jobs()["single_gpu_s"].tolist() == [3600.0, 7200.25, 0.0]
    again, account = read_jobs_file(str(tmp_path), "lake")
    assert again["single_gpu_s"].tolist() == lake["single_gpu_s"].tolist()
    assert account.rows_in == account.rows_kept == 3


def test_an_elastic_job_runs_on_all_its_gpus_as_its_curve_says() -> None:
    workload = Workload.from_jobs(jobs())
    one, four, empty = workload.jobs
    curve = measured_speed_ups()["ChatbotModel256"]
    assert (one.duration_s, one.gpus) == (3600.0, 1)
    assert four.duration_s == 7200.25 / curve.at(4)
    assert four.elasticity is not None
    assert (four.elasticity.service_s, four.elasticity.speed_up) == (7200.25, curve)
    assert empty.duration_s == 0.0
    assert [job.submit_time_s for job in workload.jobs] == [0.0, 60.5, 60.5]


def test_times_count_from_an_origin_that_is_given() -> None:
    late = jobs().assign(submit_time=lambda read: read["submit_time"] + pd.Timedelta(5, unit="s"))
    workload = Workload.from_jobs(late, origin=pd.Timestamp(0, tz="UTC").to_pydatetime())
    assert [job.submit_time_s for job in workload.jobs] == [5.0, 65.5, 65.5]
    assert workload.origin == pd.Timestamp(0, tz="UTC")


def test_a_model_without_a_curve_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'GPT'.*ChatbotModel256.*VggnetModel256"):
        Workload.from_jobs(jobs().assign(name="GPT"))


@pytest.mark.parametrize(
    "text",
    ["model,1,2,4\nA,8,5,2\nB,1,,\n", "model,gpus,time_us\nA,1,8\nA,4,2\nA,2,5\nB,1,3\n"],
    ids=["a row a model", "a row a measurement"],
)
def test_curves_of_a_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    path.write_text(text)
    curves = read_speed_ups(path)
    assert np.allclose([curves["A"].at(n) for n in (0, 1, 1.5, 2, 3, 4, 9)], [0, 1, 1.3, 1.6, 2.8, 4, 4])
    assert curves["B"].at(3) == 1.0
    table = jobs().assign(name="A")
    assert Workload.from_jobs(table, speed_ups=curves).jobs[1].duration_s == 7200.25 / 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,gpus,seconds\nA,1,8\n", "model,gpus,time_us"),
        ("model,1,2\nA,fast,2\n", "row 1"),
        ("model,1,2\nA,,2\n", "model 'A'"),
        ("model,gpus,time_us\n", "holds no"),
        ("", "holds no"),
    ],
)
def test_a_file_without_curves_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    path.write_text(text)
    with pytest.raises(BadInputError, match=said):
        read_speed_ups(path)


def test_the_measured_curves_are_those_of_nine_models_and_the_perfect_one() -> None:
    curves = speed_ups_for(largest_gpus=2_000)
    assert len(curves) == 10 == len(measured_speed_ups()) + 1
    for name, curve in curves.items():
        assert curve.at(1) == 1.0, name
        assert all(0 < curve.at(n) <= 1.2 * n for n in range(1, 65)), name
    assert all(curves["LinearModel"].at(n) == pytest.approx(n, rel=1e-15) for n in (1, 48, 65, 200, 2_000))
    # A curve need not be concave: VGG leaves less of a node unused on 8 GPUs than on 5.
    vgg = curves["VggnetModel256"]
    assert vgg.at(5) / 5 < vgg.at(8) / 8


@pytest.mark.reference
def test_the_published_traces_lose_no_row() -> None:
    for name, rows in (("0e4a51", 2_465), ("b436b2", 9_031), ("6214e9", 51_258)):
        _, account = read_jobs_file(str(ROOT / f"data/pcs/trace_{name}.csv.gz"), "pcs-csv")
        assert account.rows_in == account.rows_kept == rows


@pytest.mark.reference
def test_the_published_curves_are_ours() -> None:
    published = read_speed_ups(ROOT / "reference/pcs/model_speedups.csv")
    for name, curve in measured_speed_ups().items():
        assert np.allclose(curve.values, published[name].values, rtol=1e-12), name
