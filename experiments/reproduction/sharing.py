"""What the trace's jobs run, and how such jobs slow each other down on shared GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foundation.errors import BadInputError
from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings
from pipeline.replay.job_types import profiles_by_type
from profiler_jobs.campaign import measure_simulated_profiles
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles
from simulator.workload.job import JobProfile
from simulator.workload.job_family import job_templates

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
    """One drawn profile a row, so that about MIXES[mix] of the jobs are heavy.

    As in Lucid's evaluation (section 4.1) jobs of much GPU time are more often heavy ones: the chance rises
    linearly with the rank of a job's GPU time, and within the heavy and the light all are equally likely.
    Where the log names its jobs, all of a user's family of names run the same, and are ranked by their mean.
    """
    if mix not in MIXES:
        raise BadInputError(f"Unknown workload mix {mix!r}.", remedy=f"Choose one of: {', '.join(MIXES)}.")
    configurations = list(scores.by_type.values())
    heavy = [profile for profile in configurations if is_heavy(profile)]
    light = [profile for profile in configurations if not is_heavy(profile)]
    if not heavy or not light:
        raise BadInputError(
            f"The solo profiles hold {len(heavy)} configurations above {HEAVY_GPU_UTIL_PCT:g} % GPU "
            f"utilisation and {len(light)} below.",
            remedy="Measure both kinds, or reproduce without workload mixes.",
        )
    family = _families(jobs)
    rank = _rank_of_gpu_time(jobs, family)
    share = MIXES[mix]
    random = np.random.default_rng([seed, list(MIXES).index(mix)])
    among_heavy = random.random(len(rank)) < share + (rank - 0.5) * min(share, 1 - share)
    which = random.random(len(rank))
    drawn = [
        kinds[int(which[i] * len(kinds))]
        for i, kinds in enumerate(heavy if chosen else light for chosen in among_heavy)
    ]
    return tuple(drawn[i] for i in family)


def is_heavy(profile: JobProfile) -> bool:
    """Whether a job keeps its GPUs busy for more than half of the time."""
    return profile.gpu_util_pct > HEAVY_GPU_UTIL_PCT


def _families(jobs: pd.DataFrame) -> NDArray[np.intp]:
    """Number what recurs, one number a row, from 0 on in the order of appearance; an unnamed job is alone."""

    def texts(column: str) -> list[str | None]:
        return [None if pd.isna(value) else str(value) for value in jobs[column]]

    found = job_templates([None] * len(jobs), texts("user"), texts("name"))
    keys = [f"row {i}" if name is None else f"family {name}" for i, name in enumerate(found)]
    return np.asarray(pd.factorize(np.array(keys, dtype=object))[0], dtype=np.intp)


def _rank_of_gpu_time(jobs: pd.DataFrame, family: NDArray[np.intp]) -> NDArray[np.float64]:
    """Rank each family by its mean GPUs x run time, in (0, 1); the mean over jobs is 0.5."""
    gpu_s = jobs["gpus"].to_numpy(np.float64) * jobs["duration_s"].to_numpy(np.float64, na_value=0.0)
    members = np.bincount(family)
    order = np.argsort(np.bincount(family, weights=gpu_s) / members, kind="stable")
    ranks = np.empty(len(members))
    ranks[order] = (np.cumsum(members[order]) - members[order] / 2) / max(1, len(jobs))
    return ranks
