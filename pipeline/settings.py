"""Where things are, unless an option says otherwise: the environment's word, else `.lucid/`."""

import os

from foundation.environment import state_dir
from local_stack.stack_config import LOGIN_VARIABLES, log_in, running_stack

__all__ = ["lake_uri", "server_uri", "state_dir", "tracking_uri"]

LOGINS = (*LOGIN_VARIABLES, "MLFLOW_TRACKING_TOKEN")
DEFAULT_SERVER = "http://127.0.0.1:5000"


def lake_uri() -> str:
    """Return the lake's root URI (LUCID_LAKE_URI, default `.lucid/lake`)."""
    return os.environ.get("LUCID_LAKE_URI") or str(state_dir() / "lake")


def tracking_uri(named: str | None = None) -> str:
    """Return MLflow's address: `named`, else LUCID_TRACKING_URI, else the running stack, else a local SQLite
    store, which the first that writes makes. At the running stack this process is logged in as well.
    """
    server = _server_uri(named)
    if server:
        return server
    return f"sqlite:///{state_dir() / 'mlflow-local' / 'mlflow.db'}"


def server_uri(named: str | None = None) -> str:
    """As `tracking_uri`, but always a server's, whether it runs or not: what a scheduler's client polls."""
    return _server_uri(named) or DEFAULT_SERVER


def _server_uri(named: str | None = None) -> str | None:
    named = named or os.environ.get("LUCID_TRACKING_URI")
    if named and any(os.environ.get(variable) for variable in LOGINS):
        return named
    running = running_stack(state_dir())
    if running is not None and named in (None, "", running.mlflow_url):
        log_in(running)
        return running.mlflow_url
    return named
