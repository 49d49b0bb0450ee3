"""The part of sleeping nodes of a release: pinned, verified, shown, and followed by a live scheduler."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from cluster_logs.node_series import NodeSeries
from foundation.errors import NotFoundError, ReleaseRefusedError
from foundation.site import Site
from live_scheduler.release_store import verify_release
from lucid_models.boosting import BoostingSettings
from lucid_models.registry import Registry
from lucid_models.releases.approval import identify
from lucid_models.releases.files import load_release_scorers
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict, rollback_release
from lucid_models.releases.manifest import MANIFEST_FILE
from lucid_models.releases.store import read_release
from parts.node_sleep.demand.model import DemandSettings
from parts.node_sleep.demand.training import train_node_demand
from parts.node_sleep.steps.release_settings import pinned_node_sleep
from pipeline.release.current_release import kept_policy
from tests.fixtures import ReleaseShop

pytestmark = pytest.mark.slow

NEAR_BINS = 18
FAST = DemandSettings(near_bins=NEAR_BINS, boosting=BoostingSettings(bags=2, max_rounds=40, max_bins=16))


@pytest.fixture
def nodes_shop(local_shop: ReleaseShop, tmp_path: Path, node_bins: NodeSeries) -> Iterator[ReleaseShop]:
    """The shop with a forecast of nodes as well, which later tests do not see."""
    from mlflow import MlflowClient

    counts = pd.DataFrame(
        {
            "time": pd.to_datetime(node_bins.times_s, unit="s", utc=True),
            "total": 40,
            "busy": node_bins.running.astype(int),
            "held": node_bins.held,
            "origin": "slurm",
        }
    )
    lake = str(tmp_path / "lake")
    Lake(lake).write_node_states("small", counts[counts["time"] < pd.Timestamp("2020-04-12", tz="UTC")])
    train_node_demand(lake_uri=lake, cluster="small", tracking_uri=local_shop.uri, settings=FAST)
    yield local_shop
    MlflowClient(local_shop.uri).delete_registered_model("lucid-node-demand-small")


def approve(local_shop: ReleaseShop, version: int) -> None:
    verdict: dict[str, Any] = {"approved": True, "sentence": "No loss was found.", "objective": {}}
    record_verdict(tracking_uri=local_shop.uri, cluster="small", version=version, verdict=verdict)


def test_settings_and_forecast_are_pinned_published_kept_and_rolled_back(nodes_shop: ReleaseShop) -> None:
    common: dict[str, Any] = {"tracking_uri": nodes_shop.uri, "cluster": "small"}
    without = build_release(**common)
    assert without.parts.get("node_sleep") is None
    assert "node_demand" not in without.models
    sleep = pinned_node_sleep({"control": "forecast", "near_bins": NEAR_BINS, "buffer_nodes": 3})
    release = build_release(**common, parts={"node_sleep": sleep})
    assert release.version != without.version
    assert release.parts.get("node_sleep") == sleep
    assert release.models["node_demand"]["version"] == 1
    for version in (without.version, release.version):
        approve(nodes_shop, version)
        publish_release(**common, version=version)
    # A retraining keeps what the operator chose; a rollback takes it back with everything else.
    assert kept_policy(Site(registry=nodes_shop.uri, cluster="small")).parts.get("node_sleep") == sleep
    assert rollback_release(**common).parts.get("node_sleep") is None
    assert kept_policy(Site(registry=nodes_shop.uri, cluster="small")).parts.get("node_sleep") is None


def test_a_live_scheduler_gets_the_forecast_or_refuses_the_whole(nodes_shop: ReleaseShop) -> None:
    sleep = pinned_node_sleep({"control": "forecast", "near_bins": NEAR_BINS})
    built = build_release(tracking_uri=nodes_shop.uri, cluster="small", parts={"node_sleep": sleep})
    registry = Registry(nodes_shop.uri)
    manifest, files = read_release(registry, registry.version(built.name, built.version))
    assert set(files) == {"packing.json", "throughput.json", "duration.json", "node_demand.json"}
    identity = identify("small", built.version, built.manifest_sha256)
    files[MANIFEST_FILE] = manifest.to_bytes()
    release, _ = verify_release("champion", identity, None, lambda file, most: files[file])
    assert "node_demand" in release.scorers.forecasts
    assert release.scorers.forecasts["node_demand"].features.near_bins == NEAR_BINS
    files["node_demand.json"] = files["node_demand.json"].replace(b'"ceiling":40.0', b'"ceiling":41.0')
    with pytest.raises(ReleaseRefusedError, match=r"node_demand\.json has the SHA-256"):
        verify_release("champion", identity, None, lambda file, most: files[file])


def test_settings_that_no_control_can_be_opened_with_are_refused(local_shop: ReleaseShop) -> None:
    built = build_release(
        tracking_uri=local_shop.uri,
        cluster="small",
        parts={"node_sleep": {"control": "buffer", "buffers": 3}},
    )
    registry = Registry(local_shop.uri)
    manifest, files = read_release(registry, registry.version(built.name, built.version))
    files[MANIFEST_FILE] = manifest.to_bytes()
    identity = identify("small", built.version, built.manifest_sha256)
    with pytest.raises(ReleaseRefusedError, match="'buffers'"):
        verify_release("champion", identity, None, lambda file, most: files[file])


def test_a_forecast_that_looks_ahead_another_time_or_is_missing_is_told(nodes_shop: ReleaseShop) -> None:
    common: dict[str, Any] = {"tracking_uri": nodes_shop.uri, "cluster": "small"}
    ahead = pinned_node_sleep({"control": "forecast", "near_bins": 30})
    with pytest.raises(ReleaseRefusedError, match=f"{NEAR_BINS} bins ahead"):
        build_release(**common, parts={"node_sleep": ahead})
    sleep = pinned_node_sleep({"control": "forecast", "near_bins": NEAR_BINS})
    built = build_release(**common, parts={"node_sleep": sleep})
    registry = Registry(nodes_shop.uri)
    manifest, files = read_release(registry, registry.version(built.name, built.version))
    with pytest.raises(ReleaseRefusedError, match="bins ahead"):
        load_release_scorers(replace(manifest, parts={"node_sleep": {**sleep, "near_bins": 6}}), files)
    with pytest.raises(NotFoundError, match="lucid-node-demand"):
        build_release(
            tracking_uri=nodes_shop.uri,
            cluster="small",
            versions={"node_demand": 9},
            parts={"node_sleep": sleep},
        )
