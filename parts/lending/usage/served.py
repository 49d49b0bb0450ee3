"""How tables are scored by the inference load model: what follows
each row from the rows up to it.
"""

import numpy as np
import pandas as pd

from lucid_models.serving_frames import ServingFrame, first_bin_s
from parts.lending.usage.scorer import InferenceLoadScorer


def _score(scorer: InferenceLoadScorer, table: pd.DataFrame) -> pd.DataFrame:
    start_s = first_bin_s(table, scorer.features.bin_s)
    forecasts = scorer.predict_series(table["usage"].to_numpy(dtype=np.float64), start_s)
    return pd.DataFrame({"usage_forecast": forecasts}, index=table.index)


FRAME = ServingFrame(
    {"bin_start_s": ("long", True), "usage": ("double", True)},
    {"usage_forecast": ("double", True)},
    _score,
)
