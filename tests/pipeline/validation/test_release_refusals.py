"""Models that a release may not hold: each is refused by name, with the figure that speaks against it."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cluster_logs.job_table import derive_throughput
from cluster_logs.lake import Lake
from foundation.errors import ReleaseRefusedError
from foundation.site import Site
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.duration.queue_scorer import QueueScorer
from lucid_models.packing.model import PackingAnalyzeModel, feature_matrix, label_configurations
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings
from lucid_models.throughput.scorer import ThroughputForecasts
from pipeline.validation import decision_latency
from pipeline.validation.held_out_days import HeldOutDays
from simulator.gate.verdict import Constraint, Verdict
from tests.small_cluster import (
    CLUSTER,
    FAST,
    HOLD_OUT_DAYS,
    QUICK,
    Release,
    World,
    believing,
    fill_lake,
    make_jobs,
    simulated_profiles,
    validate,
)

pytestmark = pytest.mark.slow


def constraint(verdict: Verdict, name: str) -> Constraint:
    return next(c for c in verdict.constraints if c.name == name)


def failed(verdict: Verdict) -> list[str]:
    return [c.name for c in verdict.failed]


def shuffled(world: World, seed: int) -> Release:
    """The release as it comes out when each model learns from targets that belong to other rows."""
    rng = np.random.default_rng(seed)
    jobs = make_jobs()
    jobs = jobs[jobs["submit_time"] < world.until].copy()
    jobs["duration_s"] = rng.permutation(jobs["duration_s"].to_numpy())
    duration = WorkloadEstimateModel(DurationSettings(log_boosting=FAST, mean_boosting=FAST))
    duration.fit(jobs, known_until=world.until)
    past = Lake(world.lake_uri).read_throughput(CLUSTER, end=world.until)
    scorers = {}
    for series in ("submitted_gpu_jobs", "submitted_gpus"):
        mixed = past.assign(**{series: rng.permutation(past[series].to_numpy())})
        model = ThroughputPredictModel(ThroughputSettings(boosting=FAST)).fit(mixed, series)
        scorers[series] = model.scorer
    profiles = simulated_profiles()
    labels = label_configurations(profiles.solo, profiles.pairs)
    paired = profiles.solo.set_index("job_type").loc[list(labels.job_types)].reset_index()
    packing = PackingAnalyzeModel().fit_labelled(feature_matrix(paired), rng.permutation(labels.scores))
    return replace(world.release, packing=packing, throughput=ThroughputForecasts(scorers), duration=duration)


def test_models_trained_on_shuffled_targets_are_not_promoted_however_lucky(
    world: World, tmp_path: Path
) -> None:
    lucky = shuffled(world, seed=1)
    for part in ("duration", "packing"):
        alone = replace(world.release, **{part: getattr(lucky, part)})
        name = {"duration": "run_time_estimates_beside_naive", "packing": "sharing_scores_beside_naive"}[part]
        verdict = validate(world, tmp_path / part, alone)
        assert not verdict.approved
        assert name in failed(verdict)
        assert name.replace("_", " ") in verdict.sentence
    verdict = validate(world, tmp_path / "all", lucky, champion=world.release)
    assert not verdict.approved
    assert {"run_time_estimates_beside_naive", "sharing_scores_beside_naive"} <= set(failed(verdict))


def test_a_sound_release_shows_each_models_error_beside_a_naive_one(world: World, tmp_path: Path) -> None:
    verdict = validate(world, tmp_path)
    assert verdict.approved, verdict.sentence
    for name in ("run_time_estimates", "job_forecasts", "gpu_forecasts", "sharing_scores"):
        found = constraint(verdict, f"{name}_beside_naive")
        assert found.passed is True, found.sentence
        assert found.challenger is not None
        assert found.reference is not None
    forecasts = constraint(verdict, "job_forecasts_beside_naive")
    assert 0 < float(forecasts.challenger or 0) < float(forecasts.reference or 0)
    assert "run_time_estimates_beside_naive | passed" in (tmp_path / "verdict.md").read_text()


def test_unusable_forecasts_are_refused_by_name(world: World, tmp_path: Path) -> None:
    sound = world.release.throughput.scorer("submitted_gpus")

    def spoil(counts: Any, first_bin_s: int) -> np.ndarray:
        forecast = sound.predict_series(counts, first_bin_s)
        forecast[-5:-2] = [np.nan, np.inf, -1.0]
        return np.asarray(forecast)

    spoilt = SimpleNamespace(features=sound.features, predict_series=spoil)
    both = {
        "submitted_gpus": spoilt,
        "submitted_gpu_jobs": world.release.throughput.scorer("submitted_gpu_jobs"),
    }
    release = replace(world.release, throughput=SimpleNamespace(scorer=both.__getitem__))
    verdict = validate(world, tmp_path, release)
    assert not verdict.approved
    assert "gpu_forecasts_usable" in failed(verdict)
    assert constraint(verdict, "gpu_forecasts_usable").challenger == 3.0
    assert constraint(verdict, "job_forecasts_usable").passed is True


def test_a_score_that_does_not_exist_is_refused(world: World, tmp_path: Path) -> None:
    packing = SimpleNamespace(
        settings=world.release.packing.settings,
        pairwise=None,
        predict=lambda *metrics: np.full(np.size(metrics[0]), 3),
    )
    verdict = validate(world, tmp_path, replace(world.release, packing=packing))
    assert "sharing_scores_usable" in failed(verdict)


def test_a_release_that_is_slower_than_its_budget_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, bytes]] = []
    estimate = QueueScorer.estimate

    def recorded(queue: QueueScorer, at_s: float) -> Any:
        estimates = estimate(queue, at_s)
        asked.append((at_s, estimates.tobytes()))
        return estimates

    monkeypatch.setattr(QueueScorer, "estimate", recorded)
    learned_until_s = world.release.duration.scorer.state.now_s
    rules = replace(QUICK.rules, decision_latency_limit_ms=0.001)
    verdict = validate(world, tmp_path, settings=replace(QUICK, rules=rules))
    assert failed(verdict) == ["decision_latency_ms"]
    assert not verdict.approved
    decisions = asked[-8:]
    assert len({at_s for at_s, _ in decisions}) == len({each for _, each in decisions}) == 8, "each is anew"
    assert world.release.duration.scorer.state.now_s == learned_until_s


def test_a_machine_that_is_busy_with_something_else_refuses_nobody(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(QueueScorer):
        def estimate(self, at_s: float) -> Any:
            time.sleep(0.2)  # others have the processor
            return super().estimate(at_s)

    monkeypatch.setattr(decision_latency, "QueueScorer", Interrupted)
    rules = replace(QUICK.rules, decision_latency_limit_ms=150.0)
    verdict = validate(world, tmp_path, settings=replace(QUICK, rules=rules))
    assert constraint(verdict, "decision_latency_ms").passed


def test_without_throughput_in_the_lake_no_forecast_takes_part_and_that_is_said(
    world: World, tmp_path: Path
) -> None:
    fill_lake(str(tmp_path), make_jobs())
    verdict = validate(world, tmp_path / "out", lake_uri=str(tmp_path))
    assert any("no forecast took part" in said for said in verdict.assumptions)
    assert not any(c.name.endswith("forecasts_usable") for c in verdict.constraints)


def test_a_release_that_does_not_load_is_refused_and_the_reason_recorded(
    world: World,
    mlflow_server: str,
    trained_versions: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lucid_models.releases import lifecycle as releases
    from lucid_models.releases.lifecycle import build_release, publish_release, show_release
    from pipeline.validation.held_out_days import HeldOutDays
    from pipeline.validation.release_validation import validate_release

    site = Site(world.lake_uri, mlflow_server, CLUSTER)
    release = build_release(
        tracking_uri=mlflow_server,
        cluster=CLUSTER,
        versions=trained_versions,
        training_until=world.until,
        settings={"allow_simulated_profiles": True},
    )
    whole = releases.read_release

    def cut_off(*arguments: Any) -> Any:
        manifest, files = whole(*arguments)
        return manifest, {**files, "duration.json": files["duration.json"][:-100]}

    monkeypatch.setattr(releases, "read_release", cut_off)
    verdict = validate_release(site, held_out=HeldOutDays(5), settings=QUICK, out_dir=tmp_path).verdict
    assert not verdict.approved
    assert failed(verdict) == ["release_loads"]
    assert "duration.json holds" in verdict.failed[0].sentence
    assert "could not be replayed" in verdict.sentence
    assert (tmp_path / "verdict.md").read_text().startswith("# Refused")
    monkeypatch.setattr(releases, "read_release", whole)
    shown = show_release(tracking_uri=mlflow_server, cluster="small", version=release.version)
    assert shown.verdict["approved"] is False
    with pytest.raises(ReleaseRefusedError):
        publish_release(tracking_uri=mlflow_server, cluster="small")


def test_the_gate_holds_in_a_week_that_is_unlike_all_before(world: World, tmp_path: Path) -> None:
    """All users have new names, every job asks for twice the GPUs, and one day is missing."""
    jobs = make_jobs()
    fresh = (jobs["submit_time"] >= world.until).to_numpy()
    jobs.loc[fresh, "user"] = "renamed-" + jobs.loc[fresh, "user"]
    jobs.loc[fresh, "gpus"] *= 2
    missing = jobs["submit_time"].dt.floor("D") == (pd.Timestamp(world.until) + pd.Timedelta(days=2)).floor(
        "D"
    )
    assert missing.sum() > 50
    jobs = jobs[~missing]
    fill_lake(str(tmp_path), jobs)
    lake = Lake(str(tmp_path))
    lake.replace_derived_throughput(CLUSTER, derive_throughput(lake.iter_jobs(CLUSTER)))
    held_out = HeldOutDays(HOLD_OUT_DAYS - 1)  # days with jobs
    verdict = validate(world, tmp_path / "out", lake_uri=str(tmp_path), held_out=held_out)
    judged = int(fresh[~missing.to_numpy()].sum())
    assert verdict.subject["jobs_judged"] == judged
    for name in (
        "estimates_finite_and_positive",
        "job_forecasts_usable",
        "gpu_forecasts_usable",
        "every_job_ends",
    ):
        assert constraint(verdict, name).passed is True
    # Whatever it decides, it measured both sides, and a refusal names what speaks against the release.
    assert verdict.objective["change_high_s"] is not None
    assert constraint(verdict, "run_time_estimates_beside_naive").passed is not None
    assert verdict.approved == (not verdict.failed and bool(verdict.objective["passed"]))
    nonsense = believing(world, lambda estimate_s: 1e9 / estimate_s)
    refused = validate(world, tmp_path / "nonsense", nonsense, lake_uri=str(tmp_path), held_out=held_out)
    assert not refused.approved
    assert "run_time_estimates_beside_naive" in failed(refused)
