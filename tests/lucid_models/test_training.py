import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake

# The fixtures' tables are functions of tests/fixtures.py, handed over as a fixture because tests are no
# package.
from foundation.errors import BadInputError, NotFoundError
from lucid_models.boosting import BoostingSettings
from lucid_models.duration.model import DurationSettings
from lucid_models.packing.model import PackingSettings
from lucid_models.registry import Registry
from lucid_models.throughput.model import ThroughputSettings
from lucid_models.training import TrainReport, train_duration, train_packing, train_throughput
from lucid_models.training_data import read_training_jobs, read_training_throughput, table_digest

pytestmark = pytest.mark.slow

UNTIL = datetime(2020, 4, 9, 0, 5, tzinfo=UTC)
FAST = BoostingSettings(bags=2, max_rounds=60, max_bins=32)
FAST_DURATION = DurationSettings(log_boosting=FAST, mean_boosting=FAST)
FAST_THROUGHPUT = ThroughputSettings(boosting=FAST)


@dataclass(frozen=True)
class Lakes:
    """A lake, and the same one with another future after UNTIL."""

    now: str
    other_future: str


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory, small_tables: Any) -> Lakes:
    jobs, throughput = small_tables.jobs, small_tables.throughput
    uris = []
    for name in ("now", "other_future"):
        lake = Lake(str(tmp_path_factory.mktemp(name)))
        if name == "other_future":
            jobs, throughput = jobs.copy(), throughput.copy()
            later = jobs["submit_time"] >= UNTIL
            jobs.loc[later, ["user", "name"]] = "somebody else"
            unfinished = jobs["end_time"] > UNTIL
            assert (unfinished & ~later).sum() >= 3
            jobs.loc[unfinished, "end_time"] += timedelta(days=30)
            jobs.loc[unfinished, ["duration_s", "service_s"]] += 30 * 86_400.0
            jobs.loc[unfinished, "state"] = "FAILED"
            cut = throughput["bin_start"] + timedelta(seconds=600) > UNTIL
            throughput.loc[cut, ["submitted_jobs", "submitted_gpu_jobs", "submitted_gpus"]] = 4_321
        lake.write_jobs("small", jobs)
        lake.write_throughput("small", throughput)
        uris.append(lake.uri)
    return Lakes(*uris)


@pytest.fixture(scope="module")
def trained(lakes: Lakes, own_registry: str, small_tables: Any) -> dict[str, TrainReport]:
    common = {"lake_uri": lakes.now, "cluster": "small", "tracking_uri": own_registry, "train_until": UNTIL}
    return {
        "packing": train_packing(solo=small_tables.solo, pairs=small_tables.pairs, tracking_uri=own_registry),
        "throughput": train_throughput(**common, settings=FAST_THROUGHPUT),
        "duration": train_duration(**common, settings=FAST_DURATION),
    }


def test_reports_metrics_beside_naive_rivals(trained: dict[str, TrainReport]) -> None:
    packing, throughput, duration = (trained[kind] for kind in ("packing", "throughput", "duration"))
    assert all((report.version, report.reused) == (1, False) for report in trained.values())
    assert packing.metrics["loo_accuracy"] >= packing.baselines["majority_class"]["loo_accuracy"]
    assert throughput.metrics["jobs_mae"] < throughput.baselines["zero"]["jobs_mae"]
    assert set(throughput.baselines["last_value"]) == {"jobs_mae", "gpus_mae"}
    # Users differ by factors of e and hardly vary: knowing the user must beat knowing the size.
    assert duration.metrics["mae_log10"] < duration.baselines["size_alone"]["mae_log10"] / 2
    assert {"tsafrir", "ewma"} <= set(duration.baselines)
    # The score before the monotone constraints is recorded, and is no rival.
    assert duration.metrics["before_monotone/mae_log10"] == pytest.approx(
        duration.metrics["mae_log10"], rel=0.2
    )
    assert "ebm_unconstrained" not in duration.baselines


