"""The artifact's control: equal to what it decided, bin by bin."""

import numpy as np
import pandas as pd
import pytest

from foundation.errors import BadInputError
from parts.node_sleep.replay.bin_rules import WARM_UP_BINS, artifact_decisions, bin_decisions
from parts.node_sleep.replay.settings import PUBLISHED_SETTINGS, SleepSettings
from tests.reference import ROOT

SETTINGS = SleepSettings("helios-artifact", buffer_nodes=2, past_bins=2, near_bins=2, keep_bins=3)


@pytest.mark.reference
def test_every_bin_of_philly_in_december_is_as_the_artifact_decides() -> None:
    bins = pd.read_csv(ROOT / "reference/helios/ces_philly_dec_artifact.csv.gz")
    decided = artifact_decisions(
        PUBLISHED_SETTINGS["philly"], bins["running"], bins["total"], bins["forecast"]
    )

    assert len(bins) == 2016
    assert (decided.active == bins["active"]).all()
    assert (decided.change == bins["change"]).all()


@pytest.mark.reference
def test_earth_in_september_sleeps_as_published() -> None:
    bins = pd.read_csv(ROOT / "data/helios/earth_sep_nodes.csv.gz")
    decided = artifact_decisions(
        PUBLISHED_SETTINGS["earth"], bins["running"], bins["total"], bins["artifact_forecast"]
    )

    woken = decided.change[decided.change > 0]
    assert (bins["total"] - decided.active).mean() == pytest.approx(20.49, abs=0.005)
    assert len(woken) / (len(bins) / 144) == pytest.approx(1.52, abs=0.005)
    assert woken.mean() == pytest.approx(6.56, abs=0.005)
    assert (bins["running"] / decided.active).mean() == pytest.approx(0.9506, abs=5e-5)


def test_demand_above_what_is_awake_wakes_and_keeps() -> None:
    running = [5] * WARM_UP_BINS + [9, 6, 4, 4, 3, 2]
    decided = bin_decisions(SETTINGS, running, [20] * len(running), None)

    # Woken to 9 + 2; three bins later nodes may sleep again.
    assert decided.active[WARM_UP_BINS:].tolist() == [11, 11, 11, 6, 5, 4]
    assert decided.change[WARM_UP_BINS:].tolist() == [4, 0, 0, -5, -1, -1]


def test_change_is_not_corrected_where_more_is_woken_than_there_is() -> None:
    running = [5] * WARM_UP_BINS + [9]
    decided = bin_decisions(SETTINGS, running, [10] * len(running), None)
    assert (decided.active[-1], decided.change[-1]) == (10, 4)


def test_a_forecast_that_rises_keeps_nodes_awake() -> None:
    running = [9] * WARM_UP_BINS + [9, 5, 5]
    low, high = (lambda at: (4.0, 4.0)), (lambda at: (6.0, 6.0))
    rising_later = lambda at: (4.0, 5.0)  # noqa: E731
    active = [
        bin_decisions(SETTINGS, running, [20] * len(running), forecast).active[-1]
        for forecast in (low, high, rising_later)
    ]
    assert active == [7, 11, 11]


def test_the_buffer_may_stand_on_bins_before_the_window() -> None:
    running = [5] * (WARM_UP_BINS + 1)
    settings = SleepSettings("buffer", buffer_nodes=2, peak_bins=9, past_threshold=-100)
    before = [8, 5, 5]
    assert bin_decisions(settings, running, [20] * 7, None, bins_before=before).active[-1] == 7
    running[0] = 9
    assert bin_decisions(settings, running, [20] * 7, None, bins_before=before).active.tolist()[-1] == 7


def test_series_that_do_not_fit_are_named() -> None:
    with pytest.raises(BadInputError, match="no series"):
        bin_decisions(SETTINGS, [1, 2], [3], None)
    with pytest.raises(BadInputError, match="no series"):
        bin_decisions(SETTINGS, [], [], None)
    with pytest.raises(BadInputError, match="no number of nodes"):
        bin_decisions(SETTINGS, [1, np.nan], [3, 3], None)
    with pytest.raises(BadInputError, match="forecasts for"):
        artifact_decisions(SETTINGS, [1, 2], [3, 3], [1])
