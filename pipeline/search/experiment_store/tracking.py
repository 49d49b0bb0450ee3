"""An experiment's files in MLflow."""

from collections.abc import Iterable

from foundation.leftovers import scratch_folder
from foundation.storage import read_bytes
from lucid_models.tracking_run import OpenRun


def log_stored(run: OpenRun, uris: Iterable[str]) -> None:
    """Log stored files with a run of MLflow; what is not there is left out."""
    with scratch_folder("experiment") as scratch:
        for uri in uris:
            data = read_bytes(uri)
            if data is not None:
                (scratch / uri.rpartition("/")[2]).write_bytes(data)
        run.log_folder(scratch)


def metric_name(text: str) -> str:
    """Return a name as MLflow takes it: letters, digits and _ - . space."""
    return "".join(c if c.isalnum() or c in "_-. " else "_" for c in text)[:200]
