"""Profiles of the workload zoo, and the model that learned from them."""

import pandas as pd
import pytest

from parts.horus.model import UtilisationModel
from profiler_jobs.profile_table import read_solo_profiles
from profiler_jobs.workloads import list_job_types
from tests.reference import ROOT


def make_zoo_profiles() -> pd.DataFrame:
    """Solo profiles of the zoo as the simulated GPU's model of a training step has them, without noise."""
    return pd.DataFrame(
        [
            {
                "job_type": one.name,
                "model": one.model.name,
                "amp": int(one.amp),
                "gpu_util_pct": one.gpu_util_pct,
                "gpu_mem_util_pct": one.gpu_mem_util_pct,
                "gpu_mem_mib": one.gpu_mem_mib,
                "device": "simulated",
                "simulated": True,
            }
            for one in list_job_types()
        ]
    )


@pytest.fixture(scope="session")
def zoo_profiles() -> pd.DataFrame:
    return make_zoo_profiles()


@pytest.fixture(scope="session")
def utilisation_model(zoo_profiles: pd.DataFrame) -> UtilisationModel:
    return UtilisationModel().fit(zoo_profiles)


@pytest.fixture(scope="session")
def rtx_3090_solo() -> pd.DataFrame:
    """The measured solo profiles of Lucid's artifact."""
    return read_solo_profiles(ROOT / "data" / "packing" / "single_jobs_rtx3090.csv")
