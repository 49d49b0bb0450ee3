"""How long a pass over a real Slurm takes: reading, deciding, changing; beside Slurm's own programs alone.

    python benchmarks/bench_slurm_pass.py [--jobs N] [--passes N] [--policy NAME] [--json FILE]

Starts a private Slurm without accounting (Debian's packages), fills its nodes and submits N jobs that wait.
"alone" is Slurm's program with its output thrown away; "ours" is the processor time of this process,
"programs" that of Slurm's programs which it ran, so that neither grows with other work on the machine. A
first pass takes the release over and gives every job a place; before each later one a job is submitted, and
another cancelled. The limit is about all processor time of a pass, scontrol's included; "besides scontrol" is
what is left of its wall time.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from bench_live_decision import TRAINING_JOBS
from bench_scoring import make_log

from live_scheduler.adapter import Change, Refusal, SetPriority
from live_scheduler.cluster_state import ClusterState
from live_scheduler.daemon import Daemon
from live_scheduler.live_settings import LiveSettings, Mode
from live_scheduler.release import ClientStatus, LiveRelease
from live_scheduler.slurm import queue_reading
from live_scheduler.slurm.adapter import SlurmAdapter
from live_scheduler.slurm.commands import call
from live_scheduler.slurm.control import PRIORITIES
from lucid_models.boosting import BoostingSettings
from lucid_models.duration.model import WorkloadEstimateModel
from lucid_models.model_format import save_model
from lucid_models.packing.model import PackingAnalyzeModel
from lucid_models.throughput.model import ThroughputPredictModel, ThroughputSettings
from lucid_models.throughput.scorer import SERIES, ThroughputForecasts
from tests.fixtures import small_profiles, small_throughput
from tests.live_scheduler.live_release import keep_release
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, short_folder

LIMIT_S = 1.0  # a pass over 2,000 waiting jobs, besides scontrol itself
VIRTUAL_CLUSTERS, NAMES = 4, 97


@dataclass
class Row:
    """A line of the table, in milliseconds."""

    what: str
    wall_ms: float
    ours_ms: float
    programs_ms: float


class Releases:
    """A source of one release, with small models on made-up logs."""

    def __init__(self, folder: Path) -> None:
        fast = BoostingSettings(bags=2, max_rounds=40, max_bins=32)
        documents = {
            "packing": PackingAnalyzeModel().fit(*small_profiles()).to_data(),
            "throughput": ThroughputForecasts(
                {
                    series: ThroughputPredictModel(ThroughputSettings(boosting=fast))
                    .fit(small_throughput(), series)
                    .scorer
                    for series in SERIES
                }
            ).to_data(),
            "duration": WorkloadEstimateModel().fit(make_log(TRAINING_JOBS)).to_data(),
        }
        for kind, document in documents.items():
            save_model(document, folder / f"{kind}.json")
        self.current = keep_release(folder, {kind: [folder / f"{kind}.json"] for kind in documents})

    def poll(self) -> LiveRelease:
        """Return the release, which stays."""
        return self.current

    def status(self) -> ClientStatus:
        """Return that all is well."""
        return ClientStatus(
            "champion",
            "following",
            "bench",
            1,
            None,
            None,
            None,
            None,
            refused_version=None,
            refused_reason=None,
        )


class Watched(SlurmAdapter):
    """The adapter, with what a pass spends in reading and changing."""

    read_s = apply_s = 0.0
    changes = 0

    def read(self) -> ClusterState:
        began = time.perf_counter()
        try:
            return super().read()
        finally:
            self.read_s = time.perf_counter() - began

    def apply(self, changes: Any) -> list[Refusal]:
        began = time.perf_counter()
        try:
            return super().apply(changes)
        finally:
            self.apply_s, self.changes = time.perf_counter() - began, len(changes)


def timed(what: str, act: Callable[[], Any], rows: list[Row]) -> Any:
    """Do something, add its times to the table, and return what came of it."""
    before = time.perf_counter(), time.process_time(), children_s()
    found = act()
    after = time.perf_counter(), time.process_time(), children_s()
    rows.append(Row(what, *(1e3 * (end - start) for start, end in zip(before, after, strict=True))))
    return found


def children_s() -> float:
    """Return the processor time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def submit(slurm: PrivateSlurm, number: int, *options: str) -> str:
    words = [
        f"--partition=vc{number % VIRTUAL_CLUSTERS}",
        f"--job-name=train_{number % NAMES}",
        "--gres=gpu:1",
    ]
    words = [*words, f"--time={10 + number % 50}", *options]
    script = "#!/bin/sh\nexec sleep 3600\n"
    return slurm.run("sbatch", "--parsable", "--output=/dev/null", *words, input_text=script).strip()


