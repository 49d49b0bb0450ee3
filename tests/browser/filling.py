"""What an installation is filled with: real runs of our DAGs, task by task, in its own environment.

A cluster with a live release, the one before it, one that the gate refused and one that waits for a person;
rows in quarantine; a run that failed; passes of monitoring. One virtual cluster, one user and one job name
are markup.
"""

import argparse
import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from foundation.site import Site
from tests.pipeline.what_if.what_if_results import keep_small_what_if

if TYPE_CHECKING:
    from lucid_models.duration.model import DurationSettings

CLUSTER = "small"
HOSTILE = "<img src=x onerror=alert(1)>"
HOLD_OUT_DAYS = 5
LIVE, REFUSED, WAITING = 2, 3, 4  # versions of the release


def make_database() -> None:
    """Airflow's database, with our DAGs in it."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.dag import DagModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session
    from sqlalchemy import update

    initdb()
    manager = DagBundlesManager()
    manager.sync_bundles_to_db()
    for bundle in manager.get_all_dag_bundles():
        bundle.initialize()
        bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
        sync_bag_to_db(bag, bundle.name, bundle.version)
    with create_session() as session:
        session.execute(update(DagModel).values(is_paused=False))


def run_dag(dag_id: str, *, left_out: str | None = None, **form: Any) -> None:
    """Trigger a DAG and run its tasks here, until they are over; a person answers meanwhile.

    `left_out`: a pattern of tasks that count as done.
    """
    from airflow.dag_processing.dagbag import DagBag

    from tests.dag_bundles import dag_file

    DagBag(dag_file(dag_id)).dags[dag_id].test(run_conf=form, mark_success_pattern=left_out)


def write_log(folder: Path) -> tuple[Path, Path]:
    """The cluster's log as Helios has it, and its nodes; a row in forty cannot be used."""
    from tests.small_cluster import make_jobs

    jobs = make_jobs().replace({"virtual_cluster": {"vc2": HOSTILE}, "user": {"u7": HOSTILE}})
    jobs.loc[::97, "name"] = HOSTILE
    log = pd.DataFrame(
        {
            "job_id": jobs["job_id"],
            "user": jobs["user"],
            "vc": jobs["virtual_cluster"],
            "jobname": jobs["name"],
            "gpu_num": jobs["gpus"].astype(str),
            "cpu_num": 4 * jobs["gpus"],
            "node_num": 1,
            "state": jobs["state"],
            **{
                name: jobs[name].dt.strftime("%Y-%m-%d %H:%M:%S")
                for name in ("submit_time", "start_time", "end_time")
            },
            "duration": jobs["duration_s"].round(),
            "queue": 0,
        }
    )
    log.loc[::80, "state"] = "MELTED"
    log.loc[40::80, "gpu_num"] = "many"
    log.to_csv(folder / "jobs.csv", index=False)
    names = sorted(set(jobs["virtual_cluster"]))
    pd.DataFrame({"virtual_cluster": names, "nodes": 5, "gpus_per_node": 4}).to_csv(
        folder / "nodes.csv", index=False
    )
    return folder / "jobs.csv", folder / "nodes.csv"


def train(until: datetime) -> dict[str, int]:
    """Train the three models on what is in the lake; returns their versions."""
    from lucid_models.duration.model import DurationSettings
    from lucid_models.throughput.model import ThroughputSettings
    from lucid_models.training import train_packing, train_throughput
    from pipeline.profiling.profile_store import read_profile_set
    from tests.small_cluster import FAST

    lake_uri, tracking_uri = os.environ["LUCID_LAKE_URI"], os.environ["LUCID_TRACKING_URI"]
    profiles = read_profile_set(Site(lake=lake_uri, cluster=CLUSTER))
    quick = replace(FAST, max_rounds=40)
    return {
        "packing": train_packing(solo=profiles.solo, pairs=profiles.pairs, tracking_uri=tracking_uri).version,
        "throughput": train_throughput(
            lake_uri=lake_uri,
            cluster=CLUSTER,
            tracking_uri=tracking_uri,
            train_until=until,
            settings=ThroughputSettings(boosting=quick),
        ).version,
        "duration": train_run_times(
            until, lake_uri, DurationSettings(log_boosting=replace(FAST, max_bins=256), mean_boosting=quick)
        ),
    }


