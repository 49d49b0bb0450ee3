"""Build a release, prove it, publish it, take it back."""

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from lucid_airflow import settings
from lucid_airflow.handover import announce, announcements, started_by, take_first
from lucid_airflow.links import MlflowLink, ReleaseLink
from lucid_airflow.operators.approval import answered_by, check_answer, decided_by, started_run
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.operators.declared_fields import Verbatim
from lucid_airflow.run_results import RunOutcome, tell

if TYPE_CHECKING:
    from lucid_models.releases.lifecycle import ReleaseInfo


class BuildReleaseOperator(LucidOperator):
    """Pin three model versions and the settings in a new release: the challenger.

    A policy that a person picked for the champion is kept, and so are its settings of sleeping nodes and its
    permission to learn from simulated profiles; `allow_simulated_profiles` gives it. Without it a release of
    a real log that learned from such profiles lets no job share GPUs.

    `versions`: those that this run trained (None: a model that it did not train); `kept`: the others';
    `reasons`: why an optional model is in neither, by its name. `wait_answers` ("yes", "no", None: as the
    champion) and `least_jobs`: whether the release carries a wait model, and its setting.
    """

    operator_extra_links = (ReleaseLink(), MlflowLink())

    cluster: Any
    lake_uri: Any
    hold_out_days: Any
    as_of: Any = None
    training_until: Any
    versions: Any
    kept: Any = None
    reasons: Any = None
    wait_answers: Any = None
    least_jobs: Any = None
    allow_simulated_profiles: Any = False

    def run(self, context: Any) -> dict[str, Any]:
        """Build; returns the release's name and version."""
        from datetime import datetime

        from lucid_models.releases.building import SettingsOrigin
        from lucid_models.releases.lifecycle import build_release
        from pipeline.release.current_release import kept_policy
        from pipeline.release.order_only import decide_sharing
        from pipeline.release.release_settings import allowing_simulated
        from pipeline.validation.held_out_days import record_held_out
        from pipeline.waits.wait_answers import WaitAnswersAsked, decide_wait_answers

        kept_of = kept_policy(settings.tracking_uri(), self.cluster)
        if kept_of.choice is not None:
            self.log.info("The release runs %s, as the champion does: a person picked it.", kept_of.policy)
        trained = {model: int(version) for model, version in self.versions.items() if version is not None}
        kept_versions = {model: int(version) for model, version in (self.kept or {}).items()}
        decided = decide_wait_answers(
            kept_of.parts,
            WaitAnswersAsked(self.wait_answers, None if self.least_jobs is None else int(self.least_jobs)),
            tracking_uri=settings.tracking_uri(),
            cluster=self.cluster,
            missing=(self.reasons or {}).get("waits"),
        )
        versions = {**kept_versions, **trained}
        sharing = decide_sharing(
            allowing_simulated(kept_of.settings, allow=bool(self.allow_simulated_profiles)),
            kept_of.policy,
            tracking_uri=settings.tracking_uri(),
            cluster=self.cluster,
            versions=versions,
        )
        release = build_release(
            tracking_uri=settings.tracking_uri(),
            cluster=self.cluster,
            versions=versions,
            policy=kept_of.policy,
            settings=sharing.settings,
            origin=SettingsOrigin(kept_of.choice),
            parts=decided.parts,
            training_until=datetime.fromisoformat(self.training_until),
        )
        record_held_out(
            settings.tracking_uri(), release, int(self.hold_out_days), lake_uri=str(self.lake_uri)
        )
        inputs = {"lake_uri": self.lake_uri, "hold_out_days": self.hold_out_days, "as_of": self.as_of}
        self.announce_built(context, release.cluster, release.version, **inputs)
        tell(
            context,
            f"Release {release.version} of {release.cluster} was built: {release.policy} with models that "
            f"learned until {self.training_until[:10]}. {sharing.sentence and f'{sharing.sentence} '}"
            f"{decided.sentence} The gate judges it next.",
            release=(release.cluster, release.version),
        )
        return {"name": release.name, "version": release.version}


