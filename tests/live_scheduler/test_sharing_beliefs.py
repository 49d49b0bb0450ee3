import numpy as np
import pytest

from live_scheduler.deciding.live_policies import believed_pairs
from lucid_models.packing.model import PackingAnalyzeModel, PackingSettings
from profiler_jobs.campaign import measure_simulated_profiles
from simulator.workload.job import JobProfile


@pytest.fixture(scope="module")
def measured():
    return measure_simulated_profiles(seed=0)


@pytest.mark.slow
def test_a_tree_says_nothing_of_pairs(measured) -> None:
    assert believed_pairs(PackingAnalyzeModel().fit(measured.solo, measured.pairs)) is None


@pytest.mark.slow
def test_beliefs_are_the_pairwise_models_predictions(measured) -> None:
    model = PackingAnalyzeModel(PackingSettings(kind="pairwise")).fit(measured.solo, measured.pairs)
    believed = believed_pairs(model)
    assert believed is not None
    assert believed.mean_speed_min == model.pairwise.mean_speed_min
    light = JobProfile(8.0, 2.0, 2_300.0, amp=True)
    heavy = JobProfile(98.0, 70.0, 5_000.0)
    for pair in ((light, heavy), (heavy, light), (heavy, heavy), (light, light)):
        rows = [
            np.array([[one.gpu_util_pct, one.gpu_mem_util_pct, one.gpu_mem_mib, one.amp]], dtype=float)
            for one in pair
        ]
        mean, low = model.pair_speeds(*rows)
        speeds = believed.speeds.speeds(*pair)
        assert sum(speeds) / 2 == pytest.approx(mean[0], abs=1e-12)
        assert min(speeds) == pytest.approx(low[0], abs=1e-12)
    assert sum(believed.speeds.speeds(light, light)) > sum(believed.speeds.speeds(heavy, heavy))
    # A job without measurements is like the missing values of training, and never fails.
    assert 0 < min(believed.speeds.speeds(None, heavy)) <= 1
