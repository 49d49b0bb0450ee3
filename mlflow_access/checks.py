"""What a request would change, read by MLflow's own parser, held against what the account may.

A check returns why it refuses, or None. It sees the very values that MLflow's handler will see: the same
functions parse them, from the same request. (A parser of our own would know `run_id` and not `runId`, or take
the first of two keys where MLflow takes the last.)
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mlflow.entities import LifecycleStage, RunStatus
from mlflow.exceptions import MlflowException
from mlflow.protos import model_registry_pb2 as registry
from mlflow.protos import service_pb2 as tracking
from mlflow.server import handlers

from mlflow_access.accounts import MlflowAccount
from mlflow_access.roles import (
    CLOSED_WHEN_ENDED,
    RELEASE_MODELS,
    RELEASES,
    ROLES,
    SAID_OF_RELEASES,
    Rights,
    is_among,
    is_release_model,
)

Check = Callable[[MlflowAccount, Mapping[str, str]], str | None]
"""(account, the values in the request's path) -> why it is refused."""

# EXPERIMENT/RUN/artifacts/FILE and EXPERIMENT/models/MODEL/artifacts/FILE, as MLflow lays files out.
_FILE_OF_RUN = re.compile(r"(?P<experiment>\d{1,20})/(?P<run>[0-9a-f]{32})/artifacts/(?P<file>.+)")
_FILE_OF_MODEL = re.compile(
    r"(?P<experiment>\d{1,20})/models/(?P<model>m-[0-9a-f]{32})/artifacts/(?P<file>.+)"
)
_FOLDER_OF_RUN = re.compile(r"(?P<experiment>\d{1,20})/(?P<run>[0-9a-f]{32})/artifacts")
_FOLDER_OF_MODEL = re.compile(r"(?P<experiment>\d{1,20})/models/(?P<model>m-[0-9a-f]{32})/artifacts")
_ODD_IN_FILE = re.compile(r"[%\\#:\x00-\x1f\x7f]|(^|/)\.{0,2}(/|$)")


def create_experiment(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """Of the names that the role writes, and where the server keeps files."""
    asked = handlers._get_request_message(tracking.CreateExperiment())
    if asked.artifact_location:
        return "an experiment's files lie where the server puts them"
    return _unless(
        account, lambda rights: asked.name in rights.experiments, f"make the experiment {asked.name!r}"
    )


def create_run(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """In the role's experiments."""
    asked = handlers._get_request_message(tracking.CreateRun())
    return _unless_writes(account, _experiment(asked.experiment_id))


def write_run(message: Callable[[], Any], *, annotates: bool = False) -> Check:
    """A check of requests that change a run which their message names.

    `annotates`: they add parameters, metrics or tags.
    """

    def check(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
        asked = handlers._get_request_message(message())
        named = {asked.run_id, getattr(asked, "run_uuid", "")} - {""}
        refusals = (_unless_run_is_open(account, run_id, annotates) for run_id in sorted(named))
        return next(filter(None, refusals), None) if named else "it names no run"

    return check


def write_file(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """A file of a run that is being written, or of a model that was logged with one."""
    place = path["artifact_path"]
    found = _FILE_OF_RUN.fullmatch(place) or _FILE_OF_MODEL.fullmatch(place)
    if found is None or _ODD_IN_FILE.search(found["file"]):
        return f"{place[:200]!r} is no file of a run"
    experiment = _experiment(found["experiment"])
    if "model" in found.groupdict():
        model = handlers._get_tracking_store().get_logged_model(found["model"])
        if str(model.experiment_id) != found["experiment"]:
            return f"model {found['model']} is of another experiment"
        return _unless_writes(account, experiment)
    run = handlers._get_tracking_store().get_run(found["run"])
    if str(run.info.experiment_id) != found["experiment"]:
        return f"run {found['run']} is of another experiment"
    return _unless_run_is_open(account, found["run"], annotates=False)


def remove_files(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """Of a run or a model that was deleted before."""
    place, store = path["artifact_path"], handlers._get_tracking_store()
    if refusal := _unless(account, lambda rights: rights.collects, "remove files"):
        return refusal
    if found := _FOLDER_OF_RUN.fullmatch(place):
        try:
            info = store.get_run(found["run"]).info
        except MlflowException as error:  # it may be gone for good, and have left its files behind
            return None if error.error_code == "RESOURCE_DOES_NOT_EXIST" else error.message
        own = str(info.experiment_id) == found["experiment"]
        gone = info.lifecycle_stage == LifecycleStage.DELETED
        return None if own and gone else f"run {found['run']} is not deleted"
    if found := _FOLDER_OF_MODEL.fullmatch(place):
        try:
            store.get_logged_model(found["model"])
        except MlflowException as error:
            return None if error.error_code == "RESOURCE_DOES_NOT_EXIST" else error.message
        return f"model {found['model']} is not deleted"
    return f"{place[:200]!r} is no folder of a run"


def expire(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """A run, or a model that was logged with one: it can be restored."""
    return _unless(account, lambda rights: rights.expires, "delete")


def delete_version(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """A version that no alias names."""
    asked = handlers._get_request_message(registry.DeleteModelVersion())
    if refusal := _unless(account, lambda rights: rights.expires, "delete"):
        return refusal
    model = handlers._get_model_registry_store().get_registered_model(asked.name)
    named = [alias for alias, version in model.aliases.items() if str(version) == asked.version]
    return f"version {asked.version} of {asked.name} is {' and '.join(named)}" if named else None


def create_logged_model(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """In the role's experiments."""
    asked = handlers._get_request_message(tracking.CreateLoggedModel())
    return _unless_writes(account, _experiment(asked.experiment_id))


def write_logged_model(message: Callable[[], Any]) -> Check:
    """A check of requests that change a logged model, which the path names, or the message."""

    def check(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
        asked = handlers._get_request_message(message())
        for model_id in {path["model_id"], asked.model_id} - {""}:
            model = handlers._get_tracking_store().get_logged_model(model_id)
            if refusal := _unless_writes(account, _experiment(model.experiment_id)):
                return refusal
        return None

    return check


def create_model(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """A registered model of ours, without tags: one of them would make it a prompt, another a move."""
    asked = handlers._get_request_message(registry.CreateRegisteredModel())
    if asked.tags or asked.deployment_job_id:
        return "a registered model is made without tags"
    return _unless_registers(account, asked.name)


def create_version(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """A version of what a run of the role made, with the tags that such a version is born with."""
    asked = handlers._get_request_message(registry.CreateModelVersion())
    if refusal := _unless_registers(account, asked.name):
        return refusal
    release = is_release_model(asked.name)
    for tag in asked.tags:
        allowed = partial(_is_born_with, key=tag.key) if release else _is_any_tag(tag.key)
        if refusal := _unless(account, allowed, f"make a version of {asked.name} with the tag {tag.key!r}"):
            return refusal
    if not asked.run_id:
        return "a version is registered with the run that made it"
    experiment = _experiment(handlers._get_tracking_store().get_run(asked.run_id).info.experiment_id)
    if release and experiment != RELEASES:
        return f"a release is registered from a run of {RELEASES}, not of {experiment!r}"
    if asked.model_id:
        model = handlers._get_tracking_store().get_logged_model(asked.model_id)
        if refusal := _unless_writes(account, _experiment(model.experiment_id)):
            return refusal
    return _unless_writes(account, experiment)


def describe_version(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """What the page of a version says."""
    name = handlers._get_request_message(registry.UpdateModelVersion()).name
    return _unless(
        account,
        lambda rights: rights.described and (is_release_model(name) or is_among(name, rights.models)),
        f"describe versions of {name!r}",
    )


def change_version_tag(message: Callable[[], Any]) -> Check:
    """A check of requests that set or delete a tag of a release."""

    def check(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
        asked = handlers._get_request_message(message())
        return _unless(
            account,
            lambda rights: is_release_model(asked.name) and is_among(asked.key, rights.version_tags),
            f"change the tag {asked.key!r} of versions of {asked.name!r}",
        )

    return check


def change_model_tag(message: Callable[[], Any]) -> Check:
    """A check of requests that set or delete a tag of a registered model of releases."""

    def check(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
        asked = handlers._get_request_message(message())
        return _unless(
            account,
            lambda rights: is_release_model(asked.name) and is_among(asked.key, rights.model_tags),
            f"change the tag {asked.key!r} of {asked.name!r}",
        )

    return check


def move_alias(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """An alias of releases that is the role's to move."""
    asked = handlers._get_request_message(registry.SetRegisteredModelAlias())
    return _unless(
        account,
        lambda rights: is_release_model(asked.name) and is_among(asked.alias, rights.aliases),
        f"move the alias {asked.alias!r} of {asked.name!r}",
    )


# What a scheduler's account reads ----------------------------------------------------------------------


def releases_of(message: Callable[[], Any]) -> Check:
    """A check of requests that read of one registered model: the account's cluster's."""

    def check(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
        return _unless_own(account, handlers._get_request_message(message()).name)

    return check


def file_of_version(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """A file of a release of the account's cluster."""
    return _unless_own(account, handlers.request.args.get("name") or "")


def file_of_run(account: MlflowAccount, path: Mapping[str, str]) -> str | None:
    """A file of a verdict on, or a publication of, a release of the account's cluster."""
    arguments = handlers.request.args
    run_id = arguments.get("run_id") or arguments.get("run_uuid") or ""
    run = handlers._get_tracking_store().get_run(run_id)
    said = _experiment(run.info.experiment_id) in SAID_OF_RELEASES
    if said and run.data.tags.get("cluster") == account.cluster:
        return None
    return f"run {run_id} says nothing of releases of {account.cluster}"


def own_releases(account: MlflowAccount) -> Any:
    """The answer to a search of registered models: the one that holds the account's cluster's releases."""
    found = handlers._get_model_registry_store().search_registered_models(
        filter_string=f"name = '{RELEASE_MODELS}{account.cluster}'"
    )
    answer = registry.SearchRegisteredModels.Response()
    answer.registered_models.extend([model.to_proto() for model in found])
    return handlers._wrap_response(answer)


# -------------------------------------------------------------------------------------------------------


def _unless(account: MlflowAccount, allowed: Callable[[Rights], bool], what: str) -> str | None:
    if any(allowed(ROLES[role]) for role in account.roles):
        return None
    return f"{_roles(account)} may not {what}"


def _unless_writes(account: MlflowAccount, experiment: str) -> str | None:
    return _unless(
        account, lambda rights: experiment in rights.experiments, f"write in the experiment {experiment!r}"
    )


def _unless_registers(account: MlflowAccount, name: str) -> str | None:
    return _unless(account, lambda rights: is_among(name, rights.models), f"register models as {name!r}")


def _unless_own(account: MlflowAccount, name: str) -> str | None:
    if name == f"{RELEASE_MODELS}{account.cluster}":
        return None
    return f"it reads releases of {account.cluster} alone, not {name[:200]!r}"


def _unless_run_is_open(account: MlflowAccount, run_id: str, annotates: bool) -> str | None:
    info = handlers._get_tracking_store().get_run(run_id).info
    experiment = _experiment(info.experiment_id)
    if annotates and any(experiment in ROLES[role].annotated for role in account.roles):
        return None
    if refusal := _unless_writes(account, experiment):
        return refusal
    if experiment in CLOSED_WHEN_ENDED and RunStatus.is_terminated(RunStatus.from_string(info.status)):
        return f"run {run_id} of {experiment} has ended, and is not written over"
    return None


def _experiment(experiment_id: Any) -> str:
    return str(handlers._get_tracking_store().get_experiment(str(experiment_id)).name)


def _is_born_with(rights: Rights, *, key: str) -> bool:
    return is_among(key, rights.born_with)


def _is_any_tag(key: str) -> Callable[[Rights], bool]:
    # MLflow's own make a version a prompt, or more.
    return lambda rights: bool(rights.models) and not key.startswith("mlflow.")


def _roles(account: MlflowAccount) -> str:
    return f"an account that may {', '.join(account.roles)}"
