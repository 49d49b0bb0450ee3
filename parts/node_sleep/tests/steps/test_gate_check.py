"""A release whose nodes sleep is asked for more by the gate; one without that part is not."""

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from parts.node_sleep.steps.release_settings import pinned_node_sleep
from tests.small_cluster import CLUSTER, World, validate

pytestmark = pytest.mark.slow

ASKED = {"sleeping_nodes_wake_ups", "sleeping_nodes_short", "sleeping_nodes_added_queuing"}


def test_sleeping_nodes_are_judged_on_counts_and_by_a_second_replay(world: World, tmp_path: Path) -> None:
    world = replace(world, lake_uri=str(shutil.copytree(world.lake_uri, tmp_path / "lake")))
    plain = validate(world, tmp_path / "plain")
    assert not any(one.name.startswith("sleeping_nodes") for one in plain.constraints)
    sleep = pinned_node_sleep({"control": "buffer", "buffer_nodes": 1, "boot_s": 60.0})
    release = replace(world.release, manifest=replace(world.release.manifest, parts={"node_sleep": sleep}))
    unmeasured = {one.name: one for one in validate(world, tmp_path / "no_counts", release).constraints}
    assert set(unmeasured) >= ASKED
    assert unmeasured["sleeping_nodes_wake_ups"].passed is None
    assert "node_states" in unmeasured["sleeping_nodes_wake_ups"].sentence
    added = unmeasured["sleeping_nodes_added_queuing"]
    assert added.challenger is not None
    assert added.passed is True
    times = pd.date_range(world.until - pd.Timedelta(days=2), periods=9 * 144, freq="10min")
    busy = [4 if time.hour % 6 else 1 for time in times]
    counts = pd.DataFrame({"time": times, "total": 6, "busy": busy, "held": False, "origin": "derived"})
    Lake(world.lake_uri).write_node_states(CLUSTER, counts)
    judged = {one.name: one for one in validate(world, tmp_path / "counts", release).constraints}
    # Demand rises by three nodes four times a day, and one idle node is awake.
    assert judged["sleeping_nodes_wake_ups"].challenger == pytest.approx(4.0, abs=0.5)
    assert judged["sleeping_nodes_wake_ups"].passed is False
    assert "wake-ups a day" in (tmp_path / "counts" / "verdict.md").read_text()
