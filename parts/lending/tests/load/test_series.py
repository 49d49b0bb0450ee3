"""Bins of inference load: rows of any length, gaps held, nothing invented."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError
from parts.lending.load.series import BIN_S, read_inference_series

START = pd.Timestamp("2020-09-01T00:00", tz="UTC")


def rows(usage: list[float], step_s: float, gaps: list[int] | None = None, servers: int | None = 94):
    times = START + pd.to_timedelta(step_s * np.arange(len(usage)), unit="s")
    gap = np.isin(np.arange(len(usage)), gaps or [])
    return pd.DataFrame({"time": times, "usage": usage, "servers": servers, "gap": gap})


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_rows_of_five_minutes_are_the_bins(usage: list[float]) -> None:
    series = read_inference_series(rows(usage, BIN_S))
    assert series.usage.tolist() == usage
    assert not series.gap.any()
    assert (series.start_s, series.servers) == (START.timestamp(), 94)
    assert series.times_s[-1] == series.last_bin_start_s == START.timestamp() + BIN_S * (len(usage) - 1)


def test_shorter_rows_are_averaged_and_longer_ones_hold() -> None:
    short = read_inference_series(rows([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 60))
    assert short.usage == pytest.approx([0.3, 0.65])
    long = read_inference_series(rows([0.2, 0.8], 600))
    assert long.usage.tolist() == [0.2, 0.2, 0.8]
    assert not long.gap.any()


def test_a_gap_holds_what_came_before_and_is_flagged() -> None:
    series = read_inference_series(rows([0.5, 0.0, 0.0, 0.7], BIN_S, gaps=[1, 2]))
    assert series.usage.tolist() == [0.5, 0.5, 0.5, 0.7]
    assert series.gap.tolist() == [False, True, True, False]
    missing = read_inference_series(rows([0.5, 0.6, 0.6, 0.7], BIN_S).drop(index=[2]))
    assert missing.usage.tolist() == [0.5, 0.6, 0.6, 0.7]
    assert missing.gap.tolist() == [False, False, True, False]


def test_the_newest_number_of_servers_counts_and_may_be_unknown() -> None:
    table = rows([0.5, 0.6], BIN_S, servers=90)
    table.loc[1, "servers"] = 85
    assert read_inference_series(table).servers == 85
    assert read_inference_series(rows([0.5], BIN_S, servers=None)).servers is None


def test_a_table_without_a_measured_row_and_a_wrong_year_are_refused() -> None:
    with pytest.raises(BadInputError, match="no measured inference load"):
        read_inference_series(rows([0.0], BIN_S, gaps=[0]))
    wrong = rows([0.5, 0.6], BIN_S)
    wrong.loc[0, "time"] = pd.Timestamp("1900-01-01", tz="UTC")
    with pytest.raises(BadInputError, match="1900-01-01"):
        read_inference_series(wrong)
