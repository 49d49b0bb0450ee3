"""What watching a simulation costs: `LUCID_REFERENCE_DATA=... python benchmarks/bench_watching.py`.

CPU time a job on the loaded week of Philly (week1vc48), without a recorder and with each, best of three in
one process.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cluster_logs.ingest import read_jobs_file
from simulator.cluster.spec import ClusterSpec
from simulator.engine.simulation import Simulation
from simulator.policies.registry import load_policy
from simulator.recorder import Recorder
from simulator.recorders.timeline import TimelineRecorder, open_timeline
from simulator.recorders.usage import UsageRecorder
from simulator.recorders.waiting import WaitRecorder
from simulator.scenario.scenario import Scenario
from simulator.workload.workload import Workload

POLICIES = ("fifo", "sjf", "srtf", "tiresias", "lucid")
ROUNDS = 3


def main() -> int:
    """Print a table."""
    data = os.environ.get("LUCID_REFERENCE_DATA")
    if not data:
        print("LUCID_REFERENCE_DATA is not set.")
        return 1
    jobs = Path(data) / "reference" / "lucid" / "week1vc48_jobs.csv.gz"
    workload = Workload.from_jobs(read_jobs_file(str(jobs), "reference-csv")[0])
    cluster = ClusterSpec({job.virtual_cluster: 48 for job in workload.jobs})

    def microseconds(policy: str, recorder: Callable[[], Recorder | None]) -> float:
        taken = []
        for _ in range(ROUNDS):
            simulation = Simulation(Scenario(workload, cluster), load_policy(policy), recorder=recorder())
            began = time.process_time()
            simulation.run()
            taken.append(time.process_time() - began)
        return 1e6 * min(taken) / len(workload)

    with tempfile.TemporaryDirectory() as folder:
        recorders: dict[str, Callable[[], Recorder | None]] = {
            "--plot": UsageRecorder,
            "--waits": WaitRecorder,
            "--timeline": lambda: TimelineRecorder(open_timeline(Path(folder) / "timeline.json.gz")),
        }
        print("| policy | us a job | " + " | ".join(recorders) + " |")
        print("| --- |" + " ---: |" * (len(recorders) + 1))
        for policy in POLICIES:
            plain = microseconds(policy, lambda: None)
            more = (f"+{microseconds(policy, make) - plain:.0f}" for make in recorders.values())
            print(f"| {policy} | {plain:.0f} | " + " | ".join(more) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
