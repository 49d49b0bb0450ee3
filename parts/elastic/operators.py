"""A person picks a point of a Pareto front."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import SkipMixin

from lucid_airflow.access.run_rights import objection_to
from lucid_airflow.errors import as_airflow_errors
from lucid_airflow.operators.approval import name_of
from lucid_airflow.run_results import tell

NONE = "None of them"


class RequestChoiceOperator(HITLOperator, SkipMixin):
    """Wait for a person to pick a point of the front in the UI; `pick` names one at once.

    Nothing picked, or no answer in time: what follows is skipped. Returns the point as `front_id`.
    """

    inherits_from_skipmixin = True
    template_fields: Sequence[str] = ("subject", "body", "study_uri", "pick", "cluster")

    def __init__(self, *, study_uri: Any, cluster: Any, pick: Any = None, **kwargs: Any) -> None:
        super().__init__(options=[NONE], defaults=[NONE], multiple_outputs=True, **kwargs)
        self.study_uri = study_uri
        self.cluster = cluster
        self.pick = pick

    def execute(self, context: Any) -> Any:
        """Ask, with the front's points as the answers to choose from."""
        with as_airflow_errors(context):
            labels = self._offer()
            if self.pick:
                from parts.elastic.pareto.presented import read_front

                point = read_front(self.study_uri).point(str(self.pick))
                tell(context, f"The form picked {point.front_id}.", step=True)
                return {"front_id": point.front_id}
        self.log.info("Waiting for a person to pick one of %d points", len(labels))
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Take the answer."""
        with as_airflow_errors(context):
            labels = self._offer()
            user = event.get("responded_by_user")
            objection = user and objection_to(name_of(user), str(self.cluster))
        if objection:
            tell(context, f"{objection} It is asked again.", step=True)
            return super().execute(context)
        answer = super().execute_complete(context, event)
        (option,) = answer["chosen_options"]
        if option == NONE:
            tell(context, "Nothing was picked: no release is built.")
            self.skip(ti=context["ti"], tasks=context["task"].get_direct_relatives(upstream=False))
            return {}
        tell(context, f"{labels[option]} was picked.", step=True)
        return {"front_id": labels[option], "picked_by": dict(user) if user else None}

    def _offer(self) -> Mapping[str, str]:
        from parts.elastic.pareto.presented import choices_of, read_front

        labels = choices_of(read_front(self.study_uri))
        self.options = [*labels, NONE]
        return labels
