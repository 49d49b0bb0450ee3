"""The plugin's entry point (pyproject.toml, group airflow.plugins): what it adds to Airflow's UI."""

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from lucid_airflow import listener, settings
from lucid_airflow.data_docs import DataDocsApp
from lucid_airflow.links import CharacterisationLink, DataDocsLink, FrontLink, MlflowLink, MonitoringLink


def _mlflow_views() -> list[dict[str, Any]]:
    base = settings.mlflow_ui_url()
    if base is None:
        return []
    # No url_route: MLflow forbids frames, so the entry opens its own page.
    return [
        {
            "name": "Models and releases (MLflow)",
            "href": f"{base}/#/models",
            "destination": "nav",
            "category": "browse",
        }
    ]


class LucidPlugin(AirflowPlugin):
    """Links to MLflow, the Data Docs and the pages that runs leave; notes of runs."""

    name = "lucid"
    external_views: ClassVar[list[dict[str, Any]]] = [
        *_mlflow_views(),
        {
            "name": "Monitoring of releases",
            "href": "/lucid/monitoring/",
            "destination": "nav",
            "category": "browse",
        },
        {
            "name": "Clusters by their logs",
            "href": "/lucid/characterisation/",
            "destination": "nav",
            "category": "browse",
        },
    ]
    fastapi_apps: ClassVar[list[dict[str, Any]]] = [
        {"app": DataDocsApp(), "url_prefix": "/lucid", "name": "Lucid pages"}
    ]
    listeners: ClassVar[list[Any]] = [listener]
    operator_extra_links: ClassVar[list[Any]] = [
        MlflowLink(),
        DataDocsLink(),
        MonitoringLink(),
        FrontLink(),
        CharacterisationLink(),
    ]
