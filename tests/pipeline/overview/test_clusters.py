"""What people see of their clusters at a glance, from a real registry and a real lake."""

import json
from pathlib import Path
from typing import Any

import pytest

from cluster_logs.lake import Lake
from cluster_logs.removal import remove_cluster
from foundation.site import Site
from lucid_models.releases.clusters import note_removal
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict, rollback_release
from pipeline.overview.clusters import ClusterAtAGlance, Overview, read_overview


@pytest.fixture
def lake(tmp_path: Path, small_tables: Any) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    lake.write_jobs("small", small_tables.jobs)
    return lake


@pytest.fixture
def look(lake: Lake, tmp_path: Path, local_shop: Any) -> Any:
    def read(tracking_uri: str = local_shop.uri) -> Overview:
        return read_overview(
            Site(lake=str(tmp_path / "lake"), registry=tracking_uri), monitoring_dir=tmp_path / "monitoring"
        )

    return read


def only(seen: Overview) -> ClusterAtAGlance:
    (cluster,) = seen.clusters
    assert cluster.name == "small"
    return cluster


def test_a_removed_cluster_leaves_nothing(look: Any, local_shop: Any, tmp_path: Path) -> None:
    version = local_shop.approved(1)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=version)
    note_removal(local_shop.uri, "small")
    assert only(look()).live, "it has jobs: it was brought back"
    remove_cluster(str(tmp_path / "lake"), "small")
    assert look().clusters == []


def test_a_cluster_says_what_it_lacks_and_which_form_brings_it(look: Any) -> None:
    cluster = only(look())
    assert (cluster.live, cluster.challenger) == (None, None)
    assert cluster.data is not None
    assert cluster.data.days == 10
    assert cluster.data.old, "the log is of 2020"
    assert [missing.dag_id for missing in cluster.missing] == ["ingest_logs", "retrain_models"]


def test_the_live_release_says_who_decided_and_the_challenger_what_is_in_its_way(
    look: Any, local_shop: Any
) -> None:
    first = local_shop.approved(1)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=first, by="ann", because="better")
    second = build_release(tracking_uri=local_shop.uri, cluster="small", settings={"gss": 1}).version
    cluster = only(look())
    assert cluster.live is not None
    assert cluster.live.decision is not None
    assert (cluster.live.version, cluster.live.decision.by) == (first, "ann")
    assert cluster.challenger is not None
    assert (cluster.challenger.version, cluster.challenger.verdict) == (second, None)
    assert cluster.obstacles, "it was not judged"
    assert [missing.dag_id for missing in cluster.missing][-2:] == ["validate_release", "monitor_live"]

    verdict = {"approved": False, "sentence": "Refused: <b>slower</b>."}
    record_verdict(tracking_uri=local_shop.uri, cluster="small", version=second, verdict=verdict)
    cluster = only(look())
    assert cluster.challenger is not None
    assert (cluster.challenger.verdict, cluster.challenger.sentence) == ("refused", "Refused: <b>slower</b>.")

    third = local_shop.approved(2)
    publish_release(tracking_uri=local_shop.uri, cluster="small", version=third, by="ben")
    assert only(look()).previous == first
    rollback_release(tracking_uri=local_shop.uri, cluster="small", by="cat", because="slow")
    cluster = only(look())
    assert cluster.live is not None
    assert cluster.live.decision is not None
    assert (cluster.live.version, cluster.live.decision.kind, cluster.previous) == (first, "rollback", third)
    assert cluster.challenger is not None
    assert cluster.challenger.rolled_back is not None


def test_a_registry_that_does_not_answer_is_said_and_the_data_are_shown(look: Any) -> None:
    seen = look(tracking_uri="http://127.0.0.1:1")
    assert seen.problem is not None
    assert only(seen).data is not None


def test_the_newest_monitoring_pass_stands_with_those_before_it(look: Any, tmp_path: Path) -> None:
    for day, decision in ((1, "ok"), (2, "watch"), (3, "retrain")):
        folder = tmp_path / "monitoring" / "small" / f"2020-05-0{day}T0000Z-r1"
        folder.mkdir(parents=True)
        report = {
            "decision": decision,
            "window": {"end": f"2020-05-0{day}T00:00:00+00:00"},
            "release_version": 1,
            "reasons": ["Errors grew."] if day == 3 else [],
            "duration": {
                "overall": {"mae_log10": 0.1 * day, "naive_mae_log10": 1.0} if day > 1 else None,
                "validation": {"mae_log10": 0.2},
            },
        }
        (folder / "report.json").write_text(json.dumps(report))
    monitored = only(look()).monitored
    assert monitored is not None
    assert (monitored.decision, monitored.reasons) == ("retrain", ["Errors grew."])
    assert monitored.page == "small/2020-05-03T0000Z-r1/index.html"
    assert [one.decision for one in monitored.history] == ["ok", "watch", "retrain"]
    assert [one.error_factor for one in monitored.history] == [
        None,
        pytest.approx(10**0.2),
        pytest.approx(10**0.3),
    ]
    assert [one.naive_factor for one in monitored.history] == [None, 10.0, 10.0]
    assert monitored.history[-1].validation_factor == pytest.approx(10**0.2)