class ValidateReleaseOperator(LucidOperator):
    """Replay the held-out window and let the gate judge. A refusal is a result, not a failure.

    `rules`: the gate's, by name, for a what-if: the result is a study, which leaves the verdict as it is.
    """

    operator_extra_links = (ReleaseLink(), MlflowLink())

    cluster: Any
    lake_uri: Any
    hold_out_days: Any
    as_of: Any = None
    version: Any = None
    rules: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Validate; returns whether the gate approved, and its sentence."""
        from lucid_models.releases.decisions import record_starters
        from pipeline.release.release_gate import summarise_verdict
        from pipeline.release.release_settings import gate_settings
        from pipeline.training.windows import read_as_of
        from pipeline.validation.held_out_days import HeldOutDays
        from pipeline.validation.release_validation import validate_release

        validation = validate_release(
            lake_uri=self.lake_uri,
            cluster=self.cluster,
            tracking_uri=settings.tracking_uri(),
            version=int(self.version) if self.version else None,
            held_out=HeldOutDays(int(self.hold_out_days), read_as_of(self.as_of)),
            settings=gate_settings(self.rules or {}),
            progress=self.log_progress(),
        )
        version, verdict = validation.version, validation.verdict
        for constraint in verdict.constraints:
            self.log.info("%s: %s", constraint.name, constraint.sentence)
        word = "approved" if verdict.approved else "refused"
        about = f"Release {version} of {self.cluster}"
        refused = not verdict.study and not verdict.approved
        tell(
            context,
            f"{about}: {verdict.sentence}"
            if verdict.study
            else f"{about} is {word}: {verdict.sentence.removeprefix(f'{word.capitalize()}: ')}",
            outcome=RunOutcome.REFUSED if refused else RunOutcome.DONE,
            release=None if verdict.study else (str(self.cluster), int(version)),
        )
        self.about_release(self.cluster, int(version))
        if verdict.study:
            self.mlflow_path = validation.mlflow_path
        else:
            people = started_by(context, self.cluster)
            record_starters(settings.tracking_uri(), self.cluster, int(version), people)
        # A dozen rows: what a person wants to see on the task's page. The whole verdict is in MLflow.
        return {
            "cluster": self.cluster,
            "version": version,
            "approved": verdict.approved,
            "sentence": verdict.sentence,
            "study": verdict.study,
            **summarise_verdict(verdict.to_dict()),
        }


class AnnounceVerdictOperator(LucidOperator, is_step=True):
    """Tell `publish_release` that a release was judged; of a study it learns nothing.

    `judged`: what `ValidateReleaseOperator` returned.
    """

    judged: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Give the verdict's event the release and what was decided."""
        if self.judged["study"]:
            raise AirflowSkipException(
                f"By other rules than the release's own ({self.judged['study']}): nothing is published on it."
            )
        result = {name: self.judged[name] for name in ("cluster", "version", "approved", "sentence")}
        announce(context, result)
        tell(context, f"The verdict of {result['cluster']} is announced: publish_release starts.", step=True)
        return result


class CheckVerdictOperator(LucidOperator, multiple_outputs=True, is_step=True):
    """Go on only with an approved release that nothing else stands against; else say why, and end as skipped
    or failed (LUCID_REFUSED_RUNS).

    `cluster` and `version`: empty: those of the event that started this run (of several the first; the rest
    is handed on), else the only cluster that has a release, and its challenger. The registry's word counts,
    not the event's: the event only says which. One that was rolled back goes live again only when the form
    names it. `replaces`: what the person who filled the form saw live; the request has expired if that no
    longer is.
    """

    operator_extra_links = (ReleaseLink(), MlflowLink())

    asset: Verbatim[Any]
    cluster: Any = None
    version: Any = None
    replaces: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Look the verdict up; returns cluster, version, what is live now, whether the form named the
        version, approved, the reason, who started what led to it.
        """
        from foundation.errors import ReleaseRefusedError
        from lucid_models.releases.clusters import which_cluster
        from pipeline.release.release_gate import read_verdict

        tracking_uri = settings.tracking_uri()
        extras = take_first(context, announcements(context, self.asset), "cluster", "version")
        announced = extras[-1] if extras else {}
        cluster = which_cluster(tracking_uri, self.cluster or announced.get("cluster"))
        self.check_right(context, cluster)
        version = self.version or (announced.get("version") if announced.get("cluster") == cluster else None)
        result = read_verdict(
            tracking_uri=tracking_uri,
            cluster=cluster,
            version=int(version) if version else None,
            named=bool(self.version),
            replaces=None if self.replaces is None else int(self.replaces),
        )
        result["named"] = bool(self.version)
        result["started_by"] = sorted({*result["started_by"], *started_by(context, cluster)})
        self.about_release(cluster, int(result["version"]))
        result["summary"] += f"\n\n[All about this release]({settings.airflow_url()}/{self.release_path})"
        if not result["approved"]:
            self.push_all(context, result)  # what ends without success returns nothing
            if settings.refused_runs_fail():
                raise ReleaseRefusedError(result["reason"])
            about = (cluster, int(result["version"]))
            tell(context, result["reason"], outcome=RunOutcome.REFUSED, release=about)
            raise AirflowSkipException
        tell(context, f"Release {result['version']} of {cluster} may go live.", step=True)
        return result


class PublishReleaseOperator(LucidOperator, is_step=True):
    """Move a cluster's `champion` to an approved release. Publishing the champion again changes nothing.

    `replaces`: the version that was live when the verdict was checked (0: none); when another one went live
    while a person was asked, the request has expired and nothing moves. Unless the form `named` it, a release
    that was rolled back meanwhile stays so. `approval`: what `RequestApprovalOperator` returned; without one
    of a person who may give it nothing moves where it is required, even if the task that asks was marked as
    done. `reason`: why the run was started, kept where the `approval` gives none.
    """

    operator_extra_links = (ReleaseLink(), MlflowLink())

    cluster: Any
    version: Any
    replaces: Any
    named: Any = True
    approval: Any
    started_by: Any = ()
    reason: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Publish; returns the champion's cluster, name and version, and which one it replaced in words."""
        from lucid_models.releases.lifecycle import publish_release

        check_answer(self.approval, str(self.cluster), self.started_by)
        by, because = decided_by(context, self.approval)
        release = publish_release(
            tracking_uri=settings.tracking_uri(),
            cluster=self.cluster,
            version=int(self.version),
            replaces=None if self.replaces is None else int(self.replaces),
            named=bool(self.named),
            by=by,
            asked_by=started_run(context) if answered_by(self.approval) else "",
            because=because or str(self.reason or ""),
        )
        self.about_release(release.cluster, release.version)
        tell(context, f"{release.moved}, by {by}", release=(release.cluster, release.version))
        result = _facts(release)
        announce(context, result)
        return result


