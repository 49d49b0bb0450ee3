"""The simulated GPU: plausible, seeded, honest about memory and about being simulated."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import UnknownNameError
from profiler_jobs.campaign import measure_profiles, measure_simulated_profiles
from profiler_jobs.devices.device import DeviceWindow, OutOfMemory, ProfilingDevice
from profiler_jobs.devices.simulated import SimulatedGpu, contend
from profiler_jobs.profile_table import PAIR_SCHEMA, PROFILE_SCHEMA, ProfileSet, read_solo_profiles
from profiler_jobs.workloads import ZOO, JobType, find_job_type, list_job_types
from tests.reference import ROOT

JOB_TYPES = list_job_types()
job_types = st.sampled_from(JOB_TYPES)


@pytest.fixture(scope="module")
def profiles() -> ProfileSet:
    return measure_simulated_profiles(0)


def test_the_zoo_is_table_1_of_lucid() -> None:
    assert len(ZOO) == 14
    assert len(JOB_TYPES) == len({job_type.name for job_type in JOB_TYPES}) == 66
    assert find_job_type("BERT/SQuAD/32/1").amp
    with pytest.raises(UnknownNameError, match="BERT/SQuAD/32/1"):
        find_job_type("BERT/SQuAD/64/1")


@pytest.mark.slow
def test_every_pair_is_measured_or_out_of_memory(profiles: ProfileSet) -> None:
    assert profiles.solo.columns.tolist() == PROFILE_SCHEMA.names
    assert profiles.pairs.columns.tolist() == PAIR_SCHEMA.names
    assert len(profiles.solo) == 66
    assert len(profiles.pairs) + len(profiles.out_of_memory) == 66 * 67 // 2
    assert (profiles.out_of_memory.needed_mib > profiles.out_of_memory.capacity_mib).all()
    assert profiles.pairs.gpu_mem_mib.max() <= 24_576
    assert profiles.solo.simulated.all()
    assert profiles.pairs.simulated.all()
    assert profiles.pairs[["gpu_util_pct", "gpu_mem_util_pct"]].max().max() <= 100


@pytest.mark.slow
def test_same_seed_same_numbers_other_seed_other_numbers(profiles: ProfileSet) -> None:
    again, other = measure_simulated_profiles(0), measure_simulated_profiles(1)
    pd.testing.assert_frame_equal(again.pairs, profiles.pairs)
    pd.testing.assert_frame_equal(again.solo, profiles.solo)
    assert not other.pairs.speed_1.equals(profiles.pairs.speed_1)


def test_order_of_measuring_changes_nothing(profiles: ProfileSet) -> None:
    few = measure_profiles(SimulatedGpu(0), JOB_TYPES[::-1][:6]).solo.set_index("job_type")
    pd.testing.assert_frame_equal(few, profiles.solo.set_index("job_type").loc[few.index])


def test_interference_follows_the_published_shape(profiles: ProfileSet) -> None:
    """Lucid, Section 2.3: about 0.92 where utilisations sum to 100 %, far less at 200 %."""
    util = profiles.solo.set_index("job_type").gpu_util_pct
    total = util.loc[profiles.pairs.job_type_1].to_numpy() + util.loc[profiles.pairs.job_type_2].to_numpy()
    mean = (profiles.pairs.speed_1 + profiles.pairs.speed_2) / 2
    assert 0.97 < mean[total < 60].mean() <= 1.01
    assert 0.89 < mean[(total > 90) & (total < 110)].mean() < 0.96
    assert (mean[(total > 90) & (total < 110)] > 0.8).mean() > 0.95
    assert 0.55 < mean[total > 180].mean() < 0.72
    assert pd.Series(total).corr(mean, method="spearman") < -0.8


def test_all_three_sharing_classes_occur(profiles: ProfileSet) -> None:
    pairs = profiles.pairs
    left = pd.concat(
        [
            pairs[["job_type_1", "speed_2"]].set_axis(["job_type", "speed"], axis=1),
            pairs[["job_type_2", "speed_1"]].set_axis(["job_type", "speed"], axis=1),
        ]
    )
    mean = left.groupby("job_type").speed.mean()
    assert min((mean > 0.95).sum(), ((mean > 0.85) & (mean <= 0.95)).sum(), (mean <= 0.85).sum()) >= 5


@given(first=job_types, second=job_types)
def test_contention_never_helps_and_is_symmetric(first: JobType, second: JobType) -> None:
    speed_1, speed_2, busy_1, busy_2 = contend(first, second)
    assert 0.4 < speed_1 <= 1
    assert 0.4 < speed_2 <= 1
    assert 0 < busy_1 <= 1
    assert 0 < busy_2 <= 1
    swapped = contend(second, first)
    assert swapped[:2] == pytest.approx((speed_2, speed_1), abs=1e-6)


def test_a_small_card_runs_out_of_memory_alone() -> None:
    device: ProfilingDevice = SimulatedGpu(0, capacity_mib=6_000)
    alone = device.run([find_job_type("BERT/SQuAD/32/0")], [DeviceWindow((0,), 1.0)], warmup_s=0.0)
    assert isinstance(alone, OutOfMemory)
    found = measure_profiles(device, [find_job_type("BERT/SQuAD/32/0"), find_job_type("VGG/CIFAR-10/32/0")])
    assert found.solo.job_type.tolist() == ["VGG/CIFAR-10/32/0"]
    assert len(found.out_of_memory) == 2  # BERT alone, VGG beside itself


@pytest.mark.reference
def test_close_to_the_published_solo_profiles() -> None:
    published = read_solo_profiles(ROOT / "data" / "packing" / "single_jobs_rtx3090.csv").set_index(
        "job_type"
    )
    simulated = measure_simulated_profiles(0).solo.set_index("job_type")
    assert set(simulated.index) == set(published.index)
    gap = (simulated.gpu_util_pct - published.gpu_util_pct.loc[simulated.index]).abs()
    assert gap.mean() < 6
    ratio = simulated.gpu_mem_mib / published.gpu_mem_mib.loc[simulated.index]
    assert ratio.between(0.6, 1.6).all()