def test_a_pairwise_packing_model_is_registered_with_its_tree(
    trained: dict[str, TrainReport], own_registry: str, small_tables: Any
) -> None:
    report = train_packing(
        solo=small_tables.solo,
        pairs=small_tables.pairs,
        tracking_uri=own_registry,
        settings=PackingSettings(kind="pairwise"),
    )
    assert (report.name, report.version) == (trained["packing"].name, 2)
    assert report.metrics["loo_accuracy"] == trained["packing"].metrics["loo_accuracy"]
    assert 0 <= report.metrics["pairwise_leave_model_out_precision_mean"] <= 1
    assert "leave_model_out_precision_mean" in report.baselines["utilisation_sum_learned"]
    registry = Registry(own_registry)
    for head in ("mean_speed", "min_speed"):
        explained = json.loads(registry.read_run_file(report.run_id, f"explanation/{head}/global.json"))
        assert "gpu_util_sum_pct" in explained["importances"]
    local = json.loads(registry.read_run_file(report.run_id, "explanation/local.json"))
    assert "share: the two are expected to run" in local["pair"]["reason"]


def test_a_run_says_everything(trained: dict[str, TrainReport], own_registry: str) -> None:
    registry = Registry(own_registry)
    client = registry.client
    for kind, report in trained.items():
        run = client.get_run(report.run_id)
        assert run.info.status == "FINISHED"
        cluster = "" if kind == "packing" else f"{run.data.tags['cluster']} "
        assert run.info.run_name.startswith(f"{cluster}{kind} version {report.version}")
        page = client.get_model_version(report.name, str(report.version)).description
        assert f"runs/{report.run_id}" in page
        assert "naive baselines:" in page
        assert run.data.params["seed"] == "0"
        assert run.data.tags["code_version"]
        assert run.data.metrics.keys() >= set(report.metrics)
        assert any(name.startswith("baseline/") for name in run.data.metrics)
        (data,) = run.inputs.dataset_inputs
        profile = json.loads(data.dataset.profile)
        assert data.dataset.digest == profile["sha256"][:36]
        tags = registry.version(report.name, report.version).tags
        assert tags["digest"] == report.digest
        assert tags["dataset_digest"] == profile["sha256"]
        if kind != "packing":
            assert profile["window_end"] == tags["training_until"] == UNTIL.isoformat()
            assert tags["synthetic_logs"] == "true"
        else:
            assert tags["simulated_profiles"] == "true"
        card = registry.read_run_file(report.run_id, "model_card.md").decode()
        assert "Quality on the test window" in card
        assert ("Shape functions held to a direction: log_gpus (rising)." in card) == (kind == "duration")
        assert ("| before |" in card) == (kind == "duration")
    for kind, path in (
        ("packing", "tree.png"),
        ("packing", "global_importances.png"),
        ("throughput", "submitted_gpu_jobs/shape_hour.png"),
        ("throughput", "submitted_gpus/global_importances.png"),
        ("duration", "local_explanation.png"),
    ):
        assert registry.read_run_file(trained[kind].run_id, f"explanation/{path}").startswith(b"\x89PNG")


def test_the_served_model_is_our_scorer(trained: dict[str, TrainReport], own_registry: str) -> None:
    import mlflow
    from lucid_models.scoring import DurationScorer, scorer_from_document

    registry = Registry(own_registry)
    document = json.loads(registry.read_version_file("lucid-duration-small", 1, "artifacts/duration.json"))
    scorer = scorer_from_document(document)
    assert isinstance(scorer, DurationScorer)
    jobs = [{"job_id": "a", "gpus": 2, "submit_time_s": UNTIL.timestamp(), "user": "u3", "name": "train_u3"}]
    mlflow.set_tracking_uri(own_registry)
    served = mlflow.pyfunc.load_model("models:/lucid-duration-small/1").predict(pd.DataFrame(jobs))
    assert served["p50_s"].tolist() == scorer.predict(jobs).tolist()
    assert "u3" in served["reason"][0]
    signature = mlflow.models.get_model_info("models:/lucid-throughput-small/1").signature
    assert signature.inputs.input_names() == ["bin_start_s", "submitted_gpu_jobs", "submitted_gpus"]


def test_the_same_again_is_the_same_version(
    trained: dict[str, TrainReport], lakes: Lakes, own_registry: str, small_tables: Any
) -> None:
    again = train_packing(solo=small_tables.solo, pairs=small_tables.pairs, tracking_uri=own_registry)
    first = trained["packing"]
    assert (again.version, again.digest, again.reused) == (first.version, first.digest, True)
    assert again.run_id != first.run_id
    again = train_duration(
        lake_uri=lakes.now, cluster="small", tracking_uri=own_registry, train_until=UNTIL,
        settings=FAST_DURATION,
    )  # fmt: skip
    assert (again.version, again.digest) == (1, trained["duration"].digest)
    other = train_duration(
        lake_uri=lakes.now, cluster="small", tracking_uri=own_registry,
        train_until=UNTIL - timedelta(days=1), settings=FAST_DURATION,
    )  # fmt: skip
    assert (other.version, other.reused) == (2, False)


