"""Keeps what the gate says of a release by other rules than its own: a study, which publishes nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foundation.leftovers import scratch_folder
from lucid_models.registry import Registry
from lucid_models.releases.building import json_values
from lucid_models.releases.manifest import canonical_json

STUDY_EXPERIMENT = "lucid-gate-studies"
STUDY_FILE = "study.json"


def record_study(
    *,
    tracking_uri: str,
    cluster: str,
    version: int,
    study: Mapping[str, Any],
    artifacts_dir: Path | None = None,
) -> str:
    """Store a study with its tables and plots in a run of its own; returns its page below MLflow's address.

    The release is left as it is: neither its verdict nor any of its tags changes.
    """
    tags = {
        "cluster": cluster,
        "release_version": str(version),
        "approved": str(study["approved"]).lower(),
        "stated_rules": str(study["subject"]["study"]),
    }
    with (
        Registry(tracking_uri).run(STUDY_EXPERIMENT, f"what if: {cluster} {version}", tags) as run,
        scratch_folder("study") as folder,
    ):
        (folder / STUDY_FILE).write_bytes(canonical_json(json_values(study)))
        if artifacts_dir is not None and artifacts_dir.is_dir():
            run.log_folder(artifacts_dir)
        run.log_folder(folder)
        return run.ui_path()
