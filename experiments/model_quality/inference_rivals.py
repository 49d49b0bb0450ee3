"""Black-box rivals of the forecast of inference usage: LightGBM, and the LSTM of Lyra where PyTorch is there.

They see what ours sees, learn the change to the next bin from the same bins, and say it of the same ones.
"""

import importlib.util
from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from experiments.model_quality.black_boxes import REPEATABLE_LIGHTGBM
from lucid_models.series.windows import Floats
from parts.lending.load.series import InferenceSeries
from parts.lending.usage.evaluation import Rival
from parts.lending.usage.features import WINDOW_BINS, LoadFeatures
from parts.lending.usage.fitting import LoadSettings, fit_load_scorer, judged_bins

# Lyra (section 6): two layers, a window of ten bins. Width, rate and when it stops are ours.
_WIDTH, _BATCH, _RATE = 32, 64, 2e-3
# The newest fifth of the bins to learn from says after which pass the LSTM was best; so many passes without a
# better one end the training.
_HELD_OUT, _MOST_PASSES, _PATIENCE = 0.2, 200, 15


def inference_rivals(*, trained: bool = True) -> dict[str, Rival]:
    """The rivals that can be trained here; without `trained` none, for all of these take seconds."""
    if not trained:
        return {}
    rivals: dict[str, Rival] = {"ebm": _member("ebm"), "ebm_ewma": _member("ebm_ewma")}
    libraries: tuple[tuple[str, str, Rival], ...] = (
        ("lightgbm", "lightgbm", _lightgbm),
        ("lstm", "torch", _lstm),
    )
    return rivals | {
        name: rival for name, library, rival in libraries if importlib.util.find_spec(library) is not None
    }


def _member(name: str) -> Rival:
    def forecast(series: InferenceSeries, first: int) -> Floats:
        scorer = fit_load_scorer(series.first(first), LoadSettings(member=name))
        if not scorer.additive.term_names:  # too short a history: nothing was learned
            return np.full(series.usage.size, np.nan)
        return scorer.predict_series(series.usage, round(series.start_s))

    return forecast


def _lightgbm(series: InferenceSeries, first: int) -> Floats:
    from lightgbm import LGBMRegressor

    matrix = LoadFeatures(series.bin_s).matrix(series.usage, round(series.start_s))
    at = np.flatnonzero(judged_bins(series.gap)[:first])
    settings: Mapping[str, object] = {
        **REPEATABLE_LIGHTGBM,
        "n_estimators": 200,
        "learning_rate": 0.03,
        "num_leaves": 15,
        "min_child_samples": 30,
    }
    model = LGBMRegressor(**settings).fit(matrix[at - 1], series.usage[at] - series.usage[at - 1])
    return np.asarray(series.usage + model.predict(matrix), dtype=np.float64)


def _lstm(series: InferenceSeries, first: int) -> Floats:
    """Two layers over the last ten bins, with the change to the next bin for a target, stopped early."""
    import torch

    torch.manual_seed(0)
    usage = series.usage
    windows = sliding_window_view(usage, WINDOW_BINS)  # row r ends with bin r + WINDOW_BINS - 1
    at = np.flatnonzero(judged_bins(series.gap)[:first])
    mean, spread = float(usage[at].mean()), float(usage[at].std()) or 1.0
    step = float((usage[at] - usage[at - 1]).std()) or 1.0
    inputs = torch.tensor((windows - mean) / spread, dtype=torch.float32).unsqueeze(-1)
    learned = inputs[at - WINDOW_BINS]
    target = torch.tensor((usage[at] - usage[at - 1]) / step, dtype=torch.float32)
    lstm = torch.nn.LSTM(1, _WIDTH, num_layers=2, batch_first=True)
    head = torch.nn.Linear(_WIDTH, 1)
    optimiser = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=_RATE)
    held_out = max(1, round(_HELD_OUT * len(target)))
    stops_at, least, best = 0, float("inf"), {}
    modules = torch.nn.ModuleList([lstm, head])
    for number in range(_MOST_PASSES):
        for rows in torch.randperm(len(target) - held_out).split(_BATCH):
            optimiser.zero_grad()
            said = head(lstm(learned[rows])[0][:, -1]).squeeze(-1)
            torch.nn.functional.mse_loss(said, target[rows]).backward()
            optimiser.step()
        with torch.no_grad():
            said = head(lstm(learned[-held_out:])[0][:, -1]).squeeze(-1)
            loss = float(torch.nn.functional.mse_loss(said, target[-held_out:]))
        if loss < least:
            least, stops_at = loss, number + _PATIENCE
            best = {name: value.clone() for name, value in modules.state_dict().items()}
        if number >= stops_at:
            break
    modules.load_state_dict(best)
    with torch.no_grad():
        changes = head(lstm(inputs)[0][:, -1]).squeeze(-1).numpy()
    forecasts = np.full(usage.size, np.nan)
    forecasts[WINDOW_BINS - 1 :] = usage[WINDOW_BINS - 1 :] + step * changes
    return forecasts
