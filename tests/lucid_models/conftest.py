"""Small logs with the habits of real ones, and models trained on them once per session."""

import numpy as np
import pandas as pd
import pytest

from lucid_models.boosting import BoostingSettings
from lucid_models.duration.model import DurationSettings, WorkloadEstimateModel
from lucid_models.packing.model import PackingAnalyzeModel
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings
from tests.reference import ROOT

FAST = BoostingSettings(bags=2, max_rounds=60, max_bins=32)


def make_jobs(jobs: int = 900, seed: int = 0, days: float = 12.0) -> pd.DataFrame:
    """Recurring jobs of a few users: a user x name has its own typical run time."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 8, jobs)
    kind = rng.integers(0, 4, jobs)
    gpus = rng.choice([1, 2, 4, 8], jobs, p=[0.6, 0.2, 0.1, 0.1])
    typical = np.exp(rng.normal(6.0, 1.5, (8, 4)))
    duration = np.round(typical[user, kind] * gpus**0.3 * np.exp(rng.normal(0, 0.5, jobs)), 3)
    submit = pd.Timestamp("2020-04-01", tz="UTC") + pd.to_timedelta(
        np.sort(rng.uniform(0, days * 86_400, jobs)), unit="s"
    ).round("s")
    waited = np.where(rng.random(jobs) < 0.2, np.round(rng.exponential(600, jobs)), 0.0)
    start = submit + pd.to_timedelta(waited, unit="s")
    return pd.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(jobs)],
            "virtual_cluster": [f"vc{u % 3}" for u in user],
            "user": [f"u{u}" for u in user],
            "name": [f"net{k}_lr{int(r)}" for k, r in zip(kind, rng.integers(0, 3, jobs), strict=True)],
            "gpus": gpus,
            "submit_time": submit,
            "start_time": start,
            "end_time": start + pd.to_timedelta(duration, unit="s"),
            "duration_s": duration,
            "queuing_delay_s": waited,
        }
    )


def make_throughput(bins: int = 144 * 16, seed: int = 0) -> pd.DataFrame:
    """Counts with a daily and weekly pattern."""
    rng = np.random.default_rng(seed)
    time = np.arange(bins)
    rate = 5 + 4 * np.sin(2 * np.pi * (time % 144) / 144) - 1.0 * ((time // 144) % 7 >= 5)
    jobs = rng.poisson(np.maximum(rate, 0.0))
    return pd.DataFrame(
        {
            "cluster": "small",
            "bin_start": pd.Timestamp("2020-04-06", tz="UTC") + pd.to_timedelta(600 * time, unit="s"),
            "bin_s": 600,
            "submitted_gpu_jobs": jobs,
            "submitted_gpus": jobs * rng.choice([1, 1, 2, 8], bins),
        }
    )


def make_profiles(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Solo profiles and pairs whose speeds fall with the partner's memory utilisation; one configuration
    unpaired.
    """
    rng = np.random.default_rng(seed)
    load = np.linspace(2, 98, 25)
    solo = pd.DataFrame(
        {
            "job_type": [f"m{i // 3}/d/{i}/0" for i in range(25)],
            "model": [f"m{i // 3}" for i in range(25)],
            "gpu_util_pct": np.clip(load + rng.normal(0, 4, 25), 0, 100),
            "gpu_mem_util_pct": load * 0.7,
            "gpu_mem_mib": 2_000 + 60 * load,
            "amp": rng.integers(0, 2, 25),
        }
    )
    slowed = 1.02 - 0.003 * load
    rows = [
        (solo.job_type[i], slowed[j] + rng.normal(0, 0.01), solo.job_type[j], slowed[i] + rng.normal(0, 0.01))
        for i in range(24)
        for j in range(i, 24)
    ]
    return solo, pd.DataFrame(rows, columns=["job_type_1", "speed_1", "job_type_2", "speed_2"])


@pytest.fixture(scope="session")
def jobs() -> pd.DataFrame:
    return make_jobs()


@pytest.fixture(scope="session")
def throughput() -> pd.DataFrame:
    return make_throughput()


@pytest.fixture(scope="session")
def profiles() -> tuple[pd.DataFrame, pd.DataFrame]:
    return make_profiles()


@pytest.fixture(scope="session")
def duration_settings() -> DurationSettings:
    mean = BoostingSettings(objective="gamma_deviance", bags=2, max_rounds=60, max_bins=32)
    return DurationSettings(log_boosting=FAST, mean_boosting=mean)


@pytest.fixture(scope="session")
def duration_model(jobs: pd.DataFrame, duration_settings: DurationSettings) -> WorkloadEstimateModel:
    return WorkloadEstimateModel(duration_settings).fit(jobs.iloc[:700], with_unconstrained=True)


@pytest.fixture(scope="session")
def throughput_settings() -> ThroughputSettings:
    boosting = BoostingSettings(objective="pseudo_huber:delta=1.0", bags=2, max_rounds=60, max_bins=32)
    return ThroughputSettings(boosting=boosting)


@pytest.fixture(scope="session")
def throughput_model(
    throughput: pd.DataFrame, throughput_settings: ThroughputSettings
) -> ThroughputPredictModel:
    return ThroughputPredictModel(throughput_settings).fit(throughput)


@pytest.fixture(scope="session")
def packing_model(profiles: tuple[pd.DataFrame, pd.DataFrame]) -> PackingAnalyzeModel:
    return PackingAnalyzeModel().fit(*profiles)


@pytest.fixture(scope="session")
def rtx_3090() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The measured solo profiles and pairs of Lucid's artifact."""
    from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles

    folder = ROOT / "data" / "packing"
    return (
        read_solo_profiles(folder / "single_jobs_rtx3090.csv"),
        read_pair_profiles(folder / "colocated_pairs_rtx3090.csv"),
    )
