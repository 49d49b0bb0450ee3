"""The DAG `profile_workloads` with real task runs on the simulated device, and the retraining it triggers."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.site import Site
from pipeline.profiling.profile_store import read_profile_set, write_profile_set
from profiler_jobs.devices import opening
from profiler_jobs.devices.device import RunOutcome
from profiler_jobs.devices.simulated import SimulatedGpu
from profiler_jobs.measurement_table import read_measurements
from profiler_jobs.profile_table import ProfileSet
from tests.dags.run_facts import all_states_of, silent_tasks
from tests.fixtures import ReleaseShop, small_jobs, small_profiles

pytestmark = pytest.mark.usefixtures("metadata_database")

# Five configurations, fifteen pairs: two that saturate a GPU, three that hardly use it.
WORKLOADS = "ResNet50/ImageNet/32/*,PPO"
TABLE = Path("profiles/cluster=small/measurements.parquet")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: ReleaseShop) -> Path:
    """Where the tasks look: a lake with twelve days of a cluster's log, and the shop's MLflow."""
    root = tmp_path / "lake"
    fill(root, "small")
    monkeypatch.setenv("LUCID_LAKE_URI", str(root))
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    monkeypatch.setenv("LUCID_STATE_DIR", str(tmp_path / "state"))
    return root


def fill(root: Path, cluster: str) -> None:
    jobs = small_jobs(200)
    # The models of the shop learned until midnight of the 10th.
    late = pd.Timestamp("2020-04-12T12:00", tz="UTC") - jobs["submit_time"].iloc[-1]
    for column in ("submit_time", "start_time", "end_time"):
        jobs.loc[jobs.index[-1], column] += late
    Lake(str(root)).write_jobs(cluster, jobs)


def form(**values: Any) -> dict[str, Any]:
    """A form filled in as far as tests change it: `dag.test` keeps the values of the run before."""
    return {
        "cluster": "small",
        "devices": ["simulated:0"],
        "workloads": WORKLOADS,
        "pairs": True,
        "repeats": 3,
        "hold_out_days": None,
        **values,
    }


def events_of(run: Any) -> list[Any]:
    """The asset events of a run, as the scheduler would hand them to the next."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.query(AssetEvent).filter(
            AssetEvent.source_dag_id == run.dag_id, AssetEvent.source_run_id == run.run_id
        )
        return [(event.asset.name, dict(event.extra)) for event in found]


def test_the_whole_way_from_a_form_to_an_event(dag_bag: Any, lake: Path) -> None:
    run = dag_bag.dags["profile_workloads"].test(
        run_conf=form(devices=["simulated:0", "simulated:1"], hold_out_days=2)
    )
    assert silent_tasks(run) == set()
    found = all_states_of(run)
    assert found["measure_solos"] == ["success"] * 2
    assert found["measure_pairs"] == ["success"] * 2
    assert {state for task in found.values() for state in task} == {"success"}
    labels = {task.rendered_map_index for task in run.get_task_instances() if task.task_id == "measure_solos"}
    assert labels == {
        "simulated:0: ResNet50/ImageNet/32/0 and 2 more",
        "simulated:1: ResNet50/ImageNet/32/1 and 1 more",
    }
    profiles = read_profile_set(Site(lake=str(lake), cluster="small"))
    assert (len(profiles.solo), len(profiles.pairs)) == (5, 15)
    rows = read_measurements(str(lake / TABLE))
    assert len(rows) == 3 * 5 + 9 * 15
    assert events_of(run) == [
        (
            "profile_measurements",
            {
                "cluster": "small",
                "lake_uri": str(lake),
                "models": ["packing"],
                "hold_out_days": 2,
                "as_of": None,
                "started_by": ["dag_test"],
            },
        )
    ]


