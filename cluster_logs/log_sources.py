"""Where a cluster's log may come from: files of a known format, a live Slurm, or a generator.

Light to import: the form of `ingest_logs` lists the sources when its DAG is parsed.
"""

from cluster_logs.readers.registry import CLUSTER_LOGS, OTHER_LOGS
from cluster_logs.synthetic.cluster_profiles import PROFILES

SLURM = "slurm"
SYNTHETIC = "synthetic:"


def log_sources() -> list[str]:
    """The formats of cluster logs, then `slurm`, then `synthetic:LIKE` for each cluster to imitate, then the
    other formats that hold jobs.
    """
    return [*CLUSTER_LOGS, SLURM, *(f"{SYNTHETIC}{like}" for like in PROFILES), *OTHER_LOGS]
