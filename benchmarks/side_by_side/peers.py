"""Programs of others beside ours on the same jobs; each is given by an environment variable, or left out.

    HPCOPT=path of its sim-runner    ACCASIM=Python that has it    POLARS=Python that has it
    LUCID_ARTIFACT=folder `simulation` of its repository (run by LUCID_ARTIFACT_PYTHON)

NAME_VERSION says what the table calls it where the program does not say it all (version and date).
"""

import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks.side_by_side.figures import Figure
from benchmarks.side_by_side.lucid_artifact import replay_in_artifact
from benchmarks.side_by_side.measured import CannotBeMeasuredError, run
from benchmarks.side_by_side.trees import HERE

LIMIT_S = 240.0
GPUS = {"week_pool": 384, "nasa": 128, "atlas": 9_216}
Jobs = list[dict[str, str]]


@dataclass(frozen=True)
class Asked:
    """A task for a peer: the jobs that ours replayed, with ours' starts, or a log; where to work, and whether
    it may take minutes."""

    kind: str
    name: str
    file: Path
    folder: Path
    long: bool = False


@dataclass(frozen=True)
class Peer:
    """A program of others. `measure` returns None for a task that is not its own."""

    variable: str
    name: str
    measure: Callable[[str, Asked], Figure | None]


def measured_peers(asked: Asked, environment: Mapping[str, str] = os.environ) -> list[Figure]:
    """Return the figures of all peers that are given and have the task; one that fails says so."""
    found = []
    for peer in PEERS:
        program = environment.get(peer.variable)
        if not program:
            continue
        folder = asked.folder / peer.variable.lower()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            figure = peer.measure(program, replace(asked, folder=folder))
        except CannotBeMeasuredError as error:
            print(f"{peer.name} on {asked.kind} {asked.name}: {error}", file=sys.stderr)
            continue
        if figure is not None:
            version = environment.get(f"{peer.variable}_VERSION", figure.program)
            found.append(replace(figure, program=f"{peer.name} {version}"))
    return found


def jobs_of(file: Path) -> Jobs:
    """Read the jobs of `replays.py`, in the order of their submission."""
    with file.open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def _hpcopt(program: str, asked: Asked) -> Figure | None:
    """Its compiled engine, which knows no nodes and tells means of waits, no starts; without its start."""
    policies = {"fifo": "FIFO_STRICT", "easy": "EASY_BACKFILL_BASELINE"}
    if asked.kind not in GPUS or asked.name not in policies:
        return None
    jobs = jobs_of(asked.file)
    documents = [
        {
            "job_id": i,
            "submit_ts": int(float(job["submit_time_s"])),
            "runtime_actual_sec": int(float(job["duration_s"])),
            "requested_cpus": int(job["gpus"]),
        }
        for i, job in enumerate(jobs)
    ]
    all_jobs, one_job, report = (asked.folder / name for name in ("jobs.json", "job.json", "report.json"))
    all_jobs.write_text(json.dumps(documents))
    one_job.write_text(json.dumps(documents[:1]))
    words = ("--policy", policies[asked.name], "--capacity-cpus", str(GPUS[asked.kind]), "--output", report)

    def least(file: Path) -> tuple[float, float]:
        runs = [
            run([program, "--input", file, *words], folder=asked.folder, environment={}) for _ in range(5)
        ]
        return min(each.cpu_s for each in runs), runs[0].peak_mib

    start_s, _ = least(one_job)
    taken_s, peak_mib = least(all_jobs)
    theirs = json.loads(report.read_text())["metrics"]["mean_wait_sec"]
    ours = fmean(float(job["first_start_time_s"]) - float(job["submit_time_s"]) for job in jobs)
    said = "mean wait as ours" if abs(theirs - ours) < 0.5 else f"mean wait {theirs:,.0f} s, ours {ours:,.0f}"
    version = run([program, "--version"], folder=asked.folder, environment={}).out.split()[-1]
    return Figure(version, max(taken_s - start_s, 1e-4), peak_mib, len(jobs), None, said)


def _accasim(program: str, asked: Asked) -> Figure | None:
    """Its simulation, on one node that has all processors; it writes beside its script."""
    if asked.kind not in GPUS or not (asked.long or asked.kind == "nasa"):
        return None
    script = shutil.copy(HERE / "accasim_replay.py", asked.folder)
    words = (asked.file, asked.name, str(GPUS[asked.kind]), asked.folder)
    done = run([program, script, *words], folder=asked.folder, environment={}, limit_s=LIMIT_S)
    said = json.loads(done.out.strip().splitlines()[-1])
    return Figure(said["version"], said["cpu_s"], done.peak_mib, len(said["starts"]), said["starts"])


def _polars(program: str, asked: Asked) -> Figure | None:
    """It reads the file: no checks, no lake."""
    if asked.kind != "ingest":
        return None
    words = (HERE / "polars_read.py", asked.file, asked.name)
    done = [
        json.loads(run([program, *words], folder=asked.folder, environment={}).out.strip()) for _ in range(3)
    ]
    best = min(done, key=lambda each: each["cpu_s"])
    return Figure(best["version"], best["cpu_s"], None, best["rows"], None, "reads only")


def _lucid_artifact(program: str, asked: Asked) -> Figure | None:
    if not asked.long:
        return None
    return replay_in_artifact(program, asked.kind, asked.name, asked.file, asked.folder)


PEERS = (
    Peer("HPCOPT", "HPCOpt", _hpcopt),
    Peer("ACCASIM", "AccaSim", _accasim),
    Peer("LUCID_ARTIFACT", "Lucid artifact", _lucid_artifact),
    Peer("POLARS", "polars", _polars),
)
