"""The gate on releases that run PCS: by estimates, against the champion's policy and FIFO, at a price."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.release.release_settings import pinned_settings
from simulator.gate.verdict import Verdict
from tests.small_cluster import QUICK, Release, World, validate

pytestmark = pytest.mark.slow

# Small jobs have most of the cluster to themselves, and never wait for large ones.
SMALL_FIRST = {
    "thresholds_s": [3_000.0, 20_000.0, "inf"],
    "weights": [0.8, 0.15, 0.05],
    "efficiency_min": 0.5,
    "efficiency_step": 0.25,
}


def running_pcs(world: World, **choice: Any) -> Release:
    chosen = {
        "point": "c3",
        "expected": {"JCT:avg": 9_000.0, "Pred_err:p99": 40.0},
        "objective": "mean_pred_err_pct",
        "jct_price_pct": 400.0,
        **choice,
    }
    manifest = replace(
        world.release.manifest, policy="pcs", settings=pinned_settings(SMALL_FIRST, "pcs"), choice=chosen
    )
    return replace(world.release, manifest=manifest)


@pytest.fixture(scope="module")
def beside_lucid(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdict, Path]:
    out = tmp_path_factory.mktemp("pcs")
    settings = replace(QUICK, rules=replace(QUICK.rules, foretold_jobs=120))
    return validate(world, out, running_pcs(world), champion=world.release, settings=settings), out


def rows(verdict: Verdict) -> dict[str, dict[str, Any]]:
    return {str(row["policy"]): dict(row) for row in verdict.policies}


def test_it_is_judged_by_what_it_was_chosen_for(beside_lucid: tuple[Verdict, Path]) -> None:
    verdict, out = beside_lucid
    assert verdict.objective["name"] == "mean_pred_err_pct"
    assert verdict.reference == "champion"
    assert (verdict.subject["policy"], verdict.subject["champion_policy"]) == ("pcs", "lucid")
    assert verdict.rules["jct_price_pct"] == 400.0
    assert "price_in_mean_jct" in [c.name for c in verdict.constraints]
    found = rows(verdict)
    for name in ("challenger", "champion"):
        assert found[name]["predicted_jobs"] == 120
        assert float(found[name]["mean_pred_err_pct"]) > 0  # estimates are not the truth
    assert found["fifo"]["predicted_jobs"] is None
    page = (out / "verdict.md").read_text()
    assert "mean prediction error" in page
    assert "runs pcs, by its models' estimates of run times" in page
    assert "it is point c3 of a front" in page
    assert f"The ends of 120 of {verdict.subject['jobs_judged']} jobs were predicted" in page
    assert Verdict.from_dict(json.loads((out / "verdict.json").read_text())) == verdict


def test_by_true_run_times_only_the_waiting_is_uncertain(
    world: World, beside_lucid: tuple[Verdict, Path], tmp_path: Path
) -> None:
    rules = replace(QUICK.rules, foretold_jobs=120, foretold_by="true")
    settings = replace(QUICK, rules=rules)
    verdict = validate(world, tmp_path, running_pcs(world), champion=world.release, settings=settings)
    for name in ("challenger", "champion"):
        by_truth, by_estimates = (rows(v)[name] for v in (verdict, beside_lucid[0]))
        assert by_truth["mean_jct_s"] == by_estimates["mean_jct_s"]  # the schedule is the same
        assert float(by_truth["mean_pred_err_pct"]) < float(by_estimates["mean_pred_err_pct"]) / 2


def test_sizes_are_what_the_release_estimates(
    world: World, beside_lucid: tuple[Verdict, Path], tmp_path: Path
) -> None:
    from tests.small_cluster import believing

    manifest = running_pcs(world).manifest
    all_alike = replace(
        running_pcs(world), duration=believing(world, lambda estimate_s: estimate_s * 0 + 600.0).duration
    )
    by_jct = replace(QUICK, stated=("objective",))  # nobody's end has to be predicted
    alike = validate(world, tmp_path, replace(all_alike, manifest=manifest), settings=by_jct)
    assert rows(alike)["challenger"]["mean_jct_s"] != rows(beside_lucid[0])["challenger"]["mean_jct_s"]


def test_a_person_may_state_other_rules(world: World, tmp_path: Path) -> None:
    stated = replace(QUICK, stated=("objective",))
    verdict = validate(world, tmp_path, running_pcs(world), champion=world.release, settings=stated)
    assert verdict.objective["name"] == "mean_jct_s"
    assert rows(verdict)["challenger"]["predicted_jobs"] is None


def test_without_a_champion_mean_jct_counts_beside_the_sites_order(world: World, tmp_path: Path) -> None:
    few = replace(QUICK, rules=replace(QUICK.rules, foretold_jobs=30))
    verdict = validate(world, tmp_path, running_pcs(world), settings=few)
    assert (verdict.reference, verdict.objective["name"]) == ("site_order", "mean_jct_s")
    # Predictable, and slower than what backfilling does without any release: no gain by the site's yardstick.
    assert float(verdict.objective["change_pct"] or 0) > 0
    assert not verdict.approved
