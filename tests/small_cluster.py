"""A small, congested cluster in a lake, with a release of real models that were trained on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.job_table import derive_throughput
from cluster_logs.lake import Lake
from foundation.progress import silent
from foundation.site import Site
from lucid_models.boosting import BoostingSettings
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.packing.model import PackingAnalyzeModel
from lucid_models.releases.manifest import (
    MODEL_KINDS,
    ModelPin,
    Provenance,
    ReleaseManifest,
    Training,
    release_name,
)
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings
from lucid_models.throughput.scorer import SERIES, ThroughputForecasts
from pipeline.profiling.profile_store import write_profile_set
from pipeline.release.release_settings import GateSettings
from pipeline.training.windows import training_window_end
from pipeline.validation.contest import Candidate, Candidates
from pipeline.validation.held_out_days import HeldOutDays
from pipeline.validation.release_validation import prove
from profiler_jobs.campaign import measure_simulated_profiles
from profiler_jobs.profile_table import ProfileSet
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Verdict

CLUSTER = "small"
HOLD_OUT_DAYS = 5
FAST = BoostingSettings(bags=2, max_rounds=150, max_bins=32, learning_rate=0.15)
# Its log has every job start at once, which no cluster of its size can replay: grade D.
QUICK = GateSettings(rules=GateRules(resamples=400, decision_jobs=256, worst_grade="D"))


def make_jobs(jobs: int = 1_800, days: float = 18.0, seed: int = 4) -> pd.DataFrame:
    """Users with habits of their own, on a cluster with too few GPUs at noon."""
    rng = np.random.default_rng(seed)
    user, kind = rng.integers(0, 8, jobs), rng.integers(0, 4, jobs)
    gpus = rng.choice([1, 2, 4, 8], jobs, p=[0.6, 0.2, 0.1, 0.1])
    typical = np.exp(rng.normal(7.6, 1.5, (8, 4)))
    duration = np.round(typical[user, kind] * gpus**0.3 * np.exp(rng.normal(0, 0.4, jobs)), 3)
    hour = np.clip(rng.normal(12, 3, jobs), 0, 23.99)
    seconds = np.sort(rng.integers(0, int(days), jobs) * 86_400 + hour * 3_600)
    submit = pd.Timestamp("2020-04-01", tz="UTC") + pd.to_timedelta(np.round(seconds), unit="s")
    return pd.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(jobs)],
            "virtual_cluster": [f"vc{u % 3}" for u in user],
            "user": [f"u{u}" for u in user],
            "name": [f"net{k}_lr{int(r)}" for k, r in zip(kind, rng.integers(0, 3, jobs), strict=True)],
            "gpus": gpus,
            "gpu_share": 1.0,
            "state": "COMPLETED",
            "submit_time": submit,
            "start_time": submit,
            "end_time": submit + pd.to_timedelta(duration, unit="s"),
            "duration_s": np.minimum(duration, 200_000.0),
            "service_s": np.minimum(duration, 200_000.0),
            "queuing_delay_s": 0.0,
            "source_file": "jobs.csv",
            "source_row": np.arange(1, jobs + 1),
        }
    )


@cache
def simulated_profiles() -> ProfileSet:
    """The profiles of the simulated GPU, measured once; no test may change them."""
    return measure_simulated_profiles(0)


def train_and_register(world: "World", tracking_uri: str) -> dict[str, int]:
    """Train all three models for a registry; returns the version of each."""
    from lucid_models.training import train_duration, train_packing, train_throughput

    profiles = simulated_profiles()
    known: dict[str, Any] = {
        "lake_uri": world.lake_uri,
        "cluster": CLUSTER,
        "tracking_uri": tracking_uri,
        "train_until": world.until,
    }
    heads = DurationSettings(log_boosting=FAST, mean_boosting=FAST)
    trained = {
        "packing": train_packing(solo=profiles.solo, pairs=profiles.pairs, tracking_uri=tracking_uri),
        "throughput": train_throughput(**known, settings=ThroughputSettings(boosting=FAST)),
        "duration": train_duration(**known, settings=heads),
    }
    return {kind: report.version for kind, report in trained.items()}


def fill_lake(uri: str, jobs: pd.DataFrame, nodes: int = 5) -> None:
    lake = Lake(uri)
    lake.write_jobs(CLUSTER, jobs)
    names = ["vc0", "vc1", "vc2"]
    lake.write_nodes(CLUSTER, pd.DataFrame({"virtual_cluster": names, "nodes": nodes, "gpus_per_node": 4}))
    write_profile_set(Site(lake=uri, cluster=CLUSTER), simulated_profiles())


@dataclass(frozen=True)
class Release:
    packing: Any
    throughput: Any
    duration: Any
    manifest: ReleaseManifest
    forecasts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    lake_uri: str
    until: datetime
    release: Release


def make_world(folder: Path) -> World:
    uri = str(folder)
    jobs = make_jobs()
    fill_lake(uri, jobs)
    lake = Lake(uri)
    lake.replace_derived_throughput(CLUSTER, derive_throughput(lake.iter_jobs(CLUSTER)))
    until = training_window_end(Site(lake=uri, cluster=CLUSTER), HOLD_OUT_DAYS)
    profiles = simulated_profiles()
    packing = PackingAnalyzeModel().fit(profiles.solo, profiles.pairs)
    duration = WorkloadEstimateModel(DurationSettings(log_boosting=FAST, mean_boosting=FAST))
    duration.fit(jobs[jobs["submit_time"] < until], known_until=until)
    pins = {kind: ModelPin(f"lucid-{kind}", 1, f"{kind}.json", "0" * 64, 1) for kind in MODEL_KINDS}
    manifest = ReleaseManifest(
        release_name(CLUSTER),
        "2020-05-01T00:00:00+00:00",
        CLUSTER,
        pins,
        {"allow_simulated_profiles": True},
        Training(until.isoformat(), {}),
        Provenance(simulated_profiles=True, synthetic_logs=True),
    )
    past = lake.read_throughput(CLUSTER, end=until)
    scorers = {
        series: ThroughputPredictModel(ThroughputSettings(boosting=FAST)).fit(past, series).scorer
        for series in SERIES
    }
    return World(uri, until, Release(packing, ThroughputForecasts(scorers), duration, manifest))


def believing(world: World, change: Callable[[np.ndarray], np.ndarray], **manifest: Any) -> Release:
    """The same release with other estimates (and manifest)."""

    def predict_causal(jobs: pd.DataFrame, **options: Any) -> np.ndarray:
        return change(world.release.duration.predict_causal(jobs, **options))

    duration = SimpleNamespace(scorer=world.release.duration.scorer, predict_causal=predict_causal)
    return replace(world.release, duration=duration, manifest=replace(world.release.manifest, **manifest))


def validate(
    world: World, out: Path, release: Release | None = None, champion: Release | None = None, **options: Any
) -> Verdict:
    return prove(
        Site(
            lake=options.pop("lake_uri", world.lake_uri),
            cluster=CLUSTER,
            progress=options.pop("progress", silent),
        ),
        Candidates(Candidate(2, release or world.release), Candidate(1, champion) if champion else None),
        **{
            "held_out": HeldOutDays(HOLD_OUT_DAYS),
            "settings": QUICK,
            "out_dir": out,
        }
        | options,
    )
