"""A run of MLflow that is being written: parameters, metrics, data sets, files, a model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from foundation.errors import LucidError
from lucid_models.mlflow_server import MlflowServer
from lucid_models.serving_frames import Columns, serving_frame

_MAX_DIGEST = 36
MAX_TAG = 5_000


@dataclass(frozen=True)
class LoggedDataset:
    """What a run learned from: name, where it is, a SHA-256 of the rows, and the window (ISO times)."""

    name: str
    source: str
    digest: str
    rows: int
    columns: Mapping[str, str]
    window_start: str | None = None
    window_end: str | None = None


class OpenRun:
    """A run that is being written."""

    def __init__(self, server: MlflowServer, run_id: str) -> None:
        self.server, self.run_id = server, run_id
        self._client = server.client

    def log_params(self, values: Mapping[str, Any]) -> None:
        """Parameters."""
        from mlflow.entities import Param

        params = [Param(key, str(value)[:MAX_TAG]) for key, value in values.items()]
        self.server.call(lambda: self._client.log_batch(self.run_id, params=params))

    def params(self) -> dict[str, str]:
        """The parameters that the run has by now."""
        return dict(self.server.call(lambda: self._client.get_run(self.run_id)).data.params)

    def log_metrics(self, values: Mapping[str, float]) -> None:
        """Metrics, to six digits, which people read; whole numbers as they are.

        Those that are not finite are left out, because not every store holds them.
        """
        from mlflow.entities import Metric
        from mlflow.utils.time import get_current_time_millis

        now = get_current_time_millis()
        finite = {key: six_digits(value) for key, value in values.items() if math.isfinite(value)}
        metrics = [Metric(key, value, now, 0) for key, value in finite.items()]
        self.server.call(lambda: self._client.log_batch(self.run_id, metrics=metrics))

    def set_tag(self, key: str, value: str) -> None:
        """A tag of the run."""
        self.server.call(lambda: self._client.set_tag(self.run_id, key, value[:MAX_TAG]))

    def rename(self, name: str) -> None:
        """Name the run by what it has made."""
        self.server.call(lambda: self._client.update_run(self.run_id, name=name))

    def log_training_data(self, dataset: LoggedDataset) -> None:
        """The data set that a run learned from as its input, with its digest and window."""
        import json

        from mlflow.entities import Dataset, DatasetInput, InputTag

        columns = [{"type": kind, "name": name, "required": True} for name, kind in dataset.columns.items()]
        entity = Dataset(
            name=dataset.name,
            digest=dataset.digest[:_MAX_DIGEST],
            source_type="local" if "://" not in dataset.source else dataset.source.split("://", 1)[0],
            source=json.dumps({"uri": dataset.source}),
            schema=json.dumps({"mlflow_colspec": columns}),
            profile=json.dumps(
                {
                    "num_rows": dataset.rows,
                    "sha256": dataset.digest,
                    "window_start": dataset.window_start,
                    "window_end": dataset.window_end,
                }
            ),
        )
        tags = [InputTag("mlflow.data.context", "training")]
        self.server.call(lambda: self._client.log_inputs(self.run_id, datasets=[DatasetInput(entity, tags)]))

    def log_folder(self, folder: Path, path: str = "") -> None:
        """Every file below a folder as artifacts under `path`."""
        self.server.call(lambda: self._client.log_artifacts(self.run_id, str(folder), path or None))

    def artifact_uri(self, path: str) -> str:
        """Where the store keeps an artifact of this run."""
        info = self.server.call(lambda: self._client.get_run(self.run_id)).info
        return f"{info.artifact_uri}/{path}"

    def ui_path(self) -> str:
        """The page of this run in MLflow's UI, below its address.

        A browser that never chose between MLflow's two faces would open it among traces of agents.
        """
        info = self.server.call(lambda: self._client.get_run(self.run_id)).info
        return f"experiments/{info.experiment_id}/runs/{self.run_id}?workflowType=machine_learning"

    def log_scorer(self, name: str, kind: str, file: Path, example: pd.DataFrame) -> tuple[str, str]:
        """Log a saved model as an MLflow model and load it once from the store; returns (uri, model id).

        Raises LucidError when what the store gives back does not load or does not score the example: nothing
        is registered then.
        """
        from mlflow.models import ModelSignature

        import mlflow

        frame = serving_frame(kind)
        signature = ModelSignature(inputs=_schema(frame.inputs), outputs=_schema(frame.outputs))
        with self.server.as_current():
            with mlflow.start_run(run_id=self.run_id):
                info = self.server.call(
                    lambda: mlflow.pyfunc.log_model(
                        name=name,
                        python_model=str(Path(__file__).with_name("mlflow_scorer.py")),
                        artifacts={"model": str(file)},
                        pip_requirements=_requirements(),
                        signature=signature,
                        input_example=example,
                    )
                )
            loaded = self.server.call(lambda: mlflow.pyfunc.load_model(info.model_uri))
            scored = loaded.predict(example)
            if len(scored) != len(example):
                raise LucidError(
                    f"The logged {kind} model scored {len(scored)} of {len(example)} example rows."
                )
        return str(info.model_uri), str(info.model_id)


def six_digits(value: float) -> float:
    """A number with six digits; a whole one as it is."""
    number = float(value)
    if number.is_integer():
        return number
    return round(number, max(5 - math.floor(math.log10(abs(number))), 0))


def _schema(columns: Columns) -> Any:
    from mlflow.types import ColSpec, Schema

    return Schema([ColSpec(kind, name, required=required) for name, (kind, required) in columns.items()])


def _requirements() -> list[str]:
    from importlib.metadata import version

    return [f"{name}=={version(name)}" for name in ("lucid-mlops", "mlflow", "numpy", "pandas")]
