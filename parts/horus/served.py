"""How tables are scored by the utilisation model: one row a graph."""

import pandas as pd

from lucid_models.serving_frames import ServingFrame
from parts.horus.graph_features import FEATURE_NAMES, GraphFeatures
from parts.horus.scorer import FIGURES, UtilisationScorer


def _score(scorer: UtilisationScorer, table: pd.DataFrame) -> pd.DataFrame:
    graphs = [
        GraphFeatures.from_data({name: row[name] for name in FEATURE_NAMES})
        for row in table.to_dict("records")
    ]
    predicted = scorer.predict(graphs, [bool(amp) for amp in table["amp"]])
    return pd.DataFrame([vars(one) for one in predicted], columns=list(FRAME.outputs), index=table.index)


FRAME = ServingFrame(
    dict.fromkeys((*FEATURE_NAMES, "amp"), ("double", True)),
    {**dict.fromkeys(FIGURES, ("double", True)), "reason": ("string", True)},
    _score,
)