def test_the_future_teaches_nothing(trained: dict[str, TrainReport], lakes: Lakes, own_registry: str) -> None:
    common = {
        "lake_uri": lakes.other_future, "cluster": "small", "tracking_uri": own_registry,
        "train_until": UNTIL,
    }  # fmt: skip
    duration = train_duration(**common, settings=FAST_DURATION)
    assert (duration.version, duration.reused) == (1, True)
    assert duration.digest == trained["duration"].digest
    assert duration.metrics == trained["duration"].metrics
    throughput = train_throughput(**common, settings=FAST_THROUGHPUT)
    assert (throughput.version, throughput.reused) == (1, True)
    assert throughput.digest == trained["throughput"].digest


def test_windows_end_where_they_say(lakes: Lakes) -> None:
    jobs = read_training_jobs(lakes.now, "small", UNTIL, max_jobs=1_000_000)
    assert jobs.table["submit_time"].max() < UNTIL
    assert jobs.start < jobs.tail_start < jobs.until == UNTIL
    few = read_training_jobs(lakes.now, "small", UNTIL, max_jobs=100)
    assert few.table["job_id"].tolist() == jobs.table["job_id"].tolist()[-100:]
    bins = read_training_throughput(lakes.now, "small", UNTIL).table
    # The bin 00:00 to 00:10 is cut by 00:05.
    assert bins["bin_start"].max() == pd.Timestamp("2020-04-08 23:50", tz="UTC")
    whole = read_training_throughput(lakes.now, "small", None)
    assert whole.until == pd.Timestamp("2020-04-11", tz="UTC")


def test_jobs_that_never_ran_teach_nothing_and_running_ones_stay(tmp_path: Path, small_tables: Any) -> None:
    jobs = small_tables.jobs.head(20).copy()
    until = jobs["submit_time"].iloc[-1].to_pydatetime() + timedelta(seconds=1)
    jobs["end_time"] = jobs["submit_time"]
    jobs["duration_s"] = 1.0
    jobs.loc[0, "duration_s"] = 0.0
    jobs.loc[1, ["duration_s", "end_time"]] = None
    jobs.loc[1, "state"] = "CANCELLED"
    jobs.loc[2, ["duration_s", "end_time", "state"]] = None
    jobs.loc[3, "end_time"] = until + timedelta(days=1)
    jobs.loc[4, "end_time"] = None  # a source without times: it ended at submit_time + duration_s
    jobs.loc[4, "duration_s"] = 1e9
    lake = Lake(str(tmp_path))
    lake.write_jobs("small", jobs)
    kept = read_training_jobs(lake.uri, "small", until, max_jobs=100).table.set_index("job_id")
    assert kept.index.tolist() == [f"j{i}" for i in range(2, 20)]
    running = kept.loc[["j2", "j3", "j4"], ["duration_s", "end_time", "state"]]
    assert running.isna().all(axis=None)
    assert kept.loc["j5":, ["duration_s", "end_time", "state"]].notna().all(axis=None)  # type: ignore[misc]


def test_too_little_data_is_said(lakes: Lakes, own_registry: str) -> None:
    common = {"lake_uri": lakes.now, "tracking_uri": own_registry}
    with pytest.raises(NotFoundError, match="another"):
        train_duration(**common, cluster="another")
    with pytest.raises(BadInputError, match="2010"):
        train_duration(**common, cluster="small", train_until=datetime(2010, 1, 1, tzinfo=UTC))
    with pytest.raises(BadInputError):
        train_throughput(**common, cluster="small", train_until=datetime(2020, 4, 2, tzinfo=UTC))


def test_digest_sees_every_value(small_tables: Any) -> None:
    jobs = small_tables.jobs
    assert table_digest(jobs) == table_digest(jobs.copy())
    for column, value in (("user", "x"), ("gpus", 3), ("duration_s", 1.5), ("name", None)):
        other = jobs.copy()
        other.loc[5, column] = value
        assert table_digest(other) != table_digest(jobs), column
    assert table_digest(jobs.iloc[::-1]) != table_digest(jobs)


def test_profiles_must_say_where_they_were_measured(small_tables: Any) -> None:
    with pytest.raises(BadInputError, match="simulated"):
        train_packing(
            solo=small_tables.solo.drop(columns="simulated"), pairs=small_tables.pairs,
            tracking_uri="http://127.0.0.1:9",
        )  # fmt: skip
