"""A person's word before a release is published."""

from collections.abc import Sequence
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param

from foundation.errors import NotAllowedError
from foundation.steps import THE_PIPELINE, RunOutcome
from lucid_airflow import form_fields, settings
from lucid_airflow.access.run_rights import objection_to
from lucid_airflow.errors import as_airflow_errors
from lucid_airflow.handover import person_of
from lucid_airflow.run_results import tell

REASON = "reason"  # the field of the approval's form


def reason_field() -> dict[str, Param]:
    """The field in which a person says why, for the operator's `params`."""
    return {REASON: form_fields.reason()}


class RequestApprovalOperator(ApprovalOperator):
    """Wait for a person in the UI when approval is required; else go on at once.

    The installation decides (LUCID_REQUIRE_APPROVAL); a run's `approval_required` may ask for more, never for
    less. No answer in time counts as a rejection. An answer of a person who may not give it does not count
    (`objection_to`): it is asked again. `started_by`: who started what led to the release.
    """

    template_fields: Sequence[str] = (
        "subject",
        "body",
        "approval_required",
        "cluster",
        "version",
        "started_by",
    )

    def __init__(
        self, *, approval_required: Any, cluster: Any, version: Any, started_by: Any, **kwargs: Any
    ) -> None:
        super().__init__(defaults=self.REJECT, **kwargs)
        self.approval_required = approval_required
        self.cluster = cluster
        self.version = version
        self.started_by = started_by

    def execute(self, context: Any) -> Any:
        """Ask, or say that no approval is needed."""
        with as_airflow_errors(context):
            required = settings.approval_required() or bool(self.approval_required)
        if not required:
            tell(context, "No person's approval is required (LUCID_REQUIRE_APPROVAL is off).", step=True)
            return {"chosen_options": [self.APPROVE], "responded_by_user": None}
        if self.started_by and settings.four_eyes():
            self.body += f"\n\nStarted by {' and '.join(self.started_by)}: another person must approve it."
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Go on with the answer; a rejection is kept with the release, and ends the run."""
        with as_airflow_errors(context):
            objection = _objection(event, str(self.cluster), self.started_by)
        if objection:
            tell(context, f"{objection} It is asked again.", step=True)
            return super().execute(context)
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


def _objection(answer: dict[str, Any], cluster: str, starters: Sequence[str]) -> str | None:
    """Why an answer does not count; None: it does, or nobody gave one. Who started it may turn it down."""
    user = answer.get("responded_by_user")
    approved = answer.get("chosen_options") == [ApprovalOperator.APPROVE]
    return objection_to(name_of(user), cluster, starters if approved else ()) if user else None


def check_answer(approval: Any, cluster: str, starters: Any) -> None:
    """Raise NotAllowedError unless a run may act on what `RequestApprovalOperator` returned (`approval`).

    None: that task never ended by itself; whoever marked it as done was asked nothing.
    """
    if approval is None or (settings.approval_required() and not approval.get("responded_by_user")):
        raise NotAllowedError(
            "No person approved this: the task that asks one was marked as done, or asked nobody.",
            remedy="Trigger publish_release again, and have it approved.",
        )
    if objection := _objection(approval, cluster, list(starters or ())):
        raise NotAllowedError(objection)


def name_of(user: Any) -> str:
    """Return the name of who answered, as a run has the name of who triggered it."""
    return str(user.get("name") or user.get("id"))


def decided_by(context: Any, approval: Any) -> tuple[str, str]:
    """Return who let a run act, and why, in words: who answered `approval`, else who or what started the run.

    `approval`: what `RequestApprovalOperator` returned; None: nobody was asked.
    """
    person = answered_by(approval)
    if person is not None:
        return person, str((approval.get("params_input") or {}).get(REASON) or "")
    starter = started_run(context)
    return starter, "no approval was required" if starter == THE_PIPELINE else ""


def answered_by(approval: Any) -> str | None:
    """Return who answered `approval`; None: nobody was asked."""
    user = (approval or {}).get("responded_by_user")
    return name_of(user) if user else None


def started_run(context: Any) -> str:
    """Return who triggered a run: a person's name, else `THE_PIPELINE`."""
    return person_of(context) or THE_PIPELINE
