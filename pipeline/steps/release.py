"""Steps that build a release, prove it, publish it and take it back."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from foundation.errors import LucidError, ReleaseRefusedError
from foundation.site import Site
from foundation.steps import THE_PIPELINE, Done, NothingToDo, RunOutcome, StepRun
from lucid_models.releases import lifecycle
from lucid_models.releases.building import SettingsOrigin
from lucid_models.releases.clusters import which_cluster
from lucid_models.releases.decisions import record_starters
from lucid_models.releases.lifecycle import ReleaseInfo
from lucid_models.releases.page_address import release_page_path
from lucid_models.releases.publications import renew_champion
from lucid_models.signing.installation import Signing
from pipeline.release.current_release import clusters_with_champion, kept_policy
from pipeline.release.order_only import decide_sharing
from pipeline.release.part_settings import AskedOfParts, decided_parts
from pipeline.release.release_gate import read_verdict, summarise_verdict
from pipeline.release.release_settings import allowing_simulated, gate_settings
from pipeline.training.windows import read_as_of
from pipeline.validation import release_validation
from pipeline.validation.held_out_days import HeldOutDays, record_held_out

_log = logging.getLogger(__name__)


def built(
    run: StepRun, tracking_uri: str, release: tuple[str, int], sentence: str, value: Any, **inputs: Any
) -> Done:
    """Return a step's result that is a new challenger: the gate is told of it, with the `inputs` that its
    validation begins with, and the release keeps who started what led to it.
    """
    cluster, version = release
    record_starters(tracking_uri, cluster, version, run.started_by(cluster))
    told = {"cluster": cluster, **inputs, "version": version}
    return Done(value, sentence, release=release, announced=told)


def build_release(
    *,
    run: StepRun,
    site: Site,
    hold_out_days: int,
    training_until: str,
    versions: Mapping[str, int | None],
    as_of: str | None = None,
    kept: Mapping[str, int] | None = None,
    reasons: Mapping[str, str] | None = None,
    asked_of_parts: Mapping[str, Any] | None = None,
    allow_simulated_profiles: bool = False,
) -> Done:
    """Pin model versions and the settings in a new release, the challenger; returns its name and version.

    A policy that a person picked for the champion is kept, and so are the settings of its parts and its
    permission to learn from simulated profiles; `allow_simulated_profiles` gives it. Without it a release of
    a real log that learned from such profiles lets no job share GPUs.

    `versions`: those that this run trained (None: a model that it did not train); `kept`: the others';
    `reasons`: why an optional model is in neither, by its name. `asked_of_parts`: what the form says of parts
    of the release, by its fields.
    """
    champion = kept_policy(site)
    if champion.choice is not None:
        _log.info("The release runs %s, as the champion does: a person picked it.", champion.policy)
    decided = decided_parts(AskedOfParts(champion.parts, asked_of_parts or {}, reasons or {}, site))
    trained = {model: version for model, version in versions.items() if version is not None}
    pinned = {model: int(version) for model, version in {**(kept or {}), **trained}.items()}
    sharing = decide_sharing(
        site,
        allowing_simulated(champion.settings, allow=bool(allow_simulated_profiles)),
        champion.policy,
        versions=pinned,
    )
    release = lifecycle.build_release(
        tracking_uri=site.registry,
        cluster=site.cluster,
        versions=pinned,
        policy=champion.policy,
        settings=sharing.settings,
        origin=SettingsOrigin(champion.choice),
        parts=decided.parts,
        training_until=datetime.fromisoformat(training_until),
    )
    record_held_out(site, release, int(hold_out_days))
    return built(
        run,
        site.registry,
        (release.cluster, release.version),
        f"Release {release.version} of {release.cluster} was built: {release.policy} with models that "
        f"learned until {training_until[:10]}. {sharing.sentence and f'{sharing.sentence} '}"
        f"{decided.sentence and f'{decided.sentence} '}The gate judges it next.",
        {"name": release.name, "version": release.version},
        lake_uri=site.lake,
        hold_out_days=hold_out_days,
        as_of=as_of,
    )


def validate_release(
    *,
    run: StepRun,
    site: Site,
    hold_out_days: int,
    as_of: str | None = None,
    version: int | None = None,
    rules: Mapping[str, Any] | None = None,
) -> Done:
    """Replay the held-out window and let the gate judge; returns whether it approved, and its sentence.

    A refusal is a result, not a failure. `rules`: the gate's, by name, for a what-if: the result is a study,
    which leaves the verdict as it is.
    """
    validation = release_validation.validate_release(
        site,
        version=int(version) if version else None,
        held_out=HeldOutDays(int(hold_out_days), read_as_of(as_of)),
        settings=gate_settings(rules or {}),
    )
    verdict, judged = validation.verdict, (site.cluster, int(validation.version))
    for constraint in verdict.constraints:
        _log.info("%s: %s", constraint.name, constraint.sentence)
    about = f"Release {validation.version} of {site.cluster}"
    # A dozen rows: what a person wants to see on the task's page. The whole verdict is in MLflow.
    value = {
        "cluster": site.cluster,
        "version": validation.version,
        "approved": verdict.approved,
        "sentence": verdict.sentence,
        "study": verdict.study,
        **summarise_verdict(verdict.to_dict()),
    }
    if verdict.study:
        run.link_to(release=judged)
        return Done(value, f"{about}: {verdict.sentence}", mlflow_path=validation.mlflow_path)
    record_starters(site.registry, site.cluster, judged[1], run.started_by(site.cluster))
    word = "approved" if verdict.approved else "refused"
    return Done(
        value,
        f"{about} is {word}: {verdict.sentence.removeprefix(f'{word.capitalize()}: ')}",
        outcome=RunOutcome.DONE if verdict.approved else RunOutcome.REFUSED,
        release=judged,
    )


def announce_verdict(*, judged: Mapping[str, Any]) -> Done:
    """Tell `publish_release` that a release was judged; of a study it learns nothing.

    `judged`: what `validate_release` returned.
    """
    if judged["study"]:
        raise NothingToDo(
            f"By other rules than the release's own ({judged['study']}): nothing is published on it."
        )
    told = {name: judged[name] for name in ("cluster", "version", "approved", "sentence")}
    sentence = f"The verdict of {told['cluster']} is announced: publish_release starts."
    return Done(told, sentence, announced=told, on_the_way=True)


def check_verdict(
    *, run: StepRun, site: Site, airflow_url: str, version: int | None = None, replaces: int | None = None
) -> Done:
    """Go on only with an approved release that nothing else stands against; else say why, and end as skipped
    or failed (LUCID_REFUSED_RUNS).

    Without a cluster or a `version`: those that were announced (of several the first; the rest is handed on),
    else the only cluster that has a release, and its challenger. The registry's word counts, not the
    announcement's, which only says which. One that was rolled back goes live again only when the form names
    it. `replaces`: what the person who filled the form saw live; the request has expired if that no longer
    is.

    Returns cluster, version, what is live now, whether the form named the version, approved, the reason, who
    started what led to it.
    """
    extras = run.take_first(run.announced(), "cluster", "version")
    announced = extras[-1] if extras else {}
    site = site.of(which_cluster(site.registry, site.cluster or announced.get("cluster")))
    run.check_right(site.cluster)
    asked = version or (announced.get("version") if announced.get("cluster") == site.cluster else None)
    result = read_verdict(
        site,
        version=int(asked) if asked else None,
        named=bool(version),
        replaces=None if replaces is None else int(replaces),
    )
    result["named"] = bool(version)
    result["started_by"] = sorted({*result["started_by"], *run.started_by(site.cluster)})
    about = (site.cluster, int(result["version"]))
    result["summary"] += f"\n\n[All about this release]({airflow_url}/{release_page_path(*about)})"
    run.link_to(release=about)
    if not result["approved"]:
        return Done(result, result["reason"], outcome=RunOutcome.REFUSED, release=about, skipped=True)
    return Done(result, f"Release {about[1]} of {site.cluster} may go live.", on_the_way=True)


def publish_release(
    *,
    run: StepRun,
    site: Site,
    version: int,
    replaces: int | None,
    approval: Any,
    named: bool = True,
    started_by: Sequence[str] = (),
    reason: str | None = None,
) -> Done:
    """Move a cluster's `champion` to an approved release. Publishing the champion again changes nothing.

    `replaces`: the version that was live when the verdict was checked (0: none); when another one went live
    while a person was asked, the request has expired and nothing moves. Unless the form `named` it, a release
    that was rolled back meanwhile stays so. `approval`: what the task that asks a person returned; without
    one of a person who may give it nothing moves where it is required, even if that task was marked as done.
    `reason`: why the run was started, kept where the `approval` gives none.

    Returns the champion's cluster, name and version, and which one it replaced in words.
    """
    decision = run.decision(approval, str(site.cluster), list(started_by or ()))
    release = lifecycle.publish_release(
        tracking_uri=site.registry,
        cluster=site.cluster,
        version=int(version),
        replaces=None if replaces is None else int(replaces),
        named=bool(named),
        by=decision.by,
        asked_by=decision.asked_by,
        because=decision.because or str(reason or ""),
    )
    return _moved(release, f"{release.moved}, by {decision.by}")


def read_champion(*, run: StepRun, site: Site, version: int | None = None) -> Done:
    """Say which release is live before it is left: a rollback that is tried again then does nothing.

    Without a cluster: the only one that has a release. `version`: the release that a person wants to leave;
    empty: the one that is live. Returns the champion's cluster and name, and the version to leave.
    """
    site = site.of(which_cluster(site.registry, site.cluster))
    run.check_right(site.cluster)
    champion = lifecycle.show_release(tracking_uri=site.registry, cluster=site.cluster)
    run.link_to(release=(champion.cluster, champion.version))
    leave = int(version or champion.version)
    value = {"cluster": champion.cluster, "name": champion.name, "version": leave}
    return Done(value, f"Release {leave} of {champion.cluster} is left.", on_the_way=True)


def rollback_release(*, run: StepRun, site: Site, from_version: int, reason: str) -> Done:
    """Move a cluster's `champion` from `from_version` back to `previous`, with the reason in the log.

    Returns the champion's cluster, name and version, and what was done in words.
    """
    release = lifecycle.rollback_release(
        tracking_uri=site.registry,
        cluster=site.cluster,
        from_version=int(from_version),
        by=run.person or THE_PIPELINE,
        because=str(reason),
    )
    _log.warning("Rolled back: %s", reason)
    return _moved(release, f"{release.moved}: {reason}", reason=str(reason))


def renew_publications(*, tracking_uri: str) -> Done:
    """Sign anew, with a later expiry, what is live for each cluster: schedulers then know that nothing newer
    is kept from them. One cluster's failure is no other's; the step fails at the end.

    Returns cluster -> when its publication expires.
    """
    if Signing.of_environment().trust_file is None:
        raise NothingToDo("Nothing is signed here (LUCID_TRUST=unsigned): nothing to renew.")
    clusters = clusters_with_champion(tracking_uri)
    if not clusters:
        raise NothingToDo("There is no champion yet: nothing to renew.")
    renewed, failed = {}, []
    for cluster in clusters:
        try:
            publication = renew_champion(tracking_uri=tracking_uri, cluster=cluster)
            renewed[cluster] = publication.expires.isoformat()
        except LucidError as error:
            failed.append(f"{cluster}: {error}")
    until = ", ".join(f"{cluster} until {expires}" for cluster, expires in renewed.items())
    if failed:
        raise ReleaseRefusedError(f"Renewed: {until or 'none'}. Not renewed: {'; '.join(failed)}")
    return Done(renewed, f"Renewed: {until}.")


def _moved(release: ReleaseInfo, sentence: str, **more: str) -> Done:
    facts = {
        "cluster": release.cluster,
        "name": release.name,
        "version": release.version,
        "moved": release.moved,
        **more,
    }
    return Done(facts, sentence, release=(release.cluster, release.version), announced=facts)
