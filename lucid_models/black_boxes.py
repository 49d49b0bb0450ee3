"""Black-box rivals for reports: LightGBM (when installed) and a random forest, on our own causal features."""

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A forest on more rows takes minutes and gains next to nothing; the newest rows are taken.
FOREST_ROWS = 30_000


@dataclass(frozen=True)
class BlackBox:
    """A fitted rival."""

    name: str
    model: Any

    def predict(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions, shape (rows,)."""
        return np.asarray(self.model.predict(rows), dtype=np.float64)


def available() -> tuple[str, ...]:
    """The rivals that can be trained here."""
    return ("lightgbm", "rf") if importlib.util.find_spec("lightgbm") else ("rf",)


def fit_regressor(
    name: str, rows: NDArray[np.float64], target: NDArray[np.float64], *, loss: str = "l2", seed: int = 0
) -> BlackBox:
    """Fit one rival; `loss` is "l1" or "l2" (the forest always uses l2: its l1 takes quadratic time)."""
    if name == "lightgbm":
        from lightgbm import LGBMRegressor

        model: Any = LGBMRegressor(
            objective="regression_l1" if loss == "l1" else "regression",
            n_estimators=300,
            learning_rate=0.05,
            min_child_samples=30,
            random_state=seed,
            n_jobs=1,
            deterministic=True,
            force_row_wise=True,
            verbosity=-1,
        )
        return BlackBox(name, model.fit(rows, target))
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        n_estimators=40, min_samples_leaf=10, max_features=0.33, n_jobs=1, random_state=seed
    )
    return BlackBox(name, forest.fit(rows[-FOREST_ROWS:], target[-FOREST_ROWS:]))
