"""Where people read about a release: its page in Airflow's UI, which MLflow, tasks and approvals link to."""

import os
from urllib.parse import quote

# The address at which people open Airflow; the second is Airflow's own name for it.
AIRFLOW_URL_VARIABLES = ("LUCID_AIRFLOW_URL", "AIRFLOW__API__BASE_URL")


def release_page_path(cluster: str, version: int) -> str:
    """The path of a release's page below Airflow's address."""
    return f"plugin/lucid/releases/{quote(cluster, safe='')}/{version}"


def release_page_url(cluster: str, version: int, *, airflow_url: str | None = None) -> str | None:
    """The address of a release's page (`airflow_url`: default: from the environment); None where nothing says
    at which web address people open Airflow.
    """
    named = (os.environ.get(variable, "").strip() for variable in AIRFLOW_URL_VARIABLES)
    base = airflow_url or next(filter(None, named), "")
    if not base.startswith(("http://", "https://")):
        return None
    return f"{base.rstrip('/')}/{release_page_path(cluster, version)}"
