"""Keeps what the gate says of a release in a run, beside its tables and plots.

A study is what it says by other rules than the release's own; it publishes nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation.process_lock import scratch_folder
from lucid_models.registry import Registry
from lucid_models.releases.building import json_values
from lucid_models.releases.manifest import canonical_json
from lucid_models.tracking_run import OpenRun

STUDY_EXPERIMENT = "lucid-gate-studies"
STUDY_FILE = "study.json"


def log_document(run: OpenRun, file_name: str, document: bytes, artifacts_dir: Path | None) -> None:
    """Log a document, and the tables and plots that go with it."""
    with scratch_folder("document") as folder:
        (folder / file_name).write_bytes(document)
        if artifacts_dir is not None and artifacts_dir.is_dir():
            run.log_folder(artifacts_dir)
        run.log_folder(folder)


def record_study(
    *,
    tracking_uri: str,
    cluster: str,
    version: int,
    verdict: Mapping[str, Any],
    artifacts_dir: Path | None = None,
) -> str:
    """Store a study with its tables and plots in a run of its own; returns its page below MLflow's address.

    The release is left as it is: neither its verdict nor any of its tags changes.
    """
    tags = {
        "cluster": cluster,
        "release_version": str(version),
        "approved": str(verdict["approved"]).lower(),
        "stated_rules": str(verdict["subject"]["study"]),
    }
    with Registry(tracking_uri).run(STUDY_EXPERIMENT, f"{cluster} release {version} what-if", tags) as run:
        log_document(run, STUDY_FILE, canonical_json(json_values(verdict)), artifacts_dir)
        return run.ui_path()