def train_run_times(until: datetime, lake_uri: str, settings: "DurationSettings") -> int:
    """Train the model of run times on a lake; returns its version."""
    from lucid_models.training import train_duration

    return train_duration(
        lake_uri=lake_uri,
        cluster=CLUSTER,
        tracking_uri=os.environ["LUCID_TRACKING_URI"],
        train_until=until,
        settings=settings,
    ).version


def train_misled(until: datetime, folder: Path) -> int:
    """A model of run times that learned from a lake in which each job has another one's run time."""
    from cluster_logs.lake import Lake
    from lucid_models.duration.model import DurationSettings
    from tests.small_cluster import FAST

    jobs = Lake(os.environ["LUCID_LAKE_URI"]).read_jobs(CLUSTER)
    jobs["duration_s"] = np.random.default_rng(0).permutation(jobs["duration_s"].to_numpy())
    jobs["end_time"] = jobs["start_time"] + pd.to_timedelta(jobs["duration_s"], unit="s")
    misled = str(folder / "misled-lake")
    Lake(misled).write_jobs(CLUSTER, jobs)
    hasty = replace(FAST, max_rounds=20)
    return train_run_times(until, misled, DurationSettings(log_boosting=hasty, mean_boosting=hasty, pairs=0))


def build(versions: dict[str, int], until: datetime, **settings: Any) -> int:
    """Build a release and let the gate judge it; returns its version."""
    from lucid_models.releases.lifecycle import build_release
    from pipeline.validation.held_out_days import record_held_out

    tracking_uri = os.environ["LUCID_TRACKING_URI"]
    built = build_release(
        tracking_uri=tracking_uri,
        cluster=CLUSTER,
        versions=versions,
        settings={"allow_simulated_profiles": True, **settings},
        training_until=until,
    )
    record_held_out(Site(registry=tracking_uri), built, HOLD_OUT_DAYS)
    run_dag("validate_release", cluster=CLUSTER, version=built.version)
    return built.version


def fill(folder: Path) -> None:
    """Run everything, from the log to the release that waits for a person; keep a what-if."""
    from lucid_models.releases.lifecycle import publish_release
    from lucid_models.signing.installation import Signing
    from pipeline.training.windows import training_window_end

    Signing.of_environment().key_store.create()
    lake_uri, tracking_uri = os.environ["LUCID_LAKE_URI"], os.environ["LUCID_TRACKING_URI"]
    keep_small_what_if(folder / "sweep", folder / "what_if")
    log, nodes = write_log(folder)
    form = {"cluster": CLUSTER, "time_zone": "UTC", "gpus_per_node": 4, "hold_out_days": HOLD_OUT_DAYS}
    # Not its format: nothing of the log is read, so nothing beside it either.
    run_dag("ingest_logs", source_format="sacct", input_uri=str(log), left_out=".*_profiles", **form)
    run_dag("ingest_logs", source_format="helios", input_uri=str(log), nodes_uri=str(nodes), **form)
    until = training_window_end(Site(lake=lake_uri, cluster=CLUSTER), HOLD_OUT_DAYS)
    models = train(until)
    for number, (settings, by, because) in enumerate(
        (({}, "ann", "the first that was proven"), ({"profiling_limit_s": 100}, "ben", "it measures less"))
    ):
        version = build(models, until, **settings)
        assert version == number + 1
        publish_release(tracking_uri=tracking_uri, cluster=CLUSTER, version=version, by=by, because=because)
    for days in (3, 1, 0):
        as_of = until + timedelta(days=HOLD_OUT_DAYS - days)
        run_dag("monitor_live", cluster=CLUSTER, as_of=as_of.isoformat(), may_retrain=False)
    assert build({**models, "duration": train_misled(until, folder)}, until) == REFUSED
    run_dag("publish_release", cluster=CLUSTER)
    assert build(models, until, profiling_limit_s=60) == WAITING
    run_dag("publish_release", cluster=CLUSTER)  # goes on when somebody has answered


def main() -> None:
    """Fill the installation in a folder, or make the database of one."""
    parser = argparse.ArgumentParser()
    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("folder", type=Path, nargs="?")
    whose.add_argument("--database", action="store_true")
    asked = parser.parse_args()
    if asked.database:
        make_database()
    else:
        fill(asked.folder)


if __name__ == "__main__":
    main()
