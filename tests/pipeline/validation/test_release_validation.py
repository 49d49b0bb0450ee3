"""Validation of a release on a small, congested cluster, with real models; once through a real MLflow."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError, UnknownNameError
from foundation.site import Site
from lucid_models.releases.manifest import Provenance, Training
from pipeline.release.release_settings import GateSettings
from pipeline.validation.held_out_days import HeldOutDays
from simulator.gate.verdict import LATENCY, Verdict
from tests.small_cluster import (
    CLUSTER,
    HOLD_OUT_DAYS,
    QUICK,
    World,
    believing,
    fill_lake,
    make_jobs,
    validate,
)


@pytest.fixture(scope="session")
def first(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdict, Path]:
    out = tmp_path_factory.mktemp("verdict")
    return validate(world, out), out


def test_a_sound_release_is_approved_against_the_sites_order_and_beside_all_rivals(
    first: tuple[Verdict, Path],
) -> None:
    verdict, _ = first
    assert verdict.approved, verdict.sentence
    names = [row["policy"] for row in verdict.policies]
    assert names == ["challenger", "site_order", "fifo", "qssf", "sjf", "tiresias", "tsafrir"]
    assert float(verdict.objective["change_pct"] or 0) < 0
    beside_fifo = next(row for row in verdict.comparisons if row["policy"] == "fifo")
    assert float(beside_fifo["change_pct"] or 0) < -10  # the cluster is congested: order matters
    assert "There is no champion yet: the reference is the site's order." in verdict.assumptions
    assert verdict.subject["site_order"] == "EASY backfilling by Tsafrir's estimates"
    assert (verdict.grade or {})["explains"][0]["name"] == "nodes"  # the log has more GPUs in use
    assert any("drawn from the" in said for said in verdict.assumptions)
    assert any("simulated GPU" in said for said in verdict.assumptions)


def test_the_window_lies_after_training_and_the_warm_up_is_not_counted(
    world: World, first: tuple[Verdict, Path]
) -> None:
    subject = first[0].subject
    assert datetime.fromisoformat(subject["window_start"]) >= world.until.replace(microsecond=0)
    jobs = make_jobs()
    times = jobs["submit_time"]
    assert subject["jobs_judged"] == int((times >= world.until).sum())
    begins = world.until - timedelta(days=2)
    warm = (times >= begins) & (times < world.until)
    ran_then = (times < begins) & (jobs["end_time"] > begins)
    assert subject["jobs_in_warm_up"] == int((warm | ran_then).sum()) > int(warm.sum()) > 0
    assert all(row["jobs"] == subject["jobs_judged"] for row in first[0].policies)


def test_the_files_say_what_was_decided_and_on_what(first: tuple[Verdict, Path]) -> None:
    verdict, out = first
    assert sorted(path.name for path in out.iterdir()) == [
        "jct_cdf.png",
        "policies.csv",
        "policies.md",
        "queuing_by_virtual_cluster.csv",
        "queuing_by_virtual_cluster.png",
        "run_manifest.json",
        "verdict.json",
        "verdict.md",
    ]
    assert Verdict.from_dict(json.loads((out / "verdict.json").read_text())) == verdict
    page = (out / "verdict.md").read_text()
    assert page.startswith("# Approved\n\nApproved: mean JCT")
    assert "| starved_jobs | passed |" in page
    table = pd.read_csv(out / "policies.csv").set_index("policy")
    assert table.loc["site_order", "mean_jct_s"] == verdict.objective["reference"]
    manifest = json.loads((out / "run_manifest.json").read_text())
    assert manifest["inputs"]["jobs"]["rows"] == 1_800
    assert len(manifest["inputs"]["jobs"]["sha256"]) == 64
    assert manifest["seeds"] == {"bootstrap": 0, "job_types": 0}
    assert manifest["packages"]["numpy"] == np.__version__
    assert manifest["settings"]["rules"]["objective"] == "mean_jct_s"
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in ("jct_cdf.png",))


def test_the_same_release_twice_gives_the_same_verdict(
    world: World, first: tuple[Verdict, Path], tmp_path: Path
) -> None:
    again = validate(world, tmp_path)
    assert again.digest() == first[0].digest()

    def without_latency(path: Path) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((path / "verdict.json").read_text())
        data["constraints"] = [c for c in data["constraints"] if c["name"] != LATENCY]
        return data

    assert without_latency(tmp_path) == without_latency(first[1])
    for name in ("policies.csv", "jct_cdf.png", "queuing_by_virtual_cluster.png"):
        assert (tmp_path / name).read_bytes() == (first[1] / name).read_bytes()


def test_an_equal_challenger_is_approved_against_the_champion(world: World, tmp_path: Path) -> None:
    verdict = validate(world, tmp_path, champion=world.release)
    assert verdict.approved
    assert verdict.reference == "champion"
    assert verdict.objective["change_s"] == 0.0
    assert verdict.objective["change_high_pct"] == 0.0


def test_reversed_estimates_are_refused(world: World, tmp_path: Path) -> None:
    backwards = believing(world, lambda estimate_s: 1e9 / estimate_s)
    verdict = validate(world, tmp_path, backwards, champion=world.release)
    assert not verdict.approved
    assert verdict.objective["passed"] is False
    assert verdict.objective["change_pct"] > 0
    assert verdict.sentence.startswith("Refused: mean JCT")
    assert (tmp_path / "verdict.md").read_text().startswith("# Refused")


def test_unusable_estimates_are_refused_by_name(world: World, tmp_path: Path) -> None:
    def spoil(estimate_s: np.ndarray) -> np.ndarray:
        spoilt = estimate_s.copy()
        spoilt[7:11] = [np.nan, np.inf, -1.0, 0.0]
        return spoilt

    verdict = validate(world, tmp_path, believing(world, spoil))
    assert not verdict.approved
    assert [c.name for c in verdict.failed] == ["estimates_finite_and_positive"]
    assert "4 of " in verdict.failed[0].sentence
    assert "challenger" not in [row["policy"] for row in verdict.policies]
    assert Verdict.from_dict(json.loads((tmp_path / "verdict.json").read_text())) == verdict


def test_a_champion_with_unusable_estimates_does_not_stop_its_successor(world: World, tmp_path: Path) -> None:
    broken = believing(world, lambda estimate_s: estimate_s * np.nan)
    verdict = validate(world, tmp_path, champion=broken)
    assert verdict.approved
    assert verdict.reference == "site_order"
    assert any("champion (release 1) gives unusable predictions" in said for said in verdict.assumptions)


def test_a_window_that_overlaps_training_is_refused_with_the_way_out(world: World, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"window of 6 days begins at 2020-04-1.*Hold out at most 5 days"):
        validate(world, tmp_path, held_out=HeldOutDays(6))
    late = believing(world, lambda e: e, training=Training("2030-01-01T00:00:00+00:00", {}))
    with pytest.raises(BadInputError, match=r"nothing to judge.*2030-01-01"):
        validate(world, tmp_path, late)
    unsaid = believing(world, lambda e: e, training=Training(None, {}))
    with pytest.raises(BadInputError, match=r"does not say until when"):
        validate(world, tmp_path, unsaid)
    with pytest.raises(BadInputError, match=r"built for cluster 'other'"):
        validate(world, tmp_path, believing(world, lambda e: e, cluster="other"))


def test_a_lake_without_nodes_says_how_to_give_them(world: World, tmp_path: Path) -> None:
    Lake(str(tmp_path)).write_jobs(CLUSTER, make_jobs())
    with pytest.raises(NotFoundError, match=r"size of cluster 'small'.*lucid ingest .* --nodes"):
        validate(world, tmp_path / "out", lake_uri=str(tmp_path))


def test_jobs_of_unknown_virtual_clusters_and_too_big_ones_are_counted_out_loud(
    world: World, tmp_path: Path
) -> None:
    jobs = make_jobs()
    jobs.loc[jobs.index[-3:], "virtual_cluster"] = "gone"
    jobs.loc[jobs.index[-5:-3], "gpus"] = 64
    fill_lake(str(tmp_path), jobs)
    verdict = validate(world, tmp_path / "out", lake_uri=str(tmp_path))
    assert "3 jobs are left out of the replay: unknown virtual cluster." in verdict.assumptions
    assert "2 jobs are left out of the replay: bigger than virtual cluster." in verdict.assumptions


def test_job_types_from_the_log_only_means_unknown_jobs_never_share(world: World, tmp_path: Path) -> None:
    verdict = validate(world, tmp_path, settings=replace(QUICK, job_types="log"))
    assert verdict.policies[0]["colocated_jobs"] == 0
    assert any("they never share their GPUs" in said for said in verdict.assumptions)
    with pytest.raises(UnknownNameError, match=r"'guess'.*drawn, log"):
        validate(world, tmp_path, settings=replace(QUICK, job_types="guess"))


def test_profiles_of_the_log_are_used_where_it_has_them(world: World, tmp_path: Path) -> None:
    jobs = make_jobs().assign(gpu_util_pct=5.0, gpu_mem_util_pct=3.0, gpu_mem_mib=1_000.0)
    fill_lake(str(tmp_path), jobs)
    verdict = validate(world, tmp_path / "out", lake_uri=str(tmp_path))
    assert not any("drawn" in said for said in verdict.assumptions)
    assert int(verdict.policies[0]["colocated_jobs"] or 0) > 0


def test_progress_names_every_contender(world: World, tmp_path: Path) -> None:
    heard: list[str] = []
    validate(world, tmp_path, progress=lambda done, total, what: heard.append(what))
    for name in ("challenger", "site_order", "fifo", "sjf", "qssf", "tsafrir", "tiresias"):
        assert f"replaying {name}" in heard


def test_settings_out_of_range_are_named() -> None:
    with pytest.raises(BadInputError, match=r"warm_up_days is -1"):
        GateSettings(warm_up_days=-1)


def test_a_release_that_orders_only_is_judged_without_its_packing_model(world: World, tmp_path: Path) -> None:
    manifest = replace(
        world.release.manifest,
        settings={"sharing": "none", "profiling_nodes": 0, "borrowed_nodes_max": 0},
        provenance=Provenance(simulated_profiles=True, synthetic_logs=False),
    )
    verdict = validate(world, tmp_path, replace(world.release, manifest=manifest))
    assert verdict.approved, verdict.sentence
    named = {each.name: each for each in verdict.constraints}
    assert "decides nothing" in named["simulated_profiles"].sentence
    assert [name for name in named if name.startswith("sharing_scores")] == []
    assert "Release 2 orders jobs and lets none share GPUs." in verdict.assumptions


def test_from_training_to_a_published_release_in_a_real_registry(
    world: World, mlflow_server: str, trained_versions: dict[str, int], tmp_path: Path
) -> None:
    from lucid_models.releases.lifecycle import (
        build_release,
        publish_release,
        record_verdict,
        show_release,
    )
    from pipeline.validation.release_validation import validate_release

    site = Site(world.lake_uri, mlflow_server, CLUSTER)
    settings = {"allow_simulated_profiles": True}
    build = {
        "tracking_uri": mlflow_server,
        "cluster": CLUSTER,
        "versions": trained_versions,
        "training_until": world.until,
    }
    release = build_release(**build, settings=settings)
    verdict = validate_release(
        site, held_out=HeldOutDays(HOLD_OUT_DAYS), settings=QUICK, out_dir=tmp_path / "first"
    ).verdict
    assert verdict.approved, verdict.sentence
    assert verdict.subject["release"] == release.version
    champion = publish_release(tracking_uri=mlflow_server, cluster="small")
    assert champion.version == release.version
    shown = show_release(tracking_uri=mlflow_server, cluster="small", alias="champion")
    assert shown.verdict["digest"] == verdict.digest()

    successor = build_release(**build, settings=settings | {"sharing": "none"})
    beside = validate_release(site, held_out=HeldOutDays(HOLD_OUT_DAYS), settings=QUICK).verdict
    assert beside.subject["release"] == successor.version
    assert beside.subject["champion_release"] == champion.version
    assert beside.reference == "champion"
    # What if the gate asked for much more? A study says so beside the verdict, which stays as it was.
    rules = replace(QUICK.rules, margin_pct=0.0, fairness_min_jobs=50)
    strict = replace(QUICK, rules=rules, stated=("fairness_min_jobs", "margin_pct"))
    study = validate_release(
        site, held_out=HeldOutDays(HOLD_OUT_DAYS), settings=strict, out_dir=tmp_path / "study"
    )
    assert study.verdict.study == "fairness_min_jobs = 50, margin_pct = 0.0"
    assert study.verdict.sentence.startswith(
        "A study, not the verdict, of what follows from fairness_min_jobs"
    )
    assert (tmp_path / "study" / "verdict.md").read_text().startswith("# Study: ")
    in_small = {"tracking_uri": mlflow_server, "cluster": CLUSTER, "version": successor.version}
    kept = show_release(**in_small)
    assert kept.verdict["digest"] == beside.digest()
    assert kept.verdict["run_id"] not in study.mlflow_path
    with pytest.raises(BadInputError, match="A study is not a verdict"):
        record_verdict(**in_small, verdict=study.verdict.to_dict())

    itself = validate_release(
        site, version=champion.version, held_out=HeldOutDays(HOLD_OUT_DAYS), settings=QUICK
    )
    assert itself.verdict.reference == "site_order"
    assert any("is itself the champion" in said for said in itself.verdict.assumptions)
