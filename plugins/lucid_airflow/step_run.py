"""Airflow's side of a step: the run as the step sees it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foundation.steps import Decision, StepRun
from lucid_airflow import settings
from lucid_airflow.access.run_rights import check_right
from lucid_airflow.handover import announcements, data_interval, person_of, started_by, take_first
from lucid_airflow.operators.approval import answered_by, check_answer, decided_by, started_run


class AirflowRun(StepRun):
    """A run of Airflow's, by the context of the task that runs a step; `operator` has the task's buttons."""

    def __init__(self, operator: Any, context: Any) -> None:
        self._operator, self._context = operator, context
        run = context["dag_run"]
        self.run_id = str(getattr(run, "run_id", None) or context.get("run_id") or "")
        self.person = person_of(context)
        asked = getattr(run, "run_after", None)
        self.asked_at = asked.isoformat(timespec="seconds") if asked else ""
        self.form = dict(getattr(run, "conf", None) or {})
        self.by_clock = getattr(run, "run_type", None) == "scheduled"
        self.interval = data_interval(context)

    def announced(self) -> list[dict[str, Any]]:
        """Return what the run was told, each of it once."""
        return announcements(self._context)

    def take_first(self, announced: Sequence[Mapping[str, Any]], *identity: str) -> list[dict[str, Any]]:
        """Return what was announced of the first thing, and hand on the rest."""
        return take_first(self._context, announced, *identity)

    def started_by(self, cluster: str) -> list[str]:
        """Return the people behind the run, by the names of their logins."""
        return started_by(self._context, cluster)

    def decision(self, approval: Any, cluster: str, started_by: Sequence[str]) -> Decision:
        """Return the answer of `RequestApprovalOperator`, or who started the run where none was asked."""
        check_answer(approval, cluster, started_by)
        by, because = decided_by(self._context, approval)
        return Decision(by, because, started_run(self._context) if answered_by(approval) else "")

    def check_right(self, cluster: str) -> None:
        """Look the person up in the site's table of rights."""
        check_right(self._context, cluster)

    def state_dir(self) -> Path:
        """Return what LUCID_STATE_DIR says."""
        return settings.state_dir()

    def link_to(
        self,
        *,
        release: tuple[str, int] | None = None,
        mlflow_path: str | None = None,
        page: str | None = None,
    ) -> None:
        """Set what the links of the operator read."""
        if release is not None:
            self._operator.about_release(*release)
        if mlflow_path is not None:
            self._operator.mlflow_path = mlflow_path
        if page is not None:
            self._operator.page = page
