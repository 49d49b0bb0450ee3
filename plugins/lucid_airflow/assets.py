"""What the DAGs hand to each other: Airflow's asset graph is the architecture.

An asset's URI names the thing, not its place: the place (lake URI, version) travels in the event's `extra`,
see `handover.py`.
"""

from airflow.sdk import Asset

JOB_TABLE = Asset(name="job_table", uri="lucid://lake/jobs", group="cluster_logs")
THROUGHPUT_TABLE = Asset(name="throughput_table", uri="lucid://lake/throughput", group="cluster_logs")
PROFILE_TABLE = Asset(name="profile_table", uri="lucid://lake/profiles", group="profiler_jobs")
PROFILE_MEASUREMENTS = Asset(
    name="profile_measurements", uri="lucid://lake/measurements", group="profiler_jobs"
)
RETRAINING_REQUEST = Asset(name="retraining_request", uri="lucid://releases/retraining", group="releases")
PACKING_MODEL = Asset(name="packing_model", uri="lucid://models/packing", group="lucid_models")
THROUGHPUT_MODEL = Asset(name="throughput_model", uri="lucid://models/throughput", group="lucid_models")
DURATION_MODEL = Asset(name="duration_model", uri="lucid://models/duration", group="lucid_models")
RELEASE_CHALLENGER = Asset(name="release_challenger", uri="lucid://releases/challenger", group="releases")
RELEASE_VERDICT = Asset(name="release_verdict", uri="lucid://releases/verdict", group="releases")
RELEASE_CHAMPION = Asset(name="release_champion", uri="lucid://releases/champion", group="releases")


def model_asset(kind: str) -> Asset:
    """Return what is announced of a kind of model that a part brings."""
    return Asset(name=f"{kind}_model", uri=f"lucid://models/{kind}", group="lucid_models")
