"""How tables are scored by the node demand model: what follows
each row from the rows up to it.
"""

import numpy as np
import pandas as pd

from lucid_models.serving_frames import ServingFrame, first_bin_s
from parts.node_sleep.demand.scorer import TARGETS, NodeDemandScorer


def _score(scorer: NodeDemandScorer, table: pd.DataFrame) -> pd.DataFrame:
    start_s = first_bin_s(table, scorer.features.bin_s)
    return pd.DataFrame(
        scorer.predict_series(table["busy"].to_numpy(dtype=np.float64), start_s), index=table.index
    )


FRAME = ServingFrame(
    {"bin_start_s": ("long", True), "busy": ("double", True)},
    dict.fromkeys(TARGETS, ("double", True)),
    _score,
)
