"""The wait model as a part of a release: pinned, verified, kept by a retraining, and refused when damaged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError, ReleaseRefusedError, UnknownNameError
from foundation.site import Site
from live_scheduler.release_store import verify_release
from lucid_models.registry import Registry
from lucid_models.releases.approval import identify
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict
from lucid_models.releases.manifest import MANIFEST_FILE, parse_manifest
from lucid_models.releases.store import read_release
from parts.waits.model.job_queue import read_job_queue
from parts.waits.model.training import train_waits
from parts.waits.steps.wait_answers import pinned_waits
from parts.waits.tests.job_queues import FIRST_DAY, make_queue_jobs
from parts.waits.tests.queue_logs import FAST_WAITS
from pipeline.overview.release_contents import release_parts
from pipeline.release.current_release import kept_policy
from tests.fixtures import LocalRegistry, ReleaseShop

pytestmark = pytest.mark.slow

WAITS = pinned_waits({"least_jobs": 5})


@pytest.fixture(scope="module")
def queue_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with 24 days of a cluster that has a queue."""
    lake = tmp_path_factory.mktemp("queue") / "lake"
    Lake(str(lake)).write_jobs("small", make_queue_jobs(24))
    return lake


@pytest.fixture(scope="module")
def wait_model(stocked_file: LocalRegistry, queue_lake: Path) -> Iterator[None]:
    """A wait model of the cluster `small` in the shop's registry, which later modules do not see."""
    from mlflow import MlflowClient

    until = (FIRST_DAY + pd.Timedelta(days=22)).to_pydatetime()
    train_waits(
        log=read_job_queue(Site(lake=str(queue_lake), cluster="small"), until, 30),
        source=str(queue_lake),
        cluster="small",
        tracking_uri=stocked_file.uri,
        settings=FAST_WAITS,
    )
    yield
    MlflowClient(stocked_file.uri).delete_registered_model("lucid-waits-small")


@pytest.fixture
def waits_shop(wait_model: None, local_shop: ReleaseShop) -> ReleaseShop:
    """The shop with a wait model as well."""
    return local_shop


def test_a_release_pins_the_wait_model_and_a_scheduler_takes_it_over(waits_shop: ReleaseShop) -> None:
    common: dict[str, Any] = {"tracking_uri": waits_shop.uri, "cluster": "small"}
    without = build_release(**common)
    assert (without.parts.get("waits"), "waits" in without.models) == (None, False)
    built = build_release(**common, parts={"waits": WAITS})
    assert built.models["waits"]["name"] == "lucid-waits-small"
    assert any(part.title == "Answers about waits" for part in release_parts(built))
    verdict: dict[str, Any] = {"approved": True, "sentence": "No loss was found.", "objective": {}}
    record_verdict(**common, version=built.version, verdict=verdict)
    publish_release(**common, version=built.version)
    assert kept_policy(Site(registry=waits_shop.uri, cluster="small")).parts.get("waits") == WAITS

    registry = Registry(waits_shop.uri)
    manifest, files = read_release(registry, registry.version(built.name, built.version))
    assert manifest.to_data()["format_version"] == 6
    assert parse_manifest(manifest.to_bytes()) == manifest
    files[MANIFEST_FILE] = manifest.to_bytes()
    identity = identify("small", built.version, built.manifest_sha256)
    release, _ = verify_release("champion", identity, None, lambda file, most: files[file])
    assert "waits" in release.scorers.forecasts
    files["waits.json"] = files["waits.json"].replace(b"cpu", b"gpu", 1)
    with pytest.raises(ReleaseRefusedError, match=r"waits\.json"):
        verify_release("champion", identity, None, lambda file, most: files[file])


def test_from_a_shell_a_release_is_built_and_a_wait_explained(
    lucid: Any, waits_shop: ReleaseShop, queue_lake: Path
) -> None:
    common = ("--cluster", "small", "--lake", queue_lake, "--tracking-uri", waits_shop.uri)
    built = lucid("release", "build", *common, "--hold-out-days", 1, "--waits", "least_jobs=7", "--json")
    assert built.code == 0, built.err
    assert built.json["waits"] == {"least_jobs": 7, "recent_jobs": 500}
    assert "waits" in built.json["models"]
    lone = lucid("release", "build", *common, "--wait-model", 1)
    assert lone.code == 1
    assert "--waits" in lone.err

    jobs = make_queue_jobs(24)
    waited = jobs[jobs["queuing_delay_s"] > 600.0]["job_id"].iloc[-1]
    told = lucid("explain", "--model", "waits", *common, "--job", waited, "--json")
    assert told.code == 0, told.err
    (prediction,) = told.json["predictions"]
    assert prediction["of"] == f"job {waited}"
    assert "goes on waiting" in prediction["local"]["reason"]
    refused = lucid("explain", "--model", "waits", *common, "--job", "nobody")
    assert refused.code == 1
    assert "no job 'nobody'" in refused.err


def test_a_release_that_answers_needs_a_model_of_its_cluster(waits_shop: ReleaseShop) -> None:
    waits_shop.approved(1, cluster="other")  # which has all models but that of waits
    with pytest.raises(NotFoundError, match="lucid train waits"):
        build_release(tracking_uri=waits_shop.uri, cluster="other", parts={"waits": WAITS})


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"least": 3}, UnknownNameError),
        ({"least_jobs": 0}, BadInputError),
        ({"least_jobs": "many"}, BadInputError),
        ({"least_jobs": 50, "recent_jobs": 10}, BadInputError),
    ],
)
def test_settings_that_nothing_can_answer_by_are_refused(
    settings: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        pinned_waits(settings)
