"""Where things are, unless an option says otherwise: the environment's word, else `.lucid/`."""

import os
from pathlib import Path

from cluster_logs.private_files import private_database, private_folder

DEFAULT_SERVER = "http://127.0.0.1:5000"


def state_dir() -> Path:
    """Return the folder of everything that a local stack keeps (LUCID_STATE_DIR, default `.lucid`)."""
    return Path(os.environ.get("LUCID_STATE_DIR", ".lucid")).absolute()


def lake_uri() -> str:
    """Return the lake's root URI (LUCID_LAKE_URI, default `.lucid/lake`)."""
    return os.environ.get("LUCID_LAKE_URI") or str(state_dir() / "lake")


def tracking_uri() -> str:
    """Return MLflow's address: LUCID_TRACKING_URI, else the running stack, else a local SQLite store."""
    known = _server_uri()
    if known:
        return known
    store = private_folder(state_dir() / "mlflow-local")
    return f"sqlite:///{private_database(store / 'mlflow.db')}"


def server_uri() -> str:
    """Return the MLflow server's address, whether it runs or not: what a scheduler's client polls."""
    return _server_uri() or DEFAULT_SERVER


def _server_uri() -> str | None:
    named = os.environ.get("LUCID_TRACKING_URI")
    if named:
        return named
    from pipeline.local_stack import running_tracking_uri

    return running_tracking_uri(state_dir())
