"""MLflow as this product uses it: the only module of ours that imports it, besides what MLflow itself loads.

A registered version's tags are written with the version in one call, so a version is there with all of them
or not at all. What a version holds never changes afterwards; only aliases and a few named tags move.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from foundation.bounded_http import refuse_readable_secret, without_proxies
from foundation.errors import LucidError, NotFoundError, ServiceUnavailableError
from foundation.leftovers import scratch_folder
from foundation.private_files import private_database
from foundation.process_identity import is_gone, own_process
from lucid_models.code_version import CodeVersion, code_version
from lucid_models.serving_frames import INPUT_COLUMNS, OUTPUT_COLUMNS, Columns

Result = TypeVar("Result")

_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
PROCESS_TAG = "lucid.process"  # which process writes a run
_RUNNING_RUNS = 100  # at most, that are looked through
_LONGEST_RUN_S = 30 * 86_400.0  # of a process that cannot be seen from here
_SQLITE = "sqlite:///"
_QUIET = {
    # No telemetry leaves the machine; standard output belongs to the commands' own results.
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # The default of 7 retries with growing pauses keeps a command waiting for minutes when the server is
    # down.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}
_MAX_DIGEST = 36
_MAX_TAG = 5_000


@dataclass(frozen=True)
class RegisteredVersion:
    """A version of a registered model."""

    name: str
    version: int
    run_id: str
    tags: Mapping[str, str]
    created_ms: int


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


@dataclass(frozen=True)
class FoundRun:
    """A run that was written earlier."""

    run_id: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]


class Registry:
    """Runs, models and aliases on one MLflow server (or SQLite file).

    Every method raises ServiceUnavailableError when MLflow does not answer.
    """

    def __init__(self, tracking_uri: str) -> None:
        """Raises BadInputError for an address to which a password or token would go readable."""
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        os.environ.update(without_proxies(os.environ))
        secret = any(os.environ.get(name) for name in _SECRETS)
        if tracking_uri.startswith("http"):
            refuse_readable_secret(tracking_uri, "LUCID_TRACKING_URI", secret=secret)
        if tracking_uri.startswith(_SQLITE) and Path(tracking_uri.removeprefix(_SQLITE)).parent.is_dir():
            private_database(Path(tracking_uri.removeprefix(_SQLITE)))
        from mlflow import MlflowClient

        self.tracking_uri = tracking_uri
        self._client: Any = MlflowClient(tracking_uri, registry_uri=tracking_uri)
        # Where a version lies never changes, and MLflow's client asks twice for it.
        self._places: dict[tuple[str, int], str] = {}

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Make this server MLflow's current one, where any client looks `models:/` addresses up."""
        import mlflow

        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(self.tracking_uri)
        try:
            yield
        finally:
            mlflow.set_tracking_uri(before)

    # Runs ----------------------------------------------------------------------------------------------

    @contextmanager
    def run(self, experiment: str, name: str, tags: Mapping[str, str] | None = None) -> Iterator["OpenRun"]:
        """A run that ends as FINISHED, or as FAILED when the block raises."""
        code = code_version()
        all_tags = {"mlflow.runName": name, PROCESS_TAG: own_process(), **_code_tags(code), **(tags or {})}
        place = self._call(lambda: self._experiment(experiment))
        with suppress(ServiceUnavailableError):
            self._end_runs_left_behind(place)
        run_id = self._call(lambda: self._client.create_run(place, tags=all_tags)).info.run_id
        status = "FAILED"
        try:
            yield OpenRun(self, run_id)
            status = "FINISHED"
        finally:
            try:
                self._call(lambda: self._client.set_terminated(run_id, status))
            except ServiceUnavailableError:
                if status == "FINISHED":
                    raise

    def _end_runs_left_behind(self, experiment_id: str) -> None:
        """End the runs whose process was killed: it could not say so."""
        running = self._call(
            lambda: self._client.search_runs(
                [experiment_id], "attributes.status = 'RUNNING'", max_results=_RUNNING_RUNS
            )
        )
        for run in running:
            age_s = time.time() - run.info.start_time / 1e3
            if is_gone(run.data.tags.get(PROCESS_TAG, "")) or age_s > _LONGEST_RUN_S:
                self._call(partial(self._client.set_terminated, run.info.run_id, "KILLED"))

    def run_metrics(self, run_id: str) -> dict[str, float]:
        """The newest value of each metric of a run; raises NotFoundError."""
        run = self._found(lambda: self._client.get_run(run_id))
        if run is None:
            raise NotFoundError(f"There is no run {run_id} on {self.tracking_uri}.")
        return {str(name): float(value) for name, value in run.data.metrics.items()}

    def find_runs(self, experiment: str, tags: Mapping[str, str], *, most: int = 100) -> list["FoundRun"]:
        """The newest finished runs of an experiment with these tags; none when it does not exist."""
        stored = self._call(lambda: self._client.get_experiment_by_name(experiment))
        if stored is None:
            return []
        wanted = [
            "attributes.status = 'FINISHED'",
            *(f"tags.`{key}` = '{value}'" for key, value in tags.items()),
        ]
        runs = self._call(
            lambda: self._client.search_runs(
                [stored.experiment_id],
                " and ".join(wanted),
                max_results=most,
                order_by=["attributes.start_time DESC"],
            )
        )
        return [FoundRun(str(run.info.run_id), dict(run.data.tags), dict(run.data.metrics)) for run in runs]

    def _experiment(self, name: str) -> str:
        stored = self._client.get_experiment_by_name(name)
        if stored is not None:
            return str(stored.experiment_id)
        try:
            return str(self._client.create_experiment(name, artifact_location=self._artifact_root()))
        except Exception:
            # Another process may have created it in between.
            stored = self._client.get_experiment_by_name(name)
            if stored is None:
                raise
            return str(stored.experiment_id)

    def _artifact_root(self) -> str | None:
        """Beside a SQLite store, not in the working directory; a server decides for itself."""
        if not self.tracking_uri.startswith(_SQLITE):
            return None
        return str(Path(self.tracking_uri.removeprefix(_SQLITE)).parent.absolute() / "artifacts")

    # Registered models ---------------------------------------------------------------------------------

    def ensure_model(self, name: str, description: str) -> None:
        """Create the registered model unless it is there."""
        if self._found(lambda: self._client.get_registered_model(name)) is None:
            try:
                self._call(lambda: self._client.create_registered_model(name, description=description))
            except LucidError:
                if self._found(lambda: self._client.get_registered_model(name)) is None:
                    raise

    def models_named(self, prefix: str) -> dict[str, dict[str, int]]:
        """The registered models whose names begin so, each with its aliases and their versions."""
        models: dict[str, dict[str, int]] = {}
        token: str | None = None
        while True:
            page = self._call(
                lambda token=token: self._client.search_registered_models(  # type: ignore[misc]
                    f"name LIKE '{prefix}%'", max_results=100, page_token=token
                )
            )
            models |= {str(model.name): _aliases(model) for model in page}
            token = page.token
            if not token:
                return models

    def create_version(
        self,
        name: str,
        source: str,
        run_id: str,
        tags: Mapping[str, str],
        *,
        description: str,
        model_id: str | None = None,
    ) -> int:
        """Register what lies at `source`, with its tags in the same call; returns the version."""
        with self.as_current():
            made = self._call(
                lambda: self._client.create_model_version(
                    name,
                    source,
                    run_id=run_id,
                    tags={key: value[:_MAX_TAG] for key, value in tags.items()},
                    description=description,
                    model_id=model_id,
                    await_creation_for=0,
                )
            )
        return int(made.version)

    def versions(self, name: str) -> list[RegisteredVersion]:
        """All versions of a registered model, the newest first; empty when there is none."""
        registered: list[Any] = []
        token: str | None = None
        while True:
            page = self._call(
                lambda token=token: self._client.search_model_versions(  # type: ignore[misc]
                    f"name = '{name}'", max_results=1_000, page_token=token
                )
            )
            registered.extend(page)
            token = page.token
            if not token:
                break
        return sorted((_version(item) for item in registered), key=lambda item: -item.version)

    def version(self, name: str, version: int) -> RegisteredVersion:
        """One version; raises NotFoundError."""
        registered = self._found(lambda: self._client.get_model_version(name, str(version)))
        if registered is None:
            raise NotFoundError(
                f"There is no version {version} of {name} on {self.tracking_uri}.",
                remedy="`lucid release list` and MLflow's model page name the versions that exist.",
            )
        return _version(registered)

    def aliases(self, name: str) -> dict[str, int]:
        """Alias -> version of a registered model."""
        model = self._found(lambda: self._client.get_registered_model(name))
        return {} if model is None else _aliases(model)

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Point an alias at a version."""
        self._call(lambda: self._client.set_registered_model_alias(name, alias, str(version)))

    def model_tags(self, name: str) -> dict[str, str]:
        """Tags of the registered model itself."""
        model = self._found(lambda: self._client.get_registered_model(name))
        return {} if model is None else dict(model.tags)

    def set_model_tag(self, name: str, key: str, value: str) -> None:
        """Set a tag of the registered model itself."""
        self._call(lambda: self._client.set_registered_model_tag(name, key, value))

    def delete_model_tag(self, name: str, key: str) -> None:
        """Delete a tag of the registered model itself; a missing one is no error."""
        if key in self.model_tags(name):
            self._call(lambda: self._client.delete_registered_model_tag(name, key))

    def set_version_tag(self, name: str, version: int, key: str, value: str) -> None:
        """Set a tag of a version."""
        self._call(lambda: self._client.set_model_version_tag(name, str(version), key, value[:_MAX_TAG]))

    def delete_version_tag(self, name: str, version: int, key: str) -> None:
        """Delete a tag of a version; a missing one is no error."""
        if key in self.version(name, version).tags:
            self._call(lambda: self._client.delete_model_version_tag(name, str(version), key))

    # Files ---------------------------------------------------------------------------------------------

    def read_version_file(self, name: str, version: int, path: str) -> bytes:
        """A file of a registered version; raises NotFoundError."""
        uri = self._places.get((name, version))
        if uri is None:
            uri = self._call(lambda: self._client.get_model_version_download_uri(name, str(version)))
            self._places[name, version] = uri
        return self._read(f"{uri}/{path}", f"{name} version {version}: {path}")

    def read_run_file(self, run_id: str, path: str) -> bytes:
        """An artifact of a run; raises NotFoundError."""
        return self._read(f"runs:/{run_id}/{path}", f"run {run_id}: {path}")

    def _read(self, uri: str, what: str) -> bytes:
        from mlflow.artifacts import download_artifacts

        with scratch_folder("download") as folder:
            path = self._found(
                lambda: download_artifacts(
                    artifact_uri=uri, dst_path=str(folder), tracking_uri=self.tracking_uri
                )
            )
            if path is None or not Path(path).is_file():
                raise NotFoundError(
                    f"MLflow has no file for {what}.", remedy="Check that its artifact store is complete."
                )
            return Path(path).read_bytes()

    # Errors --------------------------------------------------------------------------------------------

    def _found(self, ask: Callable[[], Result]) -> Result | None:
        try:
            return self._call(ask)
        except NotFoundError:
            return None

    def _call(self, ask: Callable[[], Result]) -> Result:
        from mlflow.exceptions import MlflowException
        from requests.exceptions import RequestException

        try:
            return ask()
        except MlflowException as error:
            # A failed download says so only inside its text.
            if "RESOURCE_DOES_NOT_EXIST" in (error.error_code, *error.message.split('"')):
                raise NotFoundError(
                    f"MLflow on {self.tracking_uri} does not have it: {error.message}"
                ) from error
            raise ServiceUnavailableError(
                f"MLflow on {self.tracking_uri} failed: {error.message}",
                remedy="Check that it runs (`make up`) and LUCID_TRACKING_URI.",
            ) from error
        except FileNotFoundError as error:
            raise NotFoundError(f"MLflow on {self.tracking_uri} does not have it: {error}") from error
        except (RequestException, OSError) as error:
            raise ServiceUnavailableError(
                f"MLflow on {self.tracking_uri} did not answer: {error}",
                remedy="Check that it runs (`make up`) and LUCID_TRACKING_URI.",
            ) from error


class OpenRun:
    """A run that is being written."""

    def __init__(self, registry: Registry, run_id: str) -> None:
        self.registry, self.run_id = registry, run_id
        self._client = registry._client

    def log_params(self, values: Mapping[str, Any]) -> None:
        """Parameters."""
        from mlflow.entities import Param

        params = [Param(key, str(value)[:_MAX_TAG]) for key, value in values.items()]
        self.registry._call(lambda: self._client.log_batch(self.run_id, params=params))

    def log_metrics(self, values: Mapping[str, float]) -> None:
        """Metrics; those that are not finite are left out, because not every store holds them."""
        from mlflow.entities import Metric
        from mlflow.utils.time import get_current_time_millis

        now = get_current_time_millis()
        kept = {key: float(value) for key, value in values.items() if abs(float(value)) < float("inf")}
        metrics = [Metric(key, value, now, 0) for key, value in kept.items()]
        self.registry._call(lambda: self._client.log_batch(self.run_id, metrics=metrics))

    def set_tag(self, key: str, value: str) -> None:
        """A tag of the run."""
        self.registry._call(lambda: self._client.set_tag(self.run_id, key, value[:_MAX_TAG]))

    def log_dataset(self, dataset: LoggedDataset, context: str) -> None:
        """A data set as an input of the run, with its digest and window; `context`: training or
        evaluation.
        """
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
        tags = [InputTag("mlflow.data.context", context)]
        self.registry._call(
            lambda: self._client.log_inputs(self.run_id, datasets=[DatasetInput(entity, tags)])
        )

    def log_folder(self, folder: Path, path: str = "") -> None:
        """Every file below a folder as artifacts under `path`."""
        self.registry._call(lambda: self._client.log_artifacts(self.run_id, str(folder), path or None))

    def artifact_uri(self, path: str) -> str:
        """Where the store keeps an artifact of this run."""
        info = self.registry._call(lambda: self._client.get_run(self.run_id)).info
        return f"{info.artifact_uri}/{path}"

    def ui_path(self) -> str:
        """The page of this run in MLflow's UI, below its address."""
        info = self.registry._call(lambda: self._client.get_run(self.run_id)).info
        return f"experiments/{info.experiment_id}/runs/{self.run_id}"

    def log_scorer(self, name: str, kind: str, file: Path, example: pd.DataFrame) -> tuple[str, str]:
        """Log a saved model as an MLflow model and load it once from the store; returns (uri, model id).

        Raises LucidError when what the store gives back does not load or does not score the example: nothing
        is registered then.
        """
        from mlflow.models import ModelSignature

        import mlflow

        signature = ModelSignature(inputs=_schema(INPUT_COLUMNS[kind]), outputs=_schema(OUTPUT_COLUMNS[kind]))
        with self.registry.as_current():
            with mlflow.start_run(run_id=self.run_id):
                info = self.registry._call(
                    lambda: mlflow.pyfunc.log_model(
                        name=name,
                        python_model=str(Path(__file__).with_name("mlflow_scorer.py")),
                        artifacts={"model": str(file)},
                        pip_requirements=_requirements(),
                        signature=signature,
                        input_example=example,
                    )
                )
            loaded = self.registry._call(lambda: mlflow.pyfunc.load_model(info.model_uri))
            scored = loaded.predict(example)
            if len(scored) != len(example):
                raise LucidError(
                    f"The logged {kind} model scored {len(scored)} of {len(example)} example rows."
                )
        return str(info.model_uri), str(info.model_id)


def _aliases(model: Any) -> dict[str, int]:
    return {str(alias): int(version) for alias, version in model.aliases.items()}


def _version(found: Any) -> RegisteredVersion:
    return RegisteredVersion(
        str(found.name),
        int(found.version),
        str(found.run_id),
        dict(found.tags),
        int(found.creation_timestamp),
    )


def _schema(columns: Columns) -> Any:
    from mlflow.types import ColSpec, Schema

    return Schema([ColSpec(kind, name, required=required) for name, (kind, required) in columns.items()])


def _requirements() -> list[str]:
    from importlib.metadata import version

    return [f"{name}=={version(name)}" for name in ("lucid-mlops", "mlflow", "numpy", "pandas")]


def _code_tags(code: CodeVersion) -> dict[str, str]:
    tags = {"code_version": code.text, "mlflow.source.name": "lucid-mlops"}
    return tags | ({"mlflow.source.git.commit": code.commit} if code.commit else {})
