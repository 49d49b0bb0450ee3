"""Buttons on a task's page: the release that it is about, MLflow's run, model and verdict, the Data Docs, the
page of a monitoring pass, of a Pareto front, of a cluster or of a capacity plan.

MLflow cannot be framed, so we link.
"""

from typing import Any

from airflow.sdk import BaseOperatorLink

from lucid_airflow import settings


class MlflowLink(BaseOperatorLink):
    """What the task left in MLflow; the operator sets `mlflow_path` when it knows."""

    name = "MLflow"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string (no button) when there is none."""
        base = settings.mlflow_ui_url()
        path = getattr(operator, "mlflow_path", None)
        return f"{base}/#/{path}" if base and path else ""


class ReleaseLink(BaseOperatorLink):
    """The page of the release that the task is about (`LucidOperator.about_release`)."""

    name = "Release"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string (no button) when the task met no release."""
        path = getattr(operator, "release_path", None)
        return f"{settings.airflow_url()}/{path}" if path else ""


class _KeptPageLink(BaseOperatorLink):
    """A page that the run left, served by this plugin to users who are logged in; `set_by`: the operator's
    attribute that says where it lies below `below`.
    """

    below: str
    set_by: str

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string (no button) when no page was written."""
        path = getattr(operator, self.set_by, None)
        return settings.airflow_path(f"lucid/{self.below}/{path}") if path else ""


class DataDocsLink(_KeptPageLink):
    """The expectations of a table and what was found."""

    name, below, set_by = "Data Docs", "data-docs", "data_docs_path"


class MonitoringLink(_KeptPageLink):
    """The page of a monitoring pass."""

    name, below, set_by = "Monitoring", "monitoring", "monitoring_path"


class FrontLink(_KeptPageLink):
    """The interactive page of a Pareto front."""

    name, below, set_by = "Front", "fronts", "front_path"


class CharacterisationLink(_KeptPageLink):
    """What a cluster's log says of it."""

    name, below, set_by = "Cluster", "characterisation", "characterisation_path"


class PlanLink(_KeptPageLink):
    """What a plan of a cluster's capacity answers."""

    name, below, set_by = "Plan", "plans", "plan_path"


def model_version_path(name: str, version: int) -> str:
    """Return the page of a registered model's version in MLflow's UI."""
    return f"models/{name}/versions/{version}"
