"""The state of one version of this product, kept so that later versions are tested against it.

    python -m tests.state_of_version --write

writes tests/states/VERSION.tar.xz anew: a backup (`lucid backup`) of a small installation. Run it for each
version that is released, and commit it; a state that is there already is of a version that was released, and
stays as it is.
"""

import argparse
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from cluster_logs.job_table import derive_throughput
from cluster_logs.lake import Lake
from cluster_logs.site.rules import SiteRules
from cluster_logs.site.site_file import write_site
from live_scheduler.client import ReleaseClient
from live_scheduler.memory.journal import JobEvent, JobEventKind, Journal
from live_scheduler.safety.touched import Touch, TouchedJobs, Way
from local_stack.backup import back_up
from lucid_models.releases.lifecycle import publish_release
from lucid_models.signing.installation import TRUST_VARIABLE, Signing
from tests.fixtures import (
    MlflowServer,
    ReleaseShop,
    register_small_models,
    save_small_models,
    saved_small_models,
    small_jobs,
)

STATES = Path(__file__).parent / "states"
SETTINGS = 'cluster = "small"\nmode = "observe"\n\n[slurm]\n'


def fill_state(state: Path) -> None:
    """Leave in a folder what a small installation leaves: lake, MLflow, a scheduler's folder, settings."""
    (state / "mlflow").mkdir(parents=True)
    server = MlflowServer(state / "mlflow")
    server.start()
    try:
        with tempfile.TemporaryDirectory() as models:
            save_small_models(Path(models))
            files = saved_small_models(Path(models))
            register_small_models(server.uri, files)
            os.environ |= {"LUCID_STATE_DIR": str(state)}
            os.environ.pop(TRUST_VARIABLE, None)
            Signing.of_environment().key_store.create()
            shop = ReleaseShop(server, files)
            for number in (1, 2):
                publish_release(tracking_uri=server.uri, cluster="small", version=shop.approved(number))
        live = state / "live" / "small"
        live.mkdir(parents=True)
        shutil.copy(state / "trust.json", live)
        assert ReleaseClient(server.uri, "champion", live, cluster="small").poll().version == 2
    finally:
        server.stop()
    (state / "mlflow" / "server.log").unlink()
    lake = Lake(str(state / "lake"))
    lake.write_jobs("small", small_jobs(120).assign(source_file="log.synthetic", source_row=range(120)))
    lake.write_nodes("small", pd.DataFrame({"virtual_cluster": ["vc"], "nodes": 4, "gpus_per_node": 8}))
    lake.replace_derived_throughput("small", derive_throughput(lake.iter_jobs("small")))
    refused = {"reason": "end_before_start", "column": "end_time", "value": "x", "source_format": "sacct"}
    lake.add_quarantine(
        "small", "log.csv", pd.DataFrame([refused | {"source_file": "a", "source_row": 7, "raw_row": "x"}])
    )
    facts = {"user": "u1", "name": "train_u1", "gpus": 2, "virtual_cluster": "vc"}
    Journal(live / "journal.jsonl").append(
        [
            JobEvent(1_795_824_000.0, JobEventKind.SUBMITTED, "4711", facts),
            JobEvent(1_795_824_060.0, JobEventKind.STARTED, "4711", facts),
            JobEvent(1_795_824_600.0, JobEventKind.ENDED, "4711", facts, 540.0),
        ]
    )
    TouchedJobs(live).write({"4712": Touch(frozenset({Way.ORDERED}), priority=7, given=(900,))})
    (state / "live.toml").write_text(SETTINGS)
    write_site(SiteRules(), state / "site.toml")


def main() -> int:
    """Write the state of this version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    target = STATES / f"{version('lucid-mlops')}.tar.xz"
    STATES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        state = Path(scratch) / "state"
        fill_state(state)
        target.unlink(missing_ok=True)
        written = back_up(state, target, lake_uri=str(state / "lake"))
    target.chmod(0o644)
    print(f"{target}: {written.files} files, {target.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
