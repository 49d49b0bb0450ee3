"""Runs, registered models and aliases: MLflow as this product uses it.

A registered version's tags are written with the version in one call, so a version is there with all of them
or not at all. What a version holds never changes afterwards; only aliases and a few named tags move.
"""

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

from foundation.errors import LucidError, NotFoundError, ServiceRefusedError
from foundation.process_lock import scratch_folder
from lucid_models.mlflow_server import SQLITE, MlflowServer
from lucid_models.run_owner import PROCESS_TAG, owner_tags, why_dead
from lucid_models.tracking_run import MAX_TAG, OpenRun

# MLflow's UI opens an experiment of this kind as runs with metrics, not as traces of generative models.
EXPERIMENT_KIND, MODELS = "mlflow.experimentKind", "custom_model_development"
_RUNNING_RUNS, _EXPERIMENTS = 100, 1_000  # at most, that are looked through
_NOTE = "mlflow.note.content"  # MLflow shows it above the run


@dataclass(frozen=True)
class CodeVersion:
    """Which code made a model: the distribution's version, and the commit when it runs from a checkout.

    `commit` is None outside of a checkout; `modified` says that files differ from it.
    """

    distribution: str
    commit: str | None
    modified: bool

    @property
    def text(self) -> str:
        """For people: `0.1.0`, `0.1.0+5b6aaab`, `0.1.0+5b6aaab-modified`."""
        if self.commit is None:
            return self.distribution
        return f"{self.distribution}+{self.commit[:12]}{'-modified' if self.modified else ''}"


@dataclass(frozen=True)
class RegisteredVersion:
    """A version of a registered model."""

    name: str
    version: int
    run_id: str
    tags: Mapping[str, str]
    created_ms: int


@dataclass(frozen=True)
class FoundRun:
    """A run that was written earlier."""

    run_id: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class PastRun:
    """A run that has ended, and the models that were logged with it (ids)."""

    run_id: str
    model_ids: tuple[str, ...]


