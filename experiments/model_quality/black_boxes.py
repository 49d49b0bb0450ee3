"""Black-box rivals for reports: LightGBM (when installed), a random forest and a small neural network."""

import importlib.util
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# More rows take minutes and gain next to nothing; the newest rows are taken.
FOREST_ROWS = 30_000
NETWORK_ROWS = 30_000
REPEATABLE_LIGHTGBM: Mapping[str, Any] = {
    "random_state": 0,
    "n_jobs": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
# What these learn badly by squared error, because a few bursts outweigh everything, they learn as a root.
SQUARED_ERROR_ONLY = ("rf", "neural")


@dataclass(frozen=True)
class BlackBox:
    """A fitted rival."""

    name: str
    model: Any

    def predict(self, rows: Floats) -> Floats:
        """Predictions, shape (rows,)."""
        return np.asarray(self.model.predict(rows), dtype=np.float64)

    def gains(self) -> Floats:
        """By how much the splits on each feature lowered LightGBM's loss in training, shape (features,)."""
        gains: Floats = np.asarray(self.model.booster_.feature_importance("gain"), dtype=np.float64)
        return gains


def available() -> tuple[str, ...]:
    """The rivals that can be trained here."""
    return tuple(name for name in ("lightgbm", "rf", "neural") if name != "lightgbm" or _has_lightgbm())


def fit_regressor(
    name: str,
    rows: Floats,
    target: Floats,
    *,
    loss: str = "l2",
    seed: int = 0,
    most_depth: int | None = None,
) -> BlackBox:
    """Fit one rival; `loss` is "l1" or "l2" (only LightGBM knows l1 within reasonable time).

    `most_depth`: how many questions in a row LightGBM's trees may ask (None: any number).
    """
    if name == "lightgbm":
        return BlackBox(name, _lightgbm(loss, seed, most_depth).fit(rows, target))
    if name == "rf":
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(
            n_estimators=40, min_samples_leaf=10, max_features=0.33, n_jobs=1, random_state=seed
        )
        return BlackBox(name, forest.fit(rows[-FOREST_ROWS:], target[-FOREST_ROWS:]))
    network = _network(seed)
    with warnings.catch_warnings():
        # Training stops after a fixed number of epochs; that it could go on is no news.
        warnings.filterwarnings("ignore", message="Stochastic Optimizer")
        network.fit(rows[-NETWORK_ROWS:], target[-NETWORK_ROWS:])
    return BlackBox(name, network)


def fit_with_defaults(name: str, rows: Floats, target: Floats, *, seed: int = 0) -> BlackBox:
    """Fit one rival with its library's default settings, as Lucid's Table 7 does; rows without gaps."""
    if name == "lightgbm":
        from lightgbm import LGBMRegressor

        model: Any = LGBMRegressor(random_state=seed, n_jobs=1, deterministic=True, verbosity=-1)
    elif name == "rf":
        from sklearn.ensemble import RandomForestRegressor

        model = RandomForestRegressor(n_jobs=1, random_state=seed)
        rows, target = rows[-FOREST_ROWS:], target[-FOREST_ROWS:]
    else:
        from sklearn.neural_network import MLPRegressor

        model = MLPRegressor(random_state=seed)
        rows, target = rows[-NETWORK_ROWS:], target[-NETWORK_ROWS:]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Stochastic Optimizer")
        return BlackBox(name, model.fit(rows, target))


def _has_lightgbm() -> bool:
    return importlib.util.find_spec("lightgbm") is not None


def _lightgbm(loss: str, seed: int, most_depth: int | None) -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(
        objective="regression_l1" if loss == "l1" else "regression",
        n_estimators=300,
        learning_rate=0.05,
        min_child_samples=30,
        max_depth=-1 if most_depth is None else most_depth,
        **{**REPEATABLE_LIGHTGBM, "random_state": seed},
    )


def _network(seed: int) -> Any:
    """Two small layers on standardised inputs and target; what is missing counts as the median."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    layers = MLPRegressor(
        hidden_layer_sizes=(64, 32), alpha=1e-3, max_iter=25, early_stopping=True, random_state=seed
    )
    impute = SimpleImputer(strategy="median", keep_empty_features=True)
    return TransformedTargetRegressor(
        make_pipeline(impute, StandardScaler(), layers), transformer=StandardScaler()
    )
