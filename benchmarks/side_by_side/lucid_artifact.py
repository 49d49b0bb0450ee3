"""The simulator of Lucid's artifact, as its authors wrote it, on the jobs that ours replayed.

    LUCID_ARTIFACT=.../simulation LUCID_ARTIFACT_PYTHON=python

Its trace is a CSV in the columns of its own data; what it does not ask of these policies (what a job runs) is
filled in. It works in a copy of its folder, since it writes where it stands.
"""

import csv
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.side_by_side.figures import Figure
from benchmarks.side_by_side.measured import run

POLICIES = ("fifo", "sjf")
NODES = 48
LIMIT_S = 900.0
FIRST = datetime(2017, 10, 1, tzinfo=UTC)
COLUMNS = (
    *("user", "vc", "job_id", "gpu_num", "state", "submit_time", "duration"),
    *("dataset", "model", "batchsize", "amp", "speed", "gpu_util", "gmem_util", "gmem"),
)
UNASKED = ("CIFAR-10", "VGG", 128, 0, 1.0, 50.0, 20.0, 2_000)


def replay_in_artifact(simulation: str, kind: str, name: str, jobs: Path, folder: Path) -> Figure | None:
    """Return what its replay took, reading included; None for what it cannot be asked."""
    if kind != "week1vc48" or name not in POLICIES:
        return None
    copy = folder / "simulation"
    shutil.copytree(simulation, copy, ignore=shutil.ignore_patterns("log", "Venus"))
    trace = folder / "trace"
    trace.mkdir()
    (trace / "vc_config.csv").write_text(f",num\nphilly,{NODES}\n")
    with jobs.open(encoding="utf-8", newline="") as source:
        rows = list(csv.DictReader(source))
    with (trace / "cluster_full_log.csv").open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(COLUMNS)
        for row in rows:
            submitted = f"{FIRST + timedelta(seconds=float(row['submit_time_s'])):%Y-%m-%d %H:%M:%S}"
            known = (
                "u",
                "philly",
                row["job_id"],
                row["gpus"],
                "Pass",
                submitted,
                int(float(row["duration_s"])),
            )
            writer.writerow([*known, *UNASKED])
    with (copy / "estimator" / "lgb" / "Philly_lgb.csv").open("w", encoding="utf-8") as asked:
        asked.write("job_id,priority\n")  # is read, whatever the policy
    python = os.environ.get("LUCID_ARTIFACT_PYTHON", sys.executable)
    words = ("-e", "Philly", "-t", trace, "-l", folder / "log", "-s", name, "-j", "1")
    done = run([python, "simulator.py", *words], folder=copy, environment={}, limit_s=LIMIT_S)
    with (folder / "log" / "Philly" / "all" / f"{name}_consolidate_all_log.csv").open(newline="") as table:
        starts = {row["job_id"]: float(row["start_time"]) for row in csv.DictReader(table)}
    return Figure(_version(simulation), done.cpu_s, done.peak_mib, len(starts), starts)


def _version(simulation: str) -> str:
    said = subprocess.run(
        ["git", "-C", simulation, "log", "-1", "--format=%h (%cs)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip()
