"""Where the lake, MLflow and the state folder are: the environment first, then an Airflow Variable.

| what | environment | Airflow Variable |
| --- | --- | --- |
| lake's root URI | LUCID_LAKE_URI | lucid_lake_uri |
| MLflow's address for tasks | LUCID_TRACKING_URI | lucid_tracking_uri |
| MLflow's address for browsers | LUCID_MLFLOW_UI_URL (default: the tracking URI) | |
| state folder (Data Docs, verdicts) | LUCID_STATE_DIR | |
| must a person approve a publication? | LUCID_REQUIRE_APPROVAL (default: true) | |

Variables are read inside tasks only: a DAG file may not ask the database while it is parsed.
"""

import os
from pathlib import Path

from cluster_logs.errors import BadInputError

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def lake_uri() -> str:
    """Return the lake's root URI. Raises BadInputError when nobody set it."""
    return _setting("LUCID_LAKE_URI", "lucid_lake_uri")


def tracking_uri() -> str:
    """Return MLflow's address for tasks. Raises BadInputError when nobody set it."""
    return _setting("LUCID_TRACKING_URI", "lucid_tracking_uri")


def mlflow_ui_url() -> str | None:
    """Return MLflow's address for a browser, or None when it is not known or not a web address."""
    url = os.environ.get("LUCID_MLFLOW_UI_URL") or os.environ.get("LUCID_TRACKING_URI") or ""
    return url.rstrip("/") if url.startswith(("http://", "https://")) else None


def state_dir() -> Path:
    """Return the state folder. Raises BadInputError when nobody set it."""
    folder = os.environ.get("LUCID_STATE_DIR")
    if not folder:
        raise BadInputError(
            "LUCID_STATE_DIR is not set.", remedy="Set it to a folder that Airflow's processes share."
        )
    return Path(folder)


def data_docs_dir() -> Path:
    """Return the folder of Great Expectations' Data Docs, one subfolder a cluster."""
    return state_dir() / "data_docs"


def approval_required_by_default() -> bool:
    """Return whether publication waits for a person unless a run says otherwise. Reads no database."""
    text = os.environ.get("LUCID_REQUIRE_APPROVAL", "true").strip().lower()
    if text not in _TRUE + _FALSE:
        raise BadInputError(
            f"LUCID_REQUIRE_APPROVAL={text!r} is neither true nor false.", remedy="Set it to true or false."
        )
    return text in _TRUE


def _setting(variable: str, key: str) -> str:
    value = os.environ.get(variable)
    if not value:
        from airflow.sdk import Variable

        value = Variable.get(key, default=None)
    if not value:
        raise BadInputError(
            f"{variable} is not set.",
            remedy=f"Set it in Airflow's environment, or the Airflow Variable {key!r}.",
        )
    return str(value)
