"""Buttons on a task's page: MLflow's run, model and verdict, the Data Docs, the page of a monitoring pass, of
a Pareto front, of a cluster or of a capacity plan.

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


class DataDocsLink(BaseOperatorLink):
    """The expectations of a table and what was found; served by this plugin to users who are logged in."""

    name = "Data Docs"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string when no docs were built."""
        path = getattr(operator, "data_docs_path", None)
        return f"/lucid/data-docs/{path}" if path else ""


class MonitoringLink(BaseOperatorLink):
    """The page of a monitoring pass; served by this plugin to users who are logged in."""

    name = "Monitoring"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string when no page was written."""
        path = getattr(operator, "monitoring_path", None)
        return f"/lucid/monitoring/{path}" if path else ""


class FrontLink(BaseOperatorLink):
    """The interactive page of a Pareto front; served by this plugin to users who are logged in."""

    name = "Front"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string when no page was written."""
        path = getattr(operator, "front_path", None)
        return f"/lucid/fronts/{path}" if path else ""


class CharacterisationLink(BaseOperatorLink):
    """What a cluster's log says of it; served by this plugin to users who are logged in."""

    name = "Cluster"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string when no page was written."""
        path = getattr(operator, "characterisation_path", None)
        return f"/lucid/characterisation/{path}" if path else ""


class PlanLink(BaseOperatorLink):
    """The page of a capacity plan; served by this plugin to users who are logged in."""

    name = "Plan"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string when no page was written."""
        path = getattr(operator, "plan_path", None)
        return f"/lucid/plans/{path}" if path else ""


def model_version_path(name: str, version: int) -> str:
    """Return the page of a registered model's version in MLflow's UI."""
    return f"models/{name}/versions/{version}"