def test_configurations_alone_announce_nothing_and_pairs_later_retrain_the_packing_model_alone(
    dag_bag: Any, lake: Path, shop: ReleaseShop
) -> None:
    from lucid_models.registry import Registry
    from lucid_models.releases.lifecycle import show_release

    run = dag_bag.dags["profile_workloads"].test(run_conf=form(pairs=False))
    found = all_states_of(run)
    assert found["measure_pairs"] == ["skipped"]
    assert found["collect_measurements"] == ["success"]
    assert found["announce_measurements"] == ["skipped"]
    assert str(run.state) == "success"
    assert events_of(run) == []
    assert len(read_measurements(str(lake / TABLE))) == 15
    run = dag_bag.dags["profile_workloads"].test(run_conf=form())
    found = all_states_of(run)
    assert found["measure_solos"] == ["skipped"]  # the lake has them
    assert found["measure_pairs"] == ["success"]

    (event,) = events_of(run)
    asked = {key: value for key, value in event[1].items() if key != "lake_uri"}
    run = dag_bag.dags["retrain_models"].test(run_conf=asked)
    assert all_states_of(run) == {
        "resolve_inputs": ["success"],
        "train_packing": ["success"],
        "train_throughput": ["skipped"],
        "train_duration": ["skipped"],
        "train_node_demand": ["skipped"],
        "train_inference_load": ["skipped"],
        "train_waits": ["skipped"],
        "build_release": ["success"],
        "request_rest": ["skipped"],
    }
    challenger = show_release(tracking_uri=shop.uri, cluster="small", alias="challenger")
    assert challenger.models["packing"]["name"] == "lucid-packing-small"
    assert (
        challenger.models["packing"]["version"]
        == Registry(shop.uri).versions("lucid-packing-small")[0].version
    )
    assert challenger.models["throughput"]["version"] == 2  # the newest of the shop
    assert challenger.models["duration"]["version"] == 2
    assert challenger.provenance == {"simulated_profiles": True, "synthetic_logs": True}
    (announced,) = [extra for name, extra in events_of(run) if name == "release_challenger"]
    assert announced["hold_out_days"] == 1  # days with jobs that the kept models have not seen: 1.5
    assert announced["version"] == challenger.version


def test_a_task_that_dies_is_tried_again_and_measures_what_is_left(
    dag_bag: Any, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []

    class Dying(SimulatedGpu):
        def run(self, job_types: Any, *arguments: Any, **options: Any) -> RunOutcome:
            runs.append(" + ".join(job_type.name for job_type in job_types))
            if len(runs) == 4:
                raise OSError("the worker died")
            return super().run(job_types, *arguments, **options)

    monkeypatch.setattr(opening, "open_device", lambda name: Dying(0))
    dag = dag_bag.dags["profile_workloads"]
    monkeypatch.setattr(dag.get_task("measure_solos"), "retry_delay", timedelta(0))
    run = dag.test(run_conf=form(pairs=False))
    (task,) = [task for task in run.get_task_instances() if task.task_id == "measure_solos"]
    assert (str(task.state), task.try_number) == ("success", 2)
    assert len(runs) == 6
    assert runs.count(runs[3]) == 2, "only what had no result was measured again"
    assert len(set(runs)) == 5


def test_measured_profiles_refuse_the_simulated_device_before_anything_runs(dag_bag: Any, lake: Path) -> None:
    solo, pairs = small_profiles()
    real = ProfileSet(solo.assign(simulated=False), pairs.assign(simulated=False))
    write_profile_set(Site(lake=str(lake), cluster="small"), real)
    run = dag_bag.dags["profile_workloads"].test(run_conf=form())
    found = all_states_of(run)
    assert found["plan_solos"] == ["failed"]
    assert str(run.state) == "failed"
    assert not (lake / TABLE).exists()
    assert len(read_profile_set(Site(lake=str(lake), cluster="small")).solo) == 12


def test_by_simulated_measurements_no_jobs_of_a_real_cluster_share_gpus(
    dag_bag: Any, lake: Path, shop: ReleaseShop
) -> None:
    from lucid_models.releases.lifecycle import publish_release, record_verdict, show_release

    shop.lend_models("real", 1, synthetic=False)
    fill(lake, "real")
    solo, pairs = small_profiles()
    write_profile_set(Site(lake=str(lake), cluster="real"), ProfileSet(solo, pairs))
    run = dag_bag.dags["retrain_models"].test(
        run_conf={"cluster": "real", "models": ["packing"], "hold_out_days": None, "as_of": None}
    )
    assert str(run.state) == "success"
    challenger = show_release(tracking_uri=shop.uri, cluster="real", alias="challenger")
    assert (challenger.cluster, challenger.provenance["simulated_profiles"]) == ("real", True)
    verdict = {"approved": True, "sentence": "No loss was found.", "objective": {"change_pct": -3.0}}
    record_verdict(tracking_uri=shop.uri, cluster="real", version=challenger.version, verdict=verdict)
    live = publish_release(tracking_uri=shop.uri, cluster="real", version=challenger.version)
    assert live.settings["sharing"] == "none"


def test_measuring_waits_for_a_slot_of_its_devices(dag_bag: Any) -> None:
    from local_stack.stack_config import GPU_POOL

    dag = dag_bag.dags["profile_workloads"]
    pools = {task.task_id: task.pool for task in dag.tasks}
    assert {name for name, pool in pools.items() if pool == GPU_POOL} == {"measure_solos", "measure_pairs"}
    assert set(pools.values()) == {GPU_POOL, "default_pool"}