def measure(
    slurm: PrivateSlurm, jobs: int, passes: int, policy: str, folder: Path
) -> tuple[list[Row], float]:
    """Return the table, and the longest pass besides scontrol in seconds."""
    for vc in range(VIRTUAL_CLUSTERS):
        submit(slurm, vc, "--gres=gpu:4")
    adapter = Watched()
    slurm.wait_for(lambda: all(not job.waiting for job in adapter.read().jobs), "the nodes are full")
    ids = [submit(slurm, number) for number in range(jobs)]

    rows: list[Row] = []
    squeue = timed(
        "squeue alone", lambda: call(queue_reading.SQUEUE, settings=queue_reading.PLAIN_TIMES), rows
    )
    timed(
        "its answer parsed",
        lambda: queue_reading.QueueReader().parse(queue_reading.records_of(squeue), {}),
        rows,
    )
    timed("a reading", adapter.read, rows)
    timed("a reading again", adapter.read, rows)
    lines = "".join(f"update JobId={job} Priority={PRIORITIES.least + at}\n" for at, job in enumerate(ids))
    changes: list[Change] = [SetPriority(job, PRIORITIES.most - at) for at, job in enumerate(ids)]
    scontrol = ["scontrol"]
    environment = slurm.environment()
    timed(
        f"scontrol alone, {jobs} changes",
        lambda: subprocess.run(
            scontrol, input=lines.encode(), env=environment, capture_output=True, check=False
        ),
        rows,
    )
    refused = timed(f"{jobs} changes by us", lambda: adapter.apply(changes), rows)
    if refused:
        raise SystemExit(f"{len(refused)} changes were refused: {refused[0]}")

    settings = LiveSettings("bench", mode=Mode.CONTROL, policy=policy, changes_per_pass=jobs + passes)
    daemon = Daemon(adapter, cast("Any", Releases(folder)), settings, folder)
    longest_s = 0.0
    for number in range(passes + 1):
        if number:
            submit(slurm, jobs + number)
            slurm.run("scancel", ids[-number])
        adapter.apply_s, adapter.changes = 0.0, 0
        view = timed("pass", daemon.pass_once, rows)
        if view.problem:
            raise SystemExit(view.problem)
        besides_ms = rows[-1].wall_ms - 1e3 * adapter.apply_s
        longest_s = max(longest_s, (rows[-1].ours_ms + rows[-1].programs_ms) / 1e3)
        rows[-1].what = (
            f"{'pass' if number else 'first pass'}: read {1e3 * adapter.read_s:.0f}, "
            f"{adapter.changes} changes {1e3 * adapter.apply_s:.0f}; besides scontrol {besides_ms:.0f}"
        )
    return rows, longest_s


def main() -> int:
    """Print the table; exit code 1 when a pass takes longer than the limit."""
    parser = argparse.ArgumentParser(description="How long a pass over a real Slurm takes.")
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--policy", default="lucid")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    slurm = PrivateSlurm(
        short_folder(),
        nodes=[Node(f"n{vc}") for vc in range(VIRTUAL_CLUSTERS)],
        partitions=[Partition(f"vc{vc}", (f"n{vc}",)) for vc in range(VIRTUAL_CLUSTERS)],
    )
    with slurm, tempfile.TemporaryDirectory() as folder:
        os.environ |= {key: slurm.environment()[key] for key in ("SLURM_CONF", "PATH")}
        rows, longest_s = measure(slurm, options.jobs, options.passes, options.policy, Path(folder))
    print(f"{'wall ms':>9} {'ours':>7} {'programs':>9}  {options.jobs} waiting jobs, {options.policy}")
    for row in rows:
        print(f"{row.wall_ms:>9.1f} {row.ours_ms:>7.1f} {row.programs_ms:>9.1f}  {row.what}")
    late = longest_s > LIMIT_S
    print(f"longest pass {1e3 * longest_s:.0f} ms of processor time{': over the limit' if late else ''}")
    if options.json:
        found = {"jobs": options.jobs, "policy": options.policy, "longest_pass_cpu_s": longest_s}
        options.json.write_text(json.dumps({**found, "rows": [asdict(row) for row in rows]}, indent=2))
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
