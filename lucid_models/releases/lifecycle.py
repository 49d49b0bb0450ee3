"""Releases: models and the settings that were proven together, as one version of the registered model
of their cluster.

build -> (validate, elsewhere) -> record_verdict -> publish -> rollback. Every step may be killed and run
again; see `aliases.py` for how `champion` moves. A release that is identical to an existing one is not
registered twice.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foundation.errors import BadInputError, NotFoundError, ReleaseRefusedError
from foundation.markdown import markdown_text
from lucid_models.mlflow_server import is_unwritten
from lucid_models.model_format import parse_model
from lucid_models.registry import RegisteredVersion, Registry
from lucid_models.releases.aliases import CHALLENGER, CHAMPION, PREVIOUS, move_champion, settle
from lucid_models.releases.approval import APPROVED, MAX_VERDICT_BYTES, REFUSED
from lucid_models.releases.building import (
    SET_BY_DEFAULT,
    SettingsOrigin,
    check_training_end,
    choose_versions,
    json_values,
    latest_training_end,
    plain_settings,
    provenance_of,
    register_release,
)
from lucid_models.releases.clusters import release_clusters
from lucid_models.releases.decisions import record_decision
from lucid_models.releases.files import ReleaseScorers, load_release_scorers
from lucid_models.releases.manifest import (
    DEFAULT_POLICY,
    VERDICT_FILE,
    ModelPin,
    ReleaseManifest,
    Training,
    canonical_json,
    release_name,
)
from lucid_models.releases.obstacles import check_not_expired, publication_obstacles
from lucid_models.releases.only_cluster import no_release
from lucid_models.releases.optional_parts import PartSettings, asked_kinds
from lucid_models.releases.publication_history import keep_in_history
from lucid_models.releases.publications import (
    PublicationRequest,
    check_judgement,
    check_was_published,
    is_published_as_judged,
    renew_publication,
    sign_judgement,
    sign_publication,
)
from lucid_models.releases.registry_page import (
    RUN_NOTE,
    WINDOW,
    judged_window,
    release_metrics,
    tell_on_its_page,
)
from lucid_models.releases.store import (
    ALLOW_SIMULATED,
    ReleaseInfo,
    check_verdict,
    describe_release,
    find_by_alias,
    identity_of,
    read_release,
    require_tag,
)
from lucid_models.releases.studies import log_document
from lucid_models.signing.installation import Signing
from lucid_models.signing.statements import Judgement
from lucid_models.throughput.scorer import ThroughputForecasts

if TYPE_CHECKING:  # what trains is imported where models are loaded: most steps read no model
    from lucid_models.duration.model import WorkloadEstimateModel
    from lucid_models.packing.model import PackingAnalyzeModel

__all__ = [
    "ALLOW_SIMULATED",
    "ReleaseInfo",
    "ReleaseModels",
    "build_release",
    "list_releases",
    "load_release_models",
    "publish_release",
    "record_verdict",
    "rollback_release",
    "show_release",
]

VALIDATION_EXPERIMENT = "lucid-release-validation"
logger = logging.getLogger("lucid.releases")


@dataclass(frozen=True)
class ReleaseModels:
    """The models of one release, as the classes that were trained; `forecasts` are the scorers that its parts
    go by, by kind.
    """

    packing: "PackingAnalyzeModel"
    throughput: ThroughputForecasts
    duration: "WorkloadEstimateModel"
    manifest: ReleaseManifest
    forecasts: Mapping[str, Any] = field(default_factory=dict)


def build_release(
    *,
    tracking_uri: str,
    cluster: str,
    versions: Mapping[str, int] | None = None,
    settings: Mapping[str, Any] | None = None,
    training_until: datetime | None = None,
    policy: str = DEFAULT_POLICY,
    origin: SettingsOrigin = SET_BY_DEFAULT,
    parts: PartSettings | None = None,
) -> ReleaseInfo:
    """Pin one version of each model (default: the newest for the cluster) and make the release the
    challenger.

    `policy` is what the release runs, `settings` are its settings, `origin` says how they were chosen.
    `parts` are the settings of parts by their fields; a forecast that they go by is pinned as well.

    `training_until`: the gate will replay what comes after it, so a model that learned later is refused. The
    model files are copied into the release, checked and loaded before anything is registered.

    Raises BadInputError for an unknown kind, a model of another cluster or one that learned too late;
    NotFoundError when a model was never trained; ReleaseRefusedError when a file does not hold what was
    registered.
    """
    registry = Registry(tracking_uri)
    versions_by_model = choose_versions(registry, cluster, versions or {}, forecasts=asked_kinds(parts or {}))
    if training_until is not None and training_until.tzinfo is None:
        training_until = training_until.replace(tzinfo=UTC)
    pins: dict[str, ModelPin] = {}
    files: dict[str, bytes] = {}
    for kind, model in versions_by_model.items():
        check_training_end(model, training_until)
        file = f"{kind}.json"
        files[file] = registry.read_version_file(model.name, model.version, f"artifacts/{file}")
        pins[kind] = ModelPin(model.name, model.version, file, require_tag(model, "digest"), len(files[file]))
    until = training_until.isoformat() if training_until else latest_training_end(versions_by_model)
    name = release_name(cluster)
    manifest = ReleaseManifest(
        name=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        cluster=cluster,
        models=pins,
        settings=plain_settings(settings or {}),
        training=Training(
            until,
            {kind: require_tag(model, "dataset_digest") for kind, model in versions_by_model.items()}
            | dict(origin.datasets),
        ),
        provenance=provenance_of(versions_by_model),
        policy=policy,
        choice=None if origin.choice is None else plain_settings(origin.choice),
        parts={name: plain_settings(chosen) for name, chosen in (parts or {}).items()},
    )
    load_release_scorers(manifest, files)
    version = register_release(registry, manifest, files)
    registry.set_alias(name, CHALLENGER, version)
    return describe_release(registry, registry.version(name, version), CHALLENGER)


def record_verdict(
    *,
    tracking_uri: str,
    cluster: str,
    version: int,
    verdict: Mapping[str, Any],
    artifacts_dir: Path | None = None,
) -> str:
    """Store the gate's verdict on a release with its tables and plots, and tag the release with it.

    The stored document names the manifest that was judged, so that it counts for that release alone. Returns
    the page of the run that holds it, below MLflow's address.

    Raises BadInputError when the verdict does not say `approved` as true or false or is a study by other
    rules than the release's own, NotFoundError for the version.
    """
    registry = Registry(tracking_uri)
    return store_verdict(registry, registry.version(release_name(cluster), version), verdict, artifacts_dir)


def store_verdict(
    registry: Registry,
    release: RegisteredVersion,
    verdict: Mapping[str, Any],
    artifacts_dir: Path | None = None,
) -> str:
    """As `record_verdict`, on a release of an open registry."""
    signers = Signing.of_environment().signers("judge")  # before anything is written
    approved = verdict.get("approved")
    if (verdict.get("subject") or {}).get("study"):
        raise BadInputError("A study is not a verdict.", remedy="Keep it with record_study.")
    if not isinstance(approved, bool):
        raise BadInputError(
            f"The verdict says approved = {approved!r}.", remedy="Give the document of Verdict.to_dict()."
        )
    judged = identity_of(release)
    document = canonical_json({**json_values(verdict), "release": asdict(judged)})
    if len(document) > MAX_VERDICT_BYTES:
        raise BadInputError(
            f"The verdict holds {len(document)} bytes; schedulers read at most {MAX_VERDICT_BYTES}.",
            remedy="Leave what is not the verdict to artifacts_dir.",
        )
    word = APPROVED if approved else REFUSED
    with registry.run(
        VALIDATION_EXPERIMENT,
        f"{judged.cluster} release {judged.version} {word}",
        {"cluster": judged.cluster, "release_version": str(judged.version), "verdict": word},
    ) as run:
        log_document(run, VERDICT_FILE, document, artifacts_dir)
        if window := judged_window(verdict):
            run.log_params({WINDOW: window})
        run.log_metrics(release_metrics(verdict))
        run.set_tag(RUN_NOTE, markdown_text(verdict.get("sentence", "")))
        page = run.ui_path()
    tell_on_its_page(registry, release, verdict, page)
    digest = hashlib.sha256(document).hexdigest()
    at = datetime.now(UTC).replace(microsecond=0)
    sign_judgement(registry, release, Judgement(judged, digest, approved, at), signers)
    # The word comes last: until then `publish_release` finds no verdict with a digest that fits.
    for key, value in (
        ("verdict_run_id", run.run_id),
        ("verdict_sha256", digest),
        ("verdict_sentence", str(verdict.get("sentence", ""))),
        ("verdict", word),
    ):
        registry.set_version_tag(judged.name, judged.version, key, value)
    return page


def publish_release(
    *,
    tracking_uri: str,
    cluster: str,
    version: int | None = None,
    replaces: int | None = None,
    named: bool = True,
    by: str = "",
    asked_by: str = "",
    because: str = "",
) -> ReleaseInfo:
    """Move a cluster's `champion` to an approved release (default: the challenger); `previous` keeps the one
    that it replaces. Who asked for it, who approved it and why are signed with it (`publications.py`).

    Publishing the champion again moves nothing, and signs it anew where its verdict is another since or it is
    not signed as live.
    `replaces`: the version that was live when this was asked for (0: none was): the request expires when
    another one went live since. `named`: a person named this very version; otherwise one that was rolled back
    stays so. `by`: who published it, and `because`, why; `asked_by`: who asked for it, where `by` approved.

    Raises BadInputError without a publisher's key where releases are signed, NotFoundError when there is no
    such release, the first of its `publication_obstacles`, and ReleaseRefusedError when the request has
    expired.
    """
    registry, name = Registry(tracking_uri), release_name(cluster)
    if version is None:
        release = find_by_alias(registry, cluster, CHALLENGER)
    else:
        release = registry.version(name, version)
    signing = Signing.of_environment()
    for obstacle in publication_obstacles(
        registry, release, named=named and version is not None, signing=signing
    ):
        raise obstacle
    settle(registry, name)
    keep_in_history(registry, cluster, signing)
    before = registry.aliases(name).get(CHAMPION)
    request = PublicationRequest(asked_by or by, by if asked_by else "", because)
    if before != release.version:
        if replaces is not None:
            check_not_expired(cluster, release.version, replaces=replaces, live=before)
        # Both before it moves: then it is never live without.
        sign_publication(registry, release, "publish", request, replaces=before, signing=signing)
        record_decision(
            registry, name, release.version, kind="publish", by=by, because=because, before=before
        )
        move_champion(registry, name, kind="publish", champion=release.version, previous=before)
        keep_in_history(registry, cluster, signing)
    elif not is_published_as_judged(registry, release, signing):
        renew_publication(registry, release, signing, request)
    registry.delete_version_tag(name, release.version, "rolled_back")
    return _moved(registry, cluster, before, release.version)


def rollback_release(
    *,
    tracking_uri: str,
    cluster: str,
    from_version: int | None = None,
    by: str = "",
    because: str = "",
) -> ReleaseInfo:
    """Move a cluster's `champion` back to `previous`, and `previous` to the release that was rolled back.

    `from_version`: the release to leave; when it is no longer the champion nothing changes, so that a retry
    after a success that went unreported does not roll forward again. A rollback that was interrupted is
    finished. `by` and `because` are kept with the release that is live again.

    Raises NotFoundError when there is no champion or nothing to go back to, ReleaseRefusedError when what
    lies there is damaged, not approved, or was never signed as live.
    """
    registry, name, signing = Registry(tracking_uri), release_name(cluster), Signing.of_environment()
    finished = settle(registry, name)
    keep_in_history(registry, cluster, signing)
    aliases = registry.aliases(name)
    champion, previous = aliases.get(CHAMPION), aliases.get(PREVIOUS)
    done = (finished is not None and finished.kind == "rollback") or (
        from_version is not None and champion != from_version
    )
    if champion is None:
        raise NotFoundError(
            f"Cluster {cluster} has no champion to roll back.",
            remedy=f"Publish a release: lucid release publish --cluster {cluster}.",
        )
    before = champion
    if not done:
        if previous is None or previous == champion:
            raise NotFoundError(
                f"Release {champion} of {cluster} has no previous release to go back to.",
                remedy="Publish another release; a scheduler without one falls back to its heuristic.",
            )
        # It must still be whole and approved: schedulers would refuse it, and keep what is rolled back.
        target = registry.version(name, previous)
        load_release_scorers(*read_release(registry, target))
        check_verdict(registry, target)
        check_judgement(target, signing)
        check_was_published(target, signing)
        request = PublicationRequest(by, because=because)
        sign_publication(registry, target, "rollback", request, replaces=champion, signing=signing)
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        registry.set_version_tag(name, champion, "rolled_back", moment)
        record_decision(registry, name, previous, kind="rollback", by=by, because=because, before=champion)
        move_champion(registry, name, kind="rollback", champion=previous, previous=champion)
        champion = previous
        keep_in_history(registry, cluster, signing)
    registry.delete_version_tag(name, champion, "rolled_back")
    return _moved(registry, cluster, before, champion)


def _moved(registry: Registry, cluster: str, before: int | None, champion: int) -> ReleaseInfo:
    """The champion, and what was done in words, which are logged as well."""
    if before == champion:
        sentence = f"champion of {cluster}: {champion}, as before"
    else:
        sentence = f"champion of {cluster}: {'none' if before is None else before} -> {champion}"
    logger.info("%s", sentence)
    release = registry.version(release_name(cluster), champion)
    return replace(describe_release(registry, release, CHAMPION), moved=sentence)


def show_release(
    *, tracking_uri: str, cluster: str, alias: str = CHAMPION, version: int | None = None
) -> ReleaseInfo:
    """What the release behind a cluster's alias (or a version) pins, with its whole verdict; raises
    NotFoundError.
    """
    if is_unwritten(tracking_uri):
        raise no_release(tracking_uri)
    registry = Registry(tracking_uri)
    if version is not None:
        release = registry.version(release_name(cluster), version)
        return describe_release(registry, release, None, whole_verdict=True)
    release = find_by_alias(registry, cluster, alias)
    return describe_release(registry, release, alias, whole_verdict=True)


def list_releases(*, tracking_uri: str, cluster: str | None = None) -> list[ReleaseInfo]:
    """All releases of a cluster, or of all, the newest first; what is none is left out and logged."""
    if is_unwritten(tracking_uri):
        return []
    registry = Registry(tracking_uri)
    clusters = release_clusters(registry) if cluster is None else [cluster]
    releases = [release for each in clusters for release in registry.versions(release_name(each))]
    newest_first = sorted(releases, key=lambda release: -release.created_ms)
    listed = []
    for release in newest_first:
        try:
            listed.append(describe_release(registry, release, None))
        except (ReleaseRefusedError, NotFoundError) as error:
            logger.warning("%s version %d is left out: %s", release.name, release.version, error)
    return listed


def load_release_models(*, tracking_uri: str, cluster: str, version: int) -> ReleaseModels:
    """The models of a release after every check that a scheduler makes; raises ReleaseRefusedError."""
    from lucid_models.duration.model import WorkloadEstimateModel
    from lucid_models.packing.model import PackingAnalyzeModel

    registry = Registry(tracking_uri)
    manifest, files = read_release(registry, registry.version(release_name(cluster), version))
    scorers: ReleaseScorers = load_release_scorers(manifest, files)
    if not isinstance(scorers.throughput, ThroughputForecasts):
        raise ReleaseRefusedError(f"Release {version} forecasts one throughput series, not both.")
    pins = manifest.models
    documents = {kind: parse_model(files[pins[kind].file], kind=kind) for kind in ("packing", "duration")}
    return ReleaseModels(
        PackingAnalyzeModel.from_data(documents["packing"]),
        scorers.throughput,
        WorkloadEstimateModel.from_data(documents["duration"]),
        manifest,
        scorers.forecasts,
    )
