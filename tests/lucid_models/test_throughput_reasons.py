import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lucid_models.series.windows import DAY_S
from lucid_models.throughput.model import binned_series
from lucid_models.throughput.reasons import account_for_forecast


def test_a_forecast_is_said_in_words_that_add_up() -> None:
    level = 20.0
    contributions = {"log_level": 0.1, "log_lag_5": 0.5, "log_same_time_last_weeks": 0.35, "hour": -0.15}
    row = {
        "hour": 9 + 50 / 60,
        "day_of_week": 0.0,
        "log_level": math.log(level),
        "log_soft_mean_6_bins": math.log(32.0 / level),
        "log_same_time_last_days": math.nan,
        "log_same_time_last_weeks": math.log(45.0 / level),
    }
    account = account_for_forecast("submitted_gpu_jobs", 600, 38.0, level, 1.1, contributions, row)
    assert account.sentence() == (
        "38 jobs in Monday 09:50-10:00: the last hour averaged about 31 a bin and Mondays at this time "
        "usually bring 44. At the present level a bin brings 24; the last hours add 10, the pattern "
        "of the last days and weeks adds 7 and the hour and the weekday take 3."
    )
    assert account.days is None
    assert account.usual + sum(account.parts.values()) == pytest.approx(account.forecast)


@pytest.mark.parametrize(
    ("bin_s", "hour", "interval"),
    [(600, 23.0 + 5 / 6, "23:50-00:00"), (3_600, 9.0, "09:00-10:00"), (DAY_S, 0.0, "00:00-00:00")],
)
def test_the_interval_is_the_bin_in_local_time(bin_s: int, hour: float, interval: str) -> None:
    row = {"hour": hour, "day_of_week": 6.0}
    sentence = account_for_forecast("submitted_gpus", bin_s, 1.0, 1.0, 1.0, {}, row).sentence()
    assert sentence.startswith(f"1 GPU in Sunday {interval}: no history is known.")


@given(
    st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    st.floats(-1, 3),
    st.floats(1, 1e4),
)
def test_printed_parts_sum_to_the_printed_forecast(
    added: list[float], intercept: float, level: float
) -> None:
    names = ("log_level", "log_mean_6_bins", "log_days_at_level_6_bins", "day_of_week")
    total = level * (intercept + sum(added))
    account = account_for_forecast(
        "submitted_gpus",
        600,
        max(total, 0.0),
        level,
        intercept,
        dict(zip(names, added, strict=True)),
        {"hour": 1.0, "day_of_week": 2.0},
    )
    sentence = account.sentence()
    assert "nan" not in sentence
    if " a bin brings " not in sentence:
        assert account.floored or account.usual < 2
        return
    words = sentence.replace(";", "").replace(",", "").replace(".", " ").split()
    rest = int(words[words.index("brings") + 1])
    signs = {"add": 1, "adds": 1, "take": -1, "takes": -1}
    moves = sum(signs[word] * int(words[i + 1]) for i, word in enumerate(words) if word in signs)
    assert rest + moves == int(words[0]) == round(account.forecast)


def test_the_model_explains_its_next_forecasts(throughput_model, throughput) -> None:
    scorer = throughput_model.scorer
    data = binned_series(throughput, scorer.series)
    forecasts = scorer.predict_next(data.counts, data.first_bin_s, 5)

    def account_of(ahead):
        extended = np.concatenate([data.counts, np.full(ahead, np.nan)])
        return scorer.account(scorer.features.matrix(extended, data.first_bin_s)[-1].tolist())

    for ahead in (1, 5):
        account = account_of(ahead)
        assert account.forecast == pytest.approx(forecasts[ahead - 1])
        start_s = data.first_bin_s + (data.counts.size + ahead - 1) * 600
        assert account.hour == pytest.approx(start_s % DAY_S / 3_600)
        assert account.recent == pytest.approx(np.mean(data.counts[-6:]), abs=4)
    assert "00:00-00:10" in account_of(1).sentence()


def test_a_local_explanation_adds_up_in_jobs(throughput_model, throughput) -> None:
    explained = throughput_model.explain_local(throughput_model.features_of(throughput).iloc[-1])
    added = explained["intercept"] + sum(term["contribution"] for term in explained["terms"])
    assert added == pytest.approx(explained["score"])
    assert max(added, 0.0) == pytest.approx(explained["prediction"])
    assert explained["unit"] == explained["score_unit"] == "jobs a bin"
    assert explained["reason"].startswith(f"{explained['prediction']:.0f} job")
