"""`lucid evaluate inference`: what it reads, and that every rival is asked the same and sees no later bin."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.model_quality.inference_inputs import last_days, read_load
from experiments.model_quality.inference_rivals import inference_rivals
from experiments.model_quality.inference_walk_forward import walk_forward
from foundation.errors import BadInputError
from parts.lending.load.series import InferenceSeries
from parts.lending.load.table import LoadReading
from parts.lending.usage.evaluation import NAIVE
from parts.lending.usage.fitting import LoadSettings
from tests.reference import ROOT


def wave(bins: int = 700) -> InferenceSeries:
    rng = np.random.default_rng(1)
    usage = 0.5 + 0.2 * np.sin(2 * np.pi * np.arange(bins) / 144) + rng.normal(0, 0.02, bins)
    gap = np.zeros(bins, dtype=bool)
    gap[300:304] = True
    return InferenceSeries(0.0, np.clip(usage, 0, 1), gap, None, 600)


def test_no_rival_sees_a_later_bin() -> None:
    series, first = wave(), 500
    later = replace(series, usage=np.where(np.arange(series.usage.size) < 600, series.usage, 0.0))
    for name, rival in {**NAIVE, "lightgbm": inference_rivals()["lightgbm"]}.items():
        said, other = rival(series, first), rival(later, first)
        np.testing.assert_allclose(said[:600], other[:600], rtol=0, atol=1e-12, err_msg=name)
        assert np.isfinite(said[first:]).all(), name


def test_the_lstm_forecasts_each_bin_whose_window_there_is() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed (make install-zoo)")
    series = wave(400)
    said = inference_rivals()["lstm"](series, 300)
    assert np.isnan(said[:9]).all()
    assert np.isfinite(said[9:]).all()
    assert np.abs(said[300:-1] - series.usage[301:]).mean() < 0.05


def test_nodes_may_stand_in_for_servers(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    rows = [f"{60 * minute},{20 + minute // 5},40" for minute in range(15)]
    path.write_text("\n".join(["time,busy,total", *rows]))

    series = read_load(str(path), "node-sequence", LoadReading(40), bin_s=300)
    assert series.usage.tolist() == [0.5, 0.525, 0.55]
    with pytest.raises(BadInputError, match="needs their number"):
        read_load(str(path), "node-sequence", LoadReading())
    with pytest.raises(BadInputError, match="holds no inference load"):
        read_load(str(path), "swf", LoadReading())
    with pytest.raises(BadInputError, match="nothing to learn from"):
        last_days(series, 3.0)


@pytest.mark.reference
def test_a_file_of_several_services_is_read_in_its_own_bins() -> None:
    load = LoadReading(zeros_are_gaps=True, rates_column="m_small")
    series = read_load(str(ROOT / "data/lyra/servegen_rates_10min.csv.gz"), "inference-load", load)
    assert (series.bin_s, series.usage.size, int(series.gap.sum())) == (600, 2_016, 37)
    assert series.usage.max() == 0.98


def test_models_that_are_trained_anew_see_no_later_bin() -> None:
    fast = LoadSettings(member="ewma", boosting=replace(LoadSettings().boosting, bags=2, max_rounds=20))
    short = wave(800)
    said = walk_forward(short, fast)
    assert (said.mean[:30] == 1).all()
    assert (said.quantiles[0.9][:30] == 1).all()
    other = walk_forward(replace(short, usage=np.where(np.arange(800) < 500, short.usage, 0.1)), fast)
    np.testing.assert_array_equal(said.quantiles[0.9][:501], other.quantiles[0.9][:501])
