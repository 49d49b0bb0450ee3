"""Where things are, unless an option says otherwise: the environment's word, else `.lucid/`."""

import os

from foundation.environment import state_dir
from local_stack.stack_config import running_tracking_uri

__all__ = ["lake_uri", "server_uri", "state_dir", "tracking_uri"]

DEFAULT_SERVER = "http://127.0.0.1:5000"


def lake_uri() -> str:
    """Return the lake's root URI (LUCID_LAKE_URI, default `.lucid/lake`)."""
    return os.environ.get("LUCID_LAKE_URI") or str(state_dir() / "lake")


def tracking_uri() -> str:
    """Return MLflow's address: LUCID_TRACKING_URI, else the running stack, else a local SQLite store, which
    the first that writes makes.
    """
    server = _server_uri()
    if server:
        return server
    return f"sqlite:///{state_dir() / 'mlflow-local' / 'mlflow.db'}"


def server_uri() -> str:
    """Return the MLflow server's address, whether it runs or not: what a scheduler's client polls."""
    return _server_uri() or DEFAULT_SERVER


def _server_uri() -> str | None:
    named = os.environ.get("LUCID_TRACKING_URI")
    if named:
        return named
    return running_tracking_uri(state_dir())
