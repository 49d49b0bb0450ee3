"""What every DAG has in common: its owner, and how patient its tasks are."""

from datetime import timedelta
from typing import Any

from foundation.parts import installed_parts

OWNER = "ml-platform"
TAG = "lucid"
# One slot a device (`make up` and docker-compose.yml create it): two tasks never measure on the same GPU.
GPU_POOL = "gpu"

# Which workers run a DAG's tasks. Those of the queue `judge` alone hold the gate's login at MLflow and its
# key, those of `publish` the publisher's; all else runs on the default queue. LocalExecutor has no queues.
JUDGE_QUEUE, PUBLISH_QUEUE = "judge", "publish"

# Of a task that only looks up, asks, announces or moves an alias; of all others DEFAULT_ARGS says it.
STEP_TIMEOUT = timedelta(minutes=15)

# Bad input fails at once (see operators/base.py); what is tried again is a service that did not answer, a
# worker that died, a machine that restarted, and what was not done in time: much of it goes on where it was.
DEFAULT_ARGS: dict[str, Any] = {
    "owner": OWNER,
    "retries": 2,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=5),
    "execution_timeout": timedelta(hours=2),
}

APPROVAL_TIMEOUT = timedelta(days=7)


def every_dag(
    *tags: str, hours: float, approved: bool = False, most_runs: int = 1, queue: str | None = None
) -> dict[str, Any]:
    """What every DAG is made with; a run may take `hours`, and longer where a person must have approved.

    `queue`: the workers that run all of its tasks (None: those of Airflow's default queue).
    """
    longest = timedelta(hours=hours) + (APPROVAL_TIMEOUT if approved else timedelta())
    return {
        "max_active_runs": most_runs,
        "dagrun_timeout": longest,
        "default_args": DEFAULT_ARGS if queue is None else {**DEFAULT_ARGS, "queue": queue},
        "tags": [TAG, *tags],
    }


# Each of dags/; those that parts bring are in `dags/dags_of_parts.py`.
DAG_IDS = (
    *("ingest_logs", "profile_workloads", "retrain_models", "validate_release"),
    *("publish_release", "rollback_release", "renew_publications", "monitor_live"),
    *("evaluate_policies", "plan_capacity", "tune_system", "remove_cluster"),
    "apply_retention",
)


def dag_ids() -> tuple[str, ...]:
    """Return every DAG: errors that name one, or a command that does the same, lead to its form."""
    return (*DAG_IDS, *(dag.dag_id for part in installed_parts() for dag in part.dags))
