"""Every form as it opens, on a real local stack: each run ends, and says what became of it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.job_table import derive_throughput
from cluster_logs.lake import Lake
from foundation.site import Site
from local_stack.stack import connect, down, up
from local_stack.stack_config import StackConfig
from lucid_cli.demo import OVER, POLL_S
from tests.dags.test_default_forms import REQUIRED
from tests.dags.test_forms import DAGS
from tests.end_to_end.login import log_in_until_the_end
from tests.fixtures import fill_small_lake, free_port, register_small_models

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(1800)]

# Publishing believes the verdict at hand, and a validation beside it would record another one. Of the last,
# one takes back what is to be published, one brings a second cluster: before it each form means the only one.
FIRST = ("publish_release",)
LAST = ("rollback_release", "ingest_logs")
# How much is done, for a test's patience; what it is about is left as the form has it.
SIZES: dict[str, dict[str, Any]] = {
    "ingest_logs": {"days": 2},
    "profile_workloads": {"workloads": "ResNet50/ImageNet/64/*,PPO", "most_pairs": 1},
    "search_pareto_front": {
        "rounds": 1,
        "round_size": 3,
        "jobs_per_sample": 60,
        "samples": 1,
        "held_out_samples": 1,
        "preference": ["JCT:avg", "unfairness:avg"],
        "pick": "c1",
    },
    "tune_system": {
        "rounds": 0,
        "search_days": 4,
        "validation_days": 3,
        "blocks": 2,
        "search": {"profiling_limit_s": [60, 600], "sharing": ["none"]},
    },
}


@pytest.fixture
def stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_model_files: dict[str, list[Path]]
) -> Iterator[StackConfig]:
    """A stack with ten days of a small cluster and two releases of it, the second one live."""
    from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict
    from pipeline.validation.held_out_days import record_held_out

    config = StackConfig(tmp_path / "state", free_port(), free_port())
    log_in_until_the_end(config, monkeypatch)
    fill_small_lake(config.state_dir / "lake")
    lake = Lake(str(config.state_dir / "lake"))
    lake.replace_derived_throughput("small", derive_throughput(lake.iter_jobs("small")))
    try:
        up(config)
        register_small_models(config.mlflow_url, small_model_files)
        small: dict[str, Any] = {"tracking_uri": config.mlflow_url, "cluster": "small"}
        for number in (1, 2):
            versions = dict.fromkeys(("packing", "throughput", "duration"), number)
            built = build_release(**small, versions=versions, settings={"allow_simulated_profiles": True})
            record_held_out(Site(registry=config.mlflow_url), built, 1)
            verdict = {"approved": True, "sentence": "No loss was found."}
            record_verdict(**small, version=built.version, verdict=verdict)
            publish_release(**small, version=built.version)
        yield config
    finally:
        down(config.state_dir)


def run_all(config: StackConfig, dag_ids: list[str]) -> dict[str, tuple[str, str]]:
    """Start these forms at once; how each run ended, and the sentence that it left."""
    with connect(config) as airflow:
        runs = {
            dag_id: airflow.trigger(dag_id, {**REQUIRED.get(dag_id, {}), **SIZES.get(dag_id, {})})
            for dag_id in dag_ids
        }
        ended: dict[str, tuple[str, str]] = {}
        deadline = time.monotonic() + 1_200
        while runs.keys() - ended.keys():
            for dag_id in sorted(runs.keys() - ended.keys()):
                run = airflow.run(dag_id, runs[dag_id])
                if run["state"] in OVER and run["note"]:
                    ended[dag_id] = (run["state"], run["note"])
            waiting = {dag_id: airflow.tasks(dag_id, runs[dag_id]) for dag_id in runs.keys() - ended.keys()}
            assert time.monotonic() < deadline, f"not over, or without a word: {waiting}"
            time.sleep(POLL_S)
    return ended


def test_every_form_with_its_defaults_ends_and_says_how(stack: StackConfig) -> None:
    between = [dag_id for dag_id in DAGS if dag_id not in (*FIRST, *LAST)]
    ended = run_all(stack, list(FIRST)) | run_all(stack, between) | run_all(stack, list(LAST))
    refused = {dag_id: sentence for dag_id, (state, sentence) in ended.items() if state == "failed"}
    assert "No cluster is named" in refused.pop("remove_cluster")
    assert refused == {}
