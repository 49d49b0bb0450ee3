"""What MLflow loads to serve one of our models ("models from code"): our NumPy scorer over its JSON file.

MLflow stores this file as text beside the model, so nothing is pickled. It needs the distribution
`lucid-mlops`.
"""

from typing import Any

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

from lucid_models.scoring import load_scorer
from lucid_models.serving_frames import score_frame


class ServedScorer(PythonModel):  # type: ignore[misc]  # MLflow ships no types
    """A saved model behind MLflow's pyfunc interface."""

    def load_context(self, context: Any) -> None:
        """Load the model's file."""
        self.scorer = load_scorer(context.artifacts["model"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:
        """Score a table; its columns are those of the model's signature."""
        return score_frame(self.scorer, model_input)


set_model(ServedScorer())
