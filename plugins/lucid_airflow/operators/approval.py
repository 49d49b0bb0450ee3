"""A person's word before a release is published."""

from collections.abc import Sequence
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param

from lucid_airflow import form_fields, settings
from lucid_airflow.errors import as_airflow_errors
from lucid_airflow.run_results import RunOutcome, tell

THE_PIPELINE = "the pipeline"  # what starts a run that no person did
REASON = "reason"  # the field of the approval's form


def reason_field() -> dict[str, Param]:
    """The field in which a person says why, for the operator's `params`."""
    return {REASON: form_fields.reason()}


class RequestApprovalOperator(ApprovalOperator):
    """Wait for a person in the UI when approval is required; else go on at once.

    The installation decides (LUCID_REQUIRE_APPROVAL); a run's `approval_required` may ask for more, never for
    less. No answer in time counts as a rejection.
    """

    template_fields: Sequence[str] = ("subject", "body", "approval_required", "cluster", "version")

    def __init__(self, *, approval_required: Any, cluster: Any, version: Any, **kwargs: Any) -> None:
        super().__init__(defaults=self.REJECT, **kwargs)
        self.approval_required = approval_required
        self.cluster = cluster
        self.version = version

    def execute(self, context: Any) -> Any:
        """Ask, or say that no approval is needed."""
        with as_airflow_errors(context):
            required = settings.approval_required() or bool(self.approval_required)
        if not required:
            tell(context, "No person's approval is required (LUCID_REQUIRE_APPROVAL is off).", step=True)
            return {"chosen_options": [self.APPROVE], "responded_by_user": None}
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Go on with the answer; a rejection is kept with the release, and ends the run."""
        if event.get("chosen_options") == [self.REJECT]:
            from lucid_models.releases.decisions import reject_release

            cluster, version = str(self.cluster), int(self.version)
            by, because = decided_by(context, event)
            answered = bool(event.get("responded_by_user"))
            if not answered:
                by, because = "nobody", "no answer in time counts as a rejection"
            with as_airflow_errors(context):
                reject_release(
                    tracking_uri=settings.tracking_uri(),
                    cluster=cluster,
                    version=version,
                    by=by,
                    because=because,
                )
            why = f" by {by}{f': {because}' if because else ''}" if answered else f": {because}"
            sentence = f"Release {version} of {cluster} was turned down{why}"
            tell(context, sentence, outcome=RunOutcome.REFUSED, release=(cluster, version))
        elif "error" not in event:
            by, because = decided_by(context, event)
            tell(context, f"Approved by {by}{f': {because}' if because else '.'}", step=True)
        return super().execute_complete(context, event)


def decided_by(context: Any, approval: Any) -> tuple[str, str]:
    """Return who let a run act, and why, in words: who answered `approval`, else who or what started the run.

    `approval`: what `RequestApprovalOperator` returned; None: nobody was asked.
    """
    person = answered_by(approval)
    if person is not None:
        return person, str((approval.get("params_input") or {}).get(REASON) or "")
    starter = started_by(context)
    return starter, "no approval was required" if starter == THE_PIPELINE else ""


def answered_by(approval: Any) -> str | None:
    """Return who answered `approval`; None: nobody was asked."""
    user = (approval or {}).get("responded_by_user")
    return str(user.get("name") or user.get("id")) if user else None


def started_by(context: Any) -> str:
    """Return who triggered a run: a person's name, else `THE_PIPELINE`."""
    triggered_by = getattr((context or {}).get("dag_run"), "triggering_user_name", None)
    return str(triggered_by) if triggered_by else THE_PIPELINE
