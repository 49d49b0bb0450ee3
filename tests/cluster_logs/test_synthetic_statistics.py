"""The synthetic clusters against the figures that Helios, Philly and Lucid publish, with stated
tolerances.
"""

import pytest

from cluster_logs.synthetic.generator import synthesize

pytestmark = pytest.mark.slow

# Each seed is a cluster of its own; heavy tails move a mean of 10^5 run times by several percent.
CASES = [("helios-venus", 60, 0), ("helios-venus", 30, 1), ("helios-saturn", 30, 0)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: "-".join(map(str, case)))
def figures(request: pytest.FixtureRequest) -> dict[str, float]:
    like, days, seed = request.param
    return synthesize(like, days, seed).statistics()


def test_sizes(figures: dict[str, float]) -> None:
    """Helios, Figure 6: over 50 % single-GPU jobs, 3-12 % of GPU time; >= 8 GPUs under 10 %, about 60 %."""
    assert 0.50 < figures["single_gpu_job_share"] < 0.75
    assert 0.03 <= figures["single_gpu_time_share"] <= 0.12
    assert 0.06 < figures["large_job_share"] < 0.10
    assert 0.50 <= figures["large_gpu_time_share"] <= 0.70
    assert 2.5 < figures["mean_gpus"] < 4.0


def test_run_times(figures: dict[str, float]) -> None:
    """Helios, Table 2 and Section 3.2.1: median 206 s, mean 6,652 s, at most 50 days, 3/4 under 1,000 s."""
    assert figures["median_duration_s"] == pytest.approx(206, rel=0.10)
    assert figures["mean_duration_s"] == pytest.approx(6_652, rel=0.20)
    assert figures["max_duration_days"] == 50
    assert figures["under_1000_s_share"] == pytest.approx(0.75, abs=0.03)


def test_final_states(figures: dict[str, float]) -> None:
    """Helios, Figures 7 and 1(b): 37.6 % unsuccessful; failed jobs hold 9.3 % of GPU time."""
    assert figures["unsuccessful_share"] == pytest.approx(0.376, abs=0.01)
    assert figures["failed_gpu_time_share"] == pytest.approx(0.093, abs=0.04)


def test_day_and_night(figures: dict[str, float]) -> None:
    """Helios, Figure 2(b): lowest at night, slight drops at lunch and dinner."""
    assert figures["night_rate"] < 0.4
    assert figures["lunch_rate"] < 0.92 * min(figures["before_lunch_rate"], figures["after_lunch_rate"])
    assert figures["dinner_rate"] < 0.95 * min(figures["before_dinner_rate"], figures["after_dinner_rate"])
    assert min(figures["lunch_rate"], figures["dinner_rate"]) > 2 * figures["night_rate"]


def test_users(figures: dict[str, float]) -> None:
    """Helios, Section 3.3: 200-400 users, the top 5 % hold 45-60 % of GPU time; Lucid: about 90 % recur."""
    assert 200 <= figures["users"] <= 400
    assert 0.45 <= figures["top_5_pct_users_gpu_time_share"] <= 0.60
    assert figures["recurring_job_share"] == pytest.approx(0.90, abs=0.02)


def test_load(figures: dict[str, float]) -> None:
    """Helios, Figure 2(a): utilisation 65-90 %, so queues form; Table 3: mean FIFO queuing 50,000 s."""
    assert 0.65 <= figures["utilisation"] <= 0.90
    assert 10_000 < figures["mean_queuing_delay_s"] < 150_000
    assert 0.3 < figures["queued_job_share"] < 0.95


def test_philly() -> None:
    """Helios, Table 2 and Figure 1(b): Philly's 1.75 GPUs and 28,329 s; failed jobs hold over a third."""
    figures = synthesize("philly", 60, 0).statistics()
    assert figures["mean_gpus"] == pytest.approx(1.75, rel=0.10)
    assert figures["mean_duration_s"] == pytest.approx(28_329, rel=0.20)
    assert figures["max_duration_days"] == 60
    assert figures["max_gpus"] == 128
    assert figures["failed_gpu_time_share"] == pytest.approx(0.33, abs=0.06)
    assert figures["single_gpu_job_share"] > 0.5
    assert figures["large_job_share"] < 0.10
    assert figures["large_gpu_time_share"] == pytest.approx(0.60, abs=0.08)
    assert figures["unsuccessful_share"] == pytest.approx(0.307, abs=0.02)
    assert 200 <= figures["users"] <= 400
    assert 0.45 <= figures["top_5_pct_users_gpu_time_share"] <= 0.60
    assert 0.55 <= figures["utilisation"] <= 0.90