class Registry(MlflowServer):
    """Runs, models and aliases on one MLflow server (or SQLite file).

    Every method raises ServiceUnavailableError when MLflow does not answer, ServiceRefusedError when it will
    not do what it was asked.
    """

    def __init__(self, tracking_uri: str) -> None:
        """Raises BadInputError for an address to which a password or token would go readable."""
        super().__init__(tracking_uri)
        # Where a version lies never changes, and MLflow's client asks twice for it.
        self._places: dict[tuple[str, int], str] = {}

    # Runs ----------------------------------------------------------------------------------------------

    @contextmanager
    def run(self, experiment: str, name: str, tags: Mapping[str, str] | None = None) -> Iterator[OpenRun]:
        """A run that ends as FINISHED, or as FAILED when the block raises.

        Runs of any experiment that a killed process could not end, end as KILLED first.
        """
        code = code_version()
        owner = owner_tags()
        all_tags = {"mlflow.runName": name, **owner, **_code_tags(code), **(tags or {})}
        place = self.call(lambda: self._experiment(experiment))
        with suppress(LucidError):
            self._end_runs_left_behind(owner)
        run_id = self.call(lambda: self.client.create_run(place, tags=all_tags)).info.run_id
        status = "FAILED"
        try:
            yield OpenRun(self, run_id)
            status = "FINISHED"
        finally:
            try:
                self.call(lambda: self.client.set_terminated(run_id, status))
            except LucidError:
                if status == "FINISHED":
                    raise

    def _end_runs_left_behind(self, owner: Mapping[str, str]) -> None:
        """End the runs that are surely written no longer, and note why; runs of other programs are left."""
        experiments = self.call(lambda: self.client.search_experiments(max_results=_EXPERIMENTS))
        running = self.call(
            lambda: self.client.search_runs(
                [each.experiment_id for each in experiments],
                f"attributes.status = 'RUNNING' and tags.`{PROCESS_TAG}` != ''",
                max_results=_RUNNING_RUNS,
            )
        )
        for run in running:
            why = why_dead(run.data.tags, time.time() - run.info.start_time / 1e3, owner)
            if why is None:
                continue
            with suppress(LucidError):  # what this account may not end, another's next step does
                note = f"Ended as KILLED: {why}."
                self.call(partial(self.client.set_tag, run.info.run_id, _NOTE, note))
                self.call(partial(self.client.set_terminated, run.info.run_id, "KILLED"))

    def run_metrics(self, run_id: str) -> dict[str, float]:
        """The newest value of each metric of a run; raises NotFoundError."""
        run = self.found(lambda: self.client.get_run(run_id))
        if run is None:
            raise NotFoundError(f"There is no run {run_id} on {self.tracking_uri}.")
        return {str(name): float(value) for name, value in run.data.metrics.items()}

    def find_runs(self, experiment: str, tags: Mapping[str, str], *, most: int = 100) -> list[FoundRun]:
        """The newest finished runs of an experiment with these tags; none when it does not exist."""
        stored = self.call(lambda: self.client.get_experiment_by_name(experiment))
        if stored is None:
            return []
        wanted = [
            "attributes.status = 'FINISHED'",
            *(f"tags.`{key}` = '{value}'" for key, value in tags.items()),
        ]
        runs = self.call(
            lambda: self.client.search_runs(
                [stored.experiment_id],
                " and ".join(wanted),
                max_results=most,
                order_by=["attributes.start_time DESC"],
            )
        )
        return [FoundRun(str(run.info.run_id), dict(run.data.tags), dict(run.data.metrics)) for run in runs]

    def ended_runs(self, experiment: str, *, before_s: float) -> list[PastRun]:
        """All runs of an experiment that began before a Unix time and have ended."""
        stored = self.call(lambda: self.client.get_experiment_by_name(experiment))
        if stored is None:
            return []
        found: list[Any] = []
        token: str | None = None
        while True:
            page = self.call(
                lambda token=token: self.client.search_runs(  # type: ignore[misc]
                    [stored.experiment_id],
                    f"attributes.start_time < {int(before_s * 1e3)} and attributes.status != 'RUNNING'",
                    max_results=1_000,
                    page_token=token,
                )
            )
            found.extend(page)
            token = page.token
            if not token:
                break
        return [
            PastRun(
                str(run.info.run_id),
                tuple(str(model.model_id) for model in (run.outputs.model_outputs if run.outputs else ())),
            )
            for run in found
        ]

    def delete_run(self, run: PastRun) -> None:
        """Delete a run with the models that were logged with it: restorable until MLflow's `gc`."""
        for model_id in run.model_ids:
            self.found(partial(self.client.delete_logged_model, model_id))
        self.found(lambda: self.client.delete_run(run.run_id))

    def _experiment(self, name: str) -> str:
        stored = self.client.get_experiment_by_name(name)
        if stored is not None and stored.lifecycle_stage == "deleted":
            raise ServiceRefusedError(
                f"The experiment {name!r} of MLflow on {self.tracking_uri} is deleted: it takes no runs.",
                remedy="Restore it, MLFLOW_TRACKING_URI set to this address: `mlflow experiments restore "
                f"--experiment-id {stored.experiment_id}`. Or delete it for good, and the next run makes it "
                f"anew: `mlflow gc --experiment-ids {stored.experiment_id}` on the server's store.",
            )
        if stored is not None:
            return str(stored.experiment_id)
        try:
            return str(
                self.client.create_experiment(
                    name, artifact_location=self._artifact_root(), tags={EXPERIMENT_KIND: MODELS}
                )
            )
        except Exception:
            # Another process may have created it in between.
            stored = self.client.get_experiment_by_name(name)
            if stored is None:
                raise
            return str(stored.experiment_id)

    def _artifact_root(self) -> str | None:
        """Beside a SQLite store, not in the working directory; a server decides for itself."""
        if not self.tracking_uri.startswith(SQLITE):
            return None
        return str(Path(self.tracking_uri.removeprefix(SQLITE)).parent.absolute() / "artifacts")

    # Registered models ---------------------------------------------------------------------------------

    def ensure_model(self, name: str, description: str) -> None:
        """Create the registered model unless it is there.

        Raises ServiceRefusedError where MLflow keeps a prompt by this name.
        """
        if self._is_registered(name):
            return
        try:
            self.call(lambda: self.client.create_registered_model(name, description=description))
        except LucidError as error:
            if self._is_registered(name):  # another process was faster
                return
            if getattr(error.__cause__, "error_code", None) != "RESOURCE_ALREADY_EXISTS":
                raise
            raise self._taken_by_prompt(name, "it cannot be a registered model's") from error

    def _is_registered(self, name: str) -> bool:
        return self.found(lambda: self.client.get_registered_model(name)) is not None

    def _taken_by_prompt(self, name: str, therefore: str) -> ServiceRefusedError:
        return ServiceRefusedError(
            f"MLflow on {self.tracking_uri} keeps a prompt by the name {name!r}: {therefore}.",
            remedy="Delete that prompt (MLflow's page Prompts), and do this again.",
        )

    def models_named(self, prefix: str, *, without_tag: str | None = None) -> dict[str, dict[str, int]]:
        """The registered models with this prefix, without those of a tag: aliases and their versions."""
        models: dict[str, dict[str, int]] = {}
        token: str | None = None
        while True:
            page = self.call(
                lambda token=token: self.client.search_registered_models(  # type: ignore[misc]
                    f"name LIKE '{prefix}%'", max_results=100, page_token=token
                )
            )
            models |= {str(model.name): _aliases(model) for model in page if without_tag not in model.tags}
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
        """Register what lies at `source`, with its tags in the same call; returns the version.

        Raises ServiceRefusedError where MLflow made the version but lists it nowhere: below a prompt's name
        it takes versions that no search finds and no alias can name.
        """
        with self.as_current():
            made = self.call(
                lambda: self.client.create_model_version(
                    name,
                    source,
                    run_id=run_id,
                    tags={key: value[:MAX_TAG] for key, value in tags.items()},
                    description=description,
                    model_id=model_id,
                    await_creation_for=0,
                )
            )
        if not self._is_registered(name):
            raise self._taken_by_prompt(name, f"version {made.version} was made, but is listed nowhere")
        return int(made.version)

    def describe_version(self, name: str, version: int, description: str) -> None:
        """Set what the page of a version says of it (Markdown)."""
        self.call(lambda: self.client.update_model_version(name, str(version), description))

    def versions(self, name: str) -> list[RegisteredVersion]:
        """All versions of a registered model, the newest first; empty when there is none."""
        registered: list[Any] = []
        token: str | None = None
        while True:
            page = self.call(
                lambda token=token: self.client.search_model_versions(  # type: ignore[misc]
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
        registered = self.found(lambda: self.client.get_model_version(name, str(version)))
        if registered is None:
            raise NotFoundError(
                f"There is no version {version} of {name} on {self.tracking_uri}.",
                remedy="`lucid release list` and MLflow's model page name the versions that exist.",
            )
        return _version(registered)

    def delete_version(self, name: str, version: int) -> None:
        """Delete a version for good; its number is never used again. The run that holds its files stays."""
        self.found(lambda: self.client.delete_model_version(name, str(version)))

    def aliases(self, name: str) -> dict[str, int]:
        """Alias -> version of a registered model."""
        model = self.found(lambda: self.client.get_registered_model(name))
        return {} if model is None else _aliases(model)

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Point an alias at a version."""
        self.call(lambda: self.client.set_registered_model_alias(name, alias, str(version)))

    def model_tags(self, name: str) -> dict[str, str]:
        """Tags of the registered model itself."""
        model = self.found(lambda: self.client.get_registered_model(name))
        return {} if model is None else dict(model.tags)

    def set_model_tag(self, name: str, key: str, value: str) -> None:
        """Set a tag of the registered model itself."""
        self.call(lambda: self.client.set_registered_model_tag(name, key, value))

    def delete_model_tag(self, name: str, key: str) -> None:
        """Delete a tag of the registered model itself; a missing one is no error."""
        if key in self.model_tags(name):
            self.call(lambda: self.client.delete_registered_model_tag(name, key))

    def set_version_tag(self, name: str, version: int, key: str, value: str) -> None:
        """Set a tag of a version."""
        self.call(lambda: self.client.set_model_version_tag(name, str(version), key, value[:MAX_TAG]))

    def delete_version_tag(self, name: str, version: int, key: str) -> None:
        """Delete a tag of a version; a missing one is no error."""
        if key in self.version(name, version).tags:
            self.call(lambda: self.client.delete_model_version_tag(name, str(version), key))

    # Files ---------------------------------------------------------------------------------------------

    def read_version_file(self, name: str, version: int, path: str) -> bytes:
        """A file of a registered version; raises NotFoundError."""
        uri = self._places.get((name, version))
        if uri is None:
            uri = self.call(lambda: self.client.get_model_version_download_uri(name, str(version)))
            self._places[name, version] = uri
        return self._read(f"{uri}/{path}", f"{name} version {version}: {path}")

    def read_run_file(self, run_id: str, path: str) -> bytes:
        """An artifact of a run; raises NotFoundError."""
        return self._read(f"runs:/{run_id}/{path}", f"run {run_id}: {path}")

    def _read(self, uri: str, what: str) -> bytes:
        from mlflow.artifacts import download_artifacts

        with scratch_folder("download") as folder:
            path = self.found(
                lambda: download_artifacts(
                    artifact_uri=uri, dst_path=str(folder), tracking_uri=self.tracking_uri
                )
            )
            if path is None or not Path(path).is_file():
                raise NotFoundError(
                    f"MLflow has no file for {what}.", remedy="Check that its artifact store is complete."
                )
            return Path(path).read_bytes()


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


def _code_tags(code: CodeVersion) -> dict[str, str]:
    tags = {"code_version": code.text, "mlflow.source.name": "lucid-mlops"}
    return tags | ({"mlflow.source.git.commit": code.commit} if code.commit else {})


@cache
def code_version() -> CodeVersion:
    """The version of the code that is running; never raises."""
    try:
        distribution = metadata.version("lucid-mlops")
    except metadata.PackageNotFoundError:
        distribution = "unknown"
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        # An installed copy may lie inside another repository, with a commit that would be wrong.
        return CodeVersion(distribution, None, False)
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return CodeVersion(distribution, commit, bool(status))


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
