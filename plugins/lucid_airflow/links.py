"""Buttons on a task's page: the release that it is about, MLflow's run, model and verdict, the Data Docs, the
page of a monitoring pass, of a capacity plan, or what a part left.

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


class PageLink(BaseOperatorLink):
    """A page that the run left, served by this plugin to users who are logged in; of those below `below`."""

    name, below = "Page", ""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or an empty string (no button) when no page was written."""
        page = getattr(operator, "page", None) or ""
        return settings.airflow_path(page) if page.startswith(f"lucid/{self.below}") else ""


class DataDocsLink(PageLink):
    """The expectations of a table and what was found."""

    name, below = "Data Docs", "data-docs/"


class MonitoringLink(PageLink):
    """The page of a monitoring pass."""

    name, below = "Monitoring", "monitoring/"


class PlanLink(PageLink):
    """What a plan of a cluster's capacity answers."""

    name, below = "Plan", "plans/"


def model_version_path(name: str, version: int) -> str:
    """Return the page of a registered model's version in MLflow's UI."""
    return f"models/{name}/versions/{version}"
