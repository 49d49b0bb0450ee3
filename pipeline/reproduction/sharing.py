"""What the trace's jobs run, and how such jobs slow each other down on shared GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.errors import BadInputError
from lucid_models.packing import PackingAnalyzeModel, PackingSettings
from pipeline.replay_inputs import profiles_by_type
from profiler_jobs.devices.simulated import measure_simulated_profiles
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles
from simulator.workload import JobProfile

Profiles = tuple[JobProfile | None, ...]

# A configuration is heavy when it keeps a GPU busy for more than half of the time. Lucid (section 2.2) reads
# off an Alibaba cluster that 16 % of GPUs are; that is our mix L. The paper prints its mixes as curves only
# (Figure 12 a), so M and H are ours: as heavy as the measured configurations are on average, and far above.
HEAVY_GPU_UTIL_PCT = 50.0
MIXES: Mapping[str, float] = {"L": 0.16, "M": 0.50, "H": 0.80}


@dataclass(frozen=True)
class Measurements:
    """Solo and pair tables (PROFILE_SCHEMA, PAIR_SCHEMA)."""

    solo: pd.DataFrame
    pairs: pd.DataFrame

    @property
    def simulated(self) -> bool:
        """Whether a part of it was measured on the simulated GPU."""
        return bool(self.solo["simulated"].any() or self.pairs["simulated"].any())


def read_measurements(singles: Path | None, pairs: Path | None, seed: int) -> Measurements:
    """Read measured profiles, or measure the simulated GPU where none are given."""
    if (singles is None) != (pairs is None):
        raise BadInputError("Colocation needs both measurements.", remedy="Give --singles and --pairs.")
    if singles is None or pairs is None:
        made = measure_simulated_profiles(seed)
        return Measurements(made.solo, made.pairs)
    return Measurements(read_solo_profiles(str(singles)), read_pair_profiles(str(pairs)))


class SharingScores:
    """Profiles by job type, scored by a packing model that was trained on the measurements."""

    def __init__(self, measured: Measurements, settings: PackingSettings) -> None:
        self._model = PackingAnalyzeModel(settings).fit(measured.solo, measured.pairs)
        scores = map(int, self._model.predict_table(measured.solo))
        by_name = dict(zip(measured.solo["job_type"].astype(str), scores, strict=True))
        self.by_type: Mapping[str, JobProfile] = {
            name: replace(profile, sharing_score=by_name[name])
            for name, profile in profiles_by_type(measured.solo).items()
        }

    def score(self, profile: JobProfile) -> JobProfile:
        """Return a profile that a log states, with its score."""
        found = self._model.predict(
            np.array([profile.gpu_util_pct]),
            np.array([profile.gpu_mem_util_pct]),
            np.array([profile.gpu_mem_mib]),
            np.array([float(profile.amp)]),
        )
        return replace(profile, sharing_score=int(found[0]))


def logged_profiles(jobs: pd.DataFrame, scores: SharingScores, seed: int) -> Profiles:
    """One profile a row: of its job type, else as the log states it, else drawn from mix M."""
    drawn = drawn_profiles(jobs, scores, "M", seed)
    types = [None if pd.isna(value) else str(value) for value in jobs["job_type"]]
    util, mem_util, mem = (
        jobs[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("gpu_util_pct", "gpu_mem_util_pct", "gpu_mem_mib")
    )
    stated: dict[JobProfile, JobProfile] = {}
    found: list[JobProfile | None] = []
    for i, name in enumerate(types):
        if name is not None and name in scores.by_type:
            found.append(scores.by_type[name])
        elif np.isfinite(util[i]) and np.isfinite(mem_util[i]) and np.isfinite(mem[i]):
            amp = name is not None and name.endswith("/1")
            profile = JobProfile(float(util[i]), float(mem_util[i]), float(mem[i]), amp, name)
            if profile not in stated:
                stated[profile] = scores.score(profile)
            found.append(stated[profile])
        else:
            found.append(drawn[i])
    return tuple(found)


def drawn_profiles(jobs: pd.DataFrame, scores: SharingScores, mix: str, seed: int) -> Profiles:
    """One drawn profile a row, so that MIXES[mix] of the jobs are heavy.

    As in Lucid's evaluation (section 4.1) jobs of much GPU time are more often heavy ones: the chance rises
    linearly with the rank of a job's GPU time, and within the heavy and the light all are equally likely.
    """
    if mix not in MIXES:
        raise BadInputError(f"Unknown workload mix {mix!r}.", remedy=f"Choose one of: {', '.join(MIXES)}.")
    configurations = list(scores.by_type.values())
    heavy = [profile for profile in configurations if profile.gpu_util_pct > HEAVY_GPU_UTIL_PCT]
    light = [profile for profile in configurations if profile.gpu_util_pct <= HEAVY_GPU_UTIL_PCT]
    if not heavy or not light:
        raise BadInputError(
            f"The solo profiles hold {len(heavy)} configurations above {HEAVY_GPU_UTIL_PCT:g} % GPU "
            f"utilisation and {len(light)} below.",
            remedy="Measure both kinds, or reproduce without workload mixes.",
        )
    share = MIXES[mix]
    random = np.random.default_rng([seed, list(MIXES).index(mix)])
    chance = share + (_rank_of_gpu_time(jobs) - 0.5) * min(share, 1 - share)
    is_heavy = random.random(len(jobs)) < chance
    which = random.random(len(jobs))
    return tuple(
        (heavy if is_heavy[i] else light)[int(which[i] * len(heavy if is_heavy[i] else light))]
        for i in range(len(jobs))
    )


def _rank_of_gpu_time(jobs: pd.DataFrame) -> NDArray[np.float64]:
    """Ranks in (0, 1), mean 0.5, of GPUs x run time; ties in the order of rows."""
    gpu_s = jobs["gpus"].to_numpy(np.float64) * jobs["duration_s"].to_numpy(np.float64, na_value=0.0)
    ranks = np.empty(len(jobs))
    ranks[np.argsort(gpu_s, kind="stable")] = (np.arange(len(jobs)) + 0.5) / max(1, len(jobs))
    return ranks