class ReadChampionOperator(LucidOperator, multiple_outputs=True, is_step=True):
    """Say which release is live before it is left: a rollback that is tried again then does nothing.

    `cluster`: empty: the only one that has a release. `version`: the release that a person wants to leave;
    empty: the one that is live.
    """

    operator_extra_links = (ReleaseLink(), MlflowLink())

    cluster: Any = None
    version: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Return the champion's cluster and name, and the version to leave."""
        from lucid_models.releases.clusters import which_cluster
        from lucid_models.releases.lifecycle import show_release

        tracking_uri = settings.tracking_uri()
        cluster = which_cluster(tracking_uri, self.cluster)
        self.check_right(context, cluster)
        champion = show_release(tracking_uri=tracking_uri, cluster=cluster)
        self.about_release(champion.cluster, champion.version)
        leave = int(self.version or champion.version)
        tell(context, f"Release {leave} of {champion.cluster} is left.", step=True)
        return {"cluster": champion.cluster, "name": champion.name, "version": leave}


class RollbackReleaseOperator(LucidOperator, is_step=True):
    """Move a cluster's `champion` from `from_version` back to `previous`, with the reason in the log."""

    operator_extra_links = (ReleaseLink(), MlflowLink())

    reason: Any
    cluster: Any
    from_version: Any

    def run(self, context: Any) -> dict[str, Any]:
        """Roll back; returns the champion's cluster, name and version, and what was done in words."""
        from lucid_models.releases.lifecycle import rollback_release

        by, _ = decided_by(context, None)
        release = rollback_release(
            tracking_uri=settings.tracking_uri(),
            cluster=self.cluster,
            from_version=int(self.from_version),
            by=by,
            because=str(self.reason),
        )
        self.log.warning("Rolled back: %s", self.reason)
        tell(context, f"{release.moved}: {self.reason}", release=(release.cluster, release.version))
        self.about_release(release.cluster, release.version)
        result = {**_facts(release), "reason": self.reason}
        announce(context, result)
        return result


class RenewPublicationsOperator(LucidOperator, is_step=True):
    """Sign anew, with a later expiry, what is live for each cluster: schedulers then know that nothing newer
    is kept from them. One cluster's failure is no other's; the task fails at the end.
    """

    def run(self, context: Any) -> dict[str, Any]:
        """Renew; returns cluster -> when its publication expires."""
        from foundation.errors import LucidError, ReleaseRefusedError
        from lucid_models.releases.publications import renew_champion
        from lucid_models.signing.installation import Signing
        from pipeline.release.current_release import clusters_with_champion

        if Signing.of_environment().trust_file is None:
            raise AirflowSkipException("Nothing is signed here (LUCID_TRUST=unsigned): nothing to renew.")
        tracking_uri = settings.tracking_uri()
        clusters = clusters_with_champion(tracking_uri)
        if not clusters:
            raise AirflowSkipException("There is no champion yet: nothing to renew.")
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
        tell(context, f"Renewed: {until}.")
        return renewed


def _facts(release: "ReleaseInfo") -> dict[str, Any]:
    return {
        "cluster": release.cluster,
        "name": release.name,
        "version": release.version,
        "moved": release.moved,
    }
