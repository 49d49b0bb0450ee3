"""What is remembered of jobs in bursts: enough jobs of enough bursts, and never too low a quantile."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lucid_models.limits.recent_bursts import BURST_S, RecentBursts

# Bursts by their number of jobs.
SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=20)
SHARE = st.floats(0.01, 0.5)


def remembered(sizes: list[int], kept: int = 1_000) -> tuple[RecentBursts, list[float]]:
    """Of 30 jobs and 3 bursts at least, with all values in turn."""
    bursts = RecentBursts(30, 3, kept)
    values = np.random.default_rng(sum(sizes)).normal(size=sum(sizes)).tolist()
    hours = np.repeat(np.arange(len(sizes)), sizes).tolist()
    for hour, value in zip(hours, values, strict=True):
        bursts.add(BURST_S * hour, value)
    return bursts, values


@given(SIZES)
def test_it_reaches_back_to_enough_jobs_of_enough_bursts_and_no_further(sizes: list[int]) -> None:
    bursts, values = remembered(sizes)
    reach = next(
        (number for number in range(3, len(sizes)) if sum(sizes[-number:]) >= 30),
        len(sizes),
    )
    jobs = sum(sizes[-reach:])
    assert len(bursts) == jobs
    assert bursts.falling() == sorted(values[-jobs:], reverse=True)
    assert bursts.highest() == max(values[-jobs:])


@given(SIZES, SHARE)
def test_at_most_the_share_of_those_remembered_exceeds_the_quantile(sizes: list[int], share: float) -> None:
    bursts, values = remembered(sizes)
    above = np.array(values[-len(bursts) :]) > bursts.exceeded_by(share)
    assert above.mean() <= share


@given(SIZES, SHARE)
def test_what_was_forgotten_of_a_burst_makes_no_quantile_lower(sizes: list[int], share: float) -> None:
    whole, few = (remembered(sizes, kept)[0] for kept in (1_000, 2))
    assert len(few.falling()) <= 2 * len(sizes)
    assert few.exceeded_by(share) >= whole.exceeded_by(share)
