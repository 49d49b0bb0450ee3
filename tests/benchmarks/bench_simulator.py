"""Jobs per CPU second of each policy; the reference week of Philly when it is there, else a synthetic one.

The ratio is to FIFO, measured side by side in one run.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from cluster_logs.ingest import read_jobs_file
from simulator.cluster import ClusterSpec
from simulator.colocation import UtilisationModel
from simulator.conformance import sample_workload
from simulator.engine import simulate
from simulator.policies.registry import policy_names
from simulator.workload import Workload


def main() -> None:
    """Print one line a policy."""
    data = os.environ.get("LUCID_REFERENCE_DATA")
    if data:
        jobs = Path(data) / "reference" / "lucid" / "week1vc48_jobs.csv.gz"
        workload = Workload.from_jobs(read_jobs_file(str(jobs), "reference-csv")[0])
        cases = [("week1vc48", workload, ClusterSpec({"philly": 48}, 8))]
    else:
        cases = []
    cases.append(("synthetic", *sample_workload("loaded", seed=1, jobs=10_000)))
    for name, workload, cluster in cases:
        base = 0.0
        for policy in policy_names():
            summary = min(
                (
                    simulate(workload, cluster, policy, colocation=UtilisationModel()).summary
                    for _ in range(3)
                ),
                key=lambda found: found["cpu_s"],
            )
            speed = summary["jobs_per_cpu_s"]
            base = base or speed
            print(
                f"{name:10} {policy:10} {len(workload):7,} jobs  {speed:10,.0f} jobs/CPU s  "
                f"{speed / base:5.2f} of fifo  {summary['decisions']:7,} decisions"
            )


if __name__ == "__main__":
    main()
