"""The gate where completion times are to be predicted: what it approves, at which price, and what it says."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.gate.judge import ReleaseChecks, judge
from simulator.gate.metrics import EstimateCheck
from simulator.gate.report import verdict_page
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Verdict

DAY_S = 86_400.0
JOBS = 600
RULES = GateRules(objective="p99_pred_err_pct", jct_price_pct=60.0, resamples=400)


@dataclass(frozen=True)
class Replay:
    jobs: pd.DataFrame


def replay(slower: float = 1.0, error: float | None = None, seed: int = 2) -> Replay:
    """Jobs of a week that take `slower` times as long as they could, predicted up to a relative `error`."""
    rng = np.random.default_rng(1)
    submit = np.sort(rng.uniform(0, 7 * DAY_S, JOBS))
    duration = rng.lognormal(7, 1.2, JOBS)
    waits = 600 * slower + np.zeros(JOBS)
    jct = slower * duration + waits
    table = pd.DataFrame(
        {
            "job_id": [f"j{i}" for i in range(JOBS)],
            "virtual_cluster": "all",
            "user": [f"u{i % 6}" for i in range(JOBS)],
            "gpus": rng.choice([1, 2, 4, 8], JOBS),
            "submit_time_s": submit,
            "first_start_time_s": submit + waits,
            "end_time_s": submit + jct,
            "queuing_delay_s": waits,
            "jct_s": jct,
            "duration_s": duration,
        }
    )
    if error is not None:
        predicted = jct / (1 + error * np.random.default_rng(seed).uniform(0, 1, JOBS))
        table["predicted_end_time_s"] = submit + predicted
    return Replay(table)


def decide(
    challenger: Replay, champion: Replay | None = None, site: Replay | None = None, **rules: object
) -> Verdict:
    results = {"challenger": challenger, "site_order": site or replay(9.0, error=0.0), "sjf": replay(0.9)}
    if champion is not None:
        results["champion"] = champion
    return judge(
        results,
        challenger="challenger",
        champion=None if champion is None else "champion",
        rules=GateRules.from_data(RULES.to_data() | rules),
        assumptions=(),
        checks=ReleaseChecks(EstimateCheck(JOBS, 0, 0), decision_latency_ms=1.0),
    )


def failed(verdict: Verdict) -> list[str]:
    return [c.name for c in verdict.failed]


def test_a_clear_gain_in_predictability_may_cost_its_price() -> None:
    verdict = decide(replay(1.4, error=0.1), replay(1.0, error=2.0))
    assert verdict.approved, verdict.sentence
    assert verdict.objective["name"] == "p99_pred_err_pct"
    assert verdict.objective["unit"] == "%"
    assert verdict.objective["change_points"] == pytest.approx(-190, abs=4)
    assert verdict.objective["change_high_points"] < 0
    assert "P99 prediction error is 9." in verdict.sentence
    assert "mean JCT goes from " in verdict.sentence
    assert "(+40.0 %)" in verdict.sentence
    price = next(c for c in verdict.constraints if c.name == "price_in_mean_jct")
    assert price.passed
    assert "+60 %" in price.sentence
    assert Verdict.from_dict(verdict.to_dict()) == verdict


def test_beyond_the_price_it_is_refused() -> None:
    verdict = decide(replay(1.4, error=0.1), replay(1.0, error=2.0), jct_price_pct=30.0)
    assert not verdict.approved
    assert failed(verdict) == ["price_in_mean_jct"]
    assert "blocked by its price in mean JCT" in verdict.sentence


def test_only_a_clear_gain_may_cost_anything() -> None:
    same = decide(replay(1.4, error=0.5), replay(1.0, error=0.5))
    assert same.objective["passed"]  # no worse
    assert failed(same) == ["price_in_mean_jct"]
    assert "only a clear gain may cost more" in same.failed[0].sentence
    assert decide(replay(1.0, error=0.5), replay(1.0, error=0.5)).approved


def test_worse_predictions_are_refused_however_short_the_completion_times() -> None:
    verdict = decide(replay(0.9, error=2.0), replay(1.0, error=0.1))
    assert not verdict.approved
    assert verdict.objective["passed"] is False
    assert "beyond the margin of +2 % or +1 points" in verdict.sentence


def test_against_the_sites_order_mean_jct_counts_since_its_ends_are_not_predicted() -> None:
    first = decide(replay(1.2, error=0.3))
    assert first.approved, first.sentence
    assert (first.reference, first.objective["name"]) == ("site_order", "mean_jct_s")
    assert any("Ends are predicted of releases alone" in said for said in first.assumptions)
    row = next(row for row in first.policies if row["policy"] == "challenger")
    assert row["predicted_jobs"] == JOBS
    assert row["p99_pred_err_pct"] == pytest.approx(30, abs=1)
    slower = decide(replay(1.4, error=0.1), replay(1.0, error=2.0), site=replay(1.2, error=0.0))
    assert failed(slower) == ["not_worse_than_site_order"]


def test_policies_whose_ends_nobody_predicted_are_not_compared() -> None:
    verdict = decide(replay(1.0, error=0.1), replay(1.0, error=0.1))
    assert [row["policy"] for row in verdict.comparisons] == ["champion", "site_order"]
    blind = decide(replay(1.0, error=0.1), replay(1.0))
    assert not blind.approved
    assert "no job's end was predicted under both it and champion" in blind.sentence


def test_the_page_names_the_errors_and_their_unit() -> None:
    page = verdict_page(decide(replay(1.4, error=0.1), replay(1.0, error=2.0)))
    assert "P99 prediction error (%)" in page
    assert "| price_in_mean_jct | passed |" in page
    assert "p99_pred_err_pct beside each policy" in page


def test_a_job_that_was_not_predicted_counts_in_no_error() -> None:
    some = replay(1.0, error=0.1)
    some.jobs.loc[10:, "predicted_end_time_s"] = np.nan
    some.jobs.loc[0, "predicted_end_time_s"] = some.jobs.loc[0, "submit_time_s"]  # infinite error
    verdict = decide(some, replay(1.0, error=0.1))
    assert next(row for row in verdict.policies if row["policy"] == "challenger")["predicted_jobs"] == 9


@settings(max_examples=15, deadline=None)
@given(price=st.floats(0, 200), slower=st.floats(1.0, 3.0))
def test_a_lower_price_never_approves_what_a_higher_one_refuses(price: float, slower: float) -> None:
    wider = dict.fromkeys(("p999_margin_pct", "longest_wait_margin_pct", "fairness_margin_pct"), 1_000)
    limits = {**wider, "utilisation_margin_pct": 100}
    dear = decide(replay(slower, error=0.1), replay(1.0, error=2.0), jct_price_pct=price, **limits)
    cheap = decide(replay(slower, error=0.1), replay(1.0, error=2.0), jct_price_pct=price / 2, **limits)
    assert dear.approved or not cheap.approved
