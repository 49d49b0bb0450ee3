"""The plugin's entry point (pyproject.toml, group airflow.plugins): what it adds to Airflow's UI."""

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from foundation.security_headers import FOR_A_SITE, SecurityHeaders
from lucid_airflow import listener, settings
from lucid_airflow.links import (
    DataDocsLink,
    MlflowLink,
    MonitoringLink,
    PageLink,
    PlanLink,
    ReleaseLink,
)
from lucid_airflow.pages.app import PagesApp


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
    ]
    fastapi_apps: ClassVar[list[dict[str, Any]]] = [
        {"app": PagesApp(), "url_prefix": "/lucid", "name": "Lucid pages"}
    ]
    # Our buttons are on Airflow's own pages: no other site may lay them under its own.
    fastapi_root_middlewares: ClassVar[list[dict[str, Any]]] = [
        {
            "middleware": SecurityHeaders,
            "args": [],
            "kwargs": {"headers": FOR_A_SITE},
            "name": "Lucid's security headers",
        }
    ]
    # `name` is the label, and the global that the script leaves its component in. Addresses without a slash
    # in front are looked up below Airflow's own, which may have a prefix ([api] base_url).
    react_apps: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Lucid",
            "bundle_url": "lucid/assets/lucid.js",
            "url_route": "lucid",
            "destination": "nav",
            "nav_top_level": True,
        },
        {
            "name": "Lucid at a glance",
            "bundle_url": "lucid/assets/home.js",
            "destination": "dashboard",
        },
        {
            "name": "Results",
            "bundle_url": "lucid/assets/results.js",
            "url_route": "results",
            "destination": "dag",
        },
        *(
            {
                "name": "Result",
                "bundle_url": "lucid/assets/result.js",
                "url_route": route,  # Airflow shows one app of a route alone
                "destination": destination,
            }
            for route, destination in (("result", "dag_run"), ("task-result", "task_instance"))
        ),
    ]
    listeners: ClassVar[list[Any]] = [listener]
    operator_extra_links: ClassVar[list[Any]] = [
        MlflowLink(),
        DataDocsLink(),
        MonitoringLink(),
        PageLink(),
        PlanLink(),
        ReleaseLink(),
    ]
