"""Streams of jobs with users, accounts, QOS and limits through a private Slurm.

    python -m tests.slurm.stream_recording fair_share --seed 1 --jobs 500 --out FOLDER

Needs root, as jobs are submitted as other users of this machine. FOLDER gets jobs.csv and cycles.csv
(`experiments.policies.site_streams` reads them), and slurmctld's configuration and log.
"""

import argparse
import csv
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random

from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, short_folder

# Users that Debian's base system has; jobs run as them.
USERS = ("games", "man", "lp", "mail", "news", "uucp", "proxy", "backup", "list")
NODES = 6
GPUS = 8
WEIGHTS = "TRESBillingWeights=CPU=0.0,GRES/gpu=1.0"


@dataclass(frozen=True)
class StreamJob:
    """One job of a stream: what is asked for, and for how long it runs (s)."""

    at_s: float
    user: str
    account: str
    qos: str
    gpus: int
    limit_min: int
    run_s: int


@dataclass(frozen=True)
class Stream:
    """A configuration: accounts (name, parent, shares), users (name, account, shares), QOS by options."""

    settings: dict[str, str]
    accounts: Sequence[tuple[str, str, int]] = ()
    users: Sequence[tuple[str, str, int]] = ()
    qos: dict[str, str] = field(default_factory=dict)
    qos_weights: dict[str, float] = field(default_factory=dict)
    load: float = 1.25


SCHEDULER = (
    "bf_interval=30,sched_interval=30,default_queue_depth=500,bf_max_job_test=500,batch_sched_delay=10,defer"
)
COMMON = {
    "SchedulerParameters": SCHEDULER,
    "MinJobAge": "100000",
    "SlurmctldDebug": "debug",
    "DebugFlags": "Backfill,Priority",
    "DefMemPerCPU": "1",
}
ACCOUNTED = {"AccountingStorageEnforce": "associations,limits,qos"}
MULTI = {
    "PriorityType": "priority/multifactor",
    "PriorityCalcPeriod": "1",
    "PriorityMaxAge": "0-02:00:00",
}
TREE = (
    ("physics", "root", 60),
    ("biology", "root", 29),
    ("quantum", "physics", 23),
    ("optics", "physics", 11),
)
MEMBERS = (
    ("games", "quantum", 10),
    ("man", "quantum", 31),
    ("lp", "optics", 11),
    ("mail", "optics", 10),
    ("news", "biology", 9),
    ("uucp", "biology", 21),
    ("proxy", "biology", 10),
)
STREAMS = {
    "fifo": Stream(COMMON, (), tuple((name, "", 1) for name in USERS[:7])),
    "fair_share": Stream(
        COMMON
        | ACCOUNTED
        | MULTI
        | {
            "PriorityDecayHalfLife": "0-00:20:00",
            "PriorityWeightFairshare": "100000",
            "PriorityWeightAge": "20000",
            "PriorityWeightJobSize": "5000",
            "PriorityWeightQOS": "10000",
        },
        TREE,
        MEMBERS,
        {"normal": "MaxJobsPU=6", "quick": "Priority=10,MaxWall=00:03:00,MaxTRESPU=gres/gpu=8"},
        {"normal": 0.8, "quick": 0.2},
    ),
    "preemption": Stream(
        COMMON
        | ACCOUNTED
        | MULTI
        | {
            "PreemptType": "preempt/qos",
            "PreemptMode": "REQUEUE",
            "PriorityWeightAge": "1000",
            "PriorityWeightQOS": "100000",
        },
        TREE,
        MEMBERS,
        {
            "low": "Priority=1,PreemptMode=requeue",
            "normal": "Priority=10,GrpTRES=gres/gpu=40",
            "high": "Priority=100,Preempt=low,MaxTRESPU=gres/gpu=24",
        },
        {"low": 0.5, "normal": 0.25, "high": 0.25},
        1.15,
    ),
}


def make_jobs(stream: Stream, count: int, seed: int, *, mean_s: float = 45.0) -> list[StreamJob]:
    """Draw a stream: Poisson arrivals, heavy-tailed run times, limits in whole minutes above them."""
    rng = Random(seed)
    sizes = {1: 0.45, 2: 0.2, 4: 0.17, 8: 0.12, 16: 0.05, 32: 0.01}
    mean_gpus = sum(size * share for size, share in sizes.items())
    gap_s = mean_s * mean_gpus / (NODES * GPUS) / stream.load
    users = [(name, account) for name, account, _ in stream.users]
    weights = [1.0 / (1 + rank) ** 0.7 for rank in range(len(users))]
    jobs, now_s = [], 0.0
    for _ in range(count):
        now_s += rng.expovariate(1.0 / gap_s)
        user, account = rng.choices(users, weights)[0]
        gpus = rng.choices(list(sizes), list(sizes.values()))[0]
        run_s = 3 + 10 * min(60, round(rng.lognormvariate(0.0, 0.9) * mean_s / 15))
        names = list(stream.qos_weights)
        qos = rng.choices(names, list(stream.qos_weights.values()))[0] if names else ""
        limit_min = -(-int(run_s * rng.choice((1.05, 1.3, 2.0, 4.0)) + 5) // 60)
        if qos == "quick":
            limit_min, run_s = min(3, limit_min), min(163, run_s)
        if qos == "quick":
            gpus = min(gpus, 8)
        if qos in ("normal", "high"):
            gpus = min(gpus, 16)
        jobs.append(StreamJob(now_s // 10 * 10, user, account, qos, gpus, limit_min, run_s))
    return jobs


def record(stream: Stream, jobs: Sequence[StreamJob], out: Path) -> None:
    """Submit the jobs to a private Slurm, each when its time has come, and write down what became of them."""
    out.mkdir(parents=True, exist_ok=True)
    folder = short_folder()
    folder.chmod(0o755)  # the jobs of others find their scripts below it
    names = [f"n{number}" for number in range(1, NODES + 1)]
    slurm = PrivateSlurm(
        folder,
        nodes=[Node(name, gpus=GPUS) for name in names],
        partitions=[Partition("main", names, options=WEIGHTS if stream.accounts else "")],
        accounting=bool(stream.accounts),
        settings=stream.settings | {"SlurmctldLogFile": str(folder / "log" / "events.log")},
    )
    try:
        with slurm:
            declare(slurm, stream)
            ids = submit_all(slurm, jobs, folder / "log" / "events.log")
            while slurm.run("squeue", "--noheader"):
                time.sleep(20)
            for name in ("qos", "assoc"):
                if stream.accounts:
                    told = slurm.run("sacctmgr", "--parsable2", "show", name)
                    (out / f"{name}.txt").write_text(told)
        shutil.copy(slurm.conf, out / "slurm.conf")
        shutil.copy(folder / "log" / "events.log", out / "slurmctld.log")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write_recording(out, dict(zip(map(int, ids), jobs, strict=True)))


def write_recording(out: Path, asked: dict[int, StreamJob]) -> None:
    """Write jobs.csv and cycles.csv by slurmctld's log; second 0 is a full minute before the first job."""
    events = list(_events((out / "slurmctld.log").read_text(errors="replace")))
    submits = {number: at_s for at_s, what, number in events if what == "submit"}
    zero = min(submits.values()) // 60 * 60 - 60
    starts: dict[int, list[float]] = {}
    ends: dict[int, float] = {}
    for at_s, what, number in events:
        if what == "start":
            starts.setdefault(number, []).append(at_s)
        elif what == "end":
            ends[number] = at_s
    with (out / "jobs.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(
            [
                "job",
                "user",
                "account",
                "qos",
                "gpus",
                "time_limit_s",
                "submit_s",
                "run_s",
                "start_s",
                "preemptions",
            ]
        )
        for number, at_s in sorted(submits.items()):
            job, begun = asked[number], starts[number]
            times = (at_s - zero, ends[number] - begun[-1], begun[0] - zero)
            rows.writerow(
                [number, job.user, job.account, job.qos, job.gpus, 60 * job.limit_min]
                + [f"{seconds:.3f}" for seconds in times]
                + [len(begun) - 1]
            )
    first = min(at_s for at_s, what, _ in events if what == "backfill")
    cycles = [(at_s, what) for at_s, what, _ in events if what in ("main", "backfill")]
    cycles += [(at_s, what) for at_s, what, _ in events if what == "priorities" and at_s > first][:1]
    with (out / "cycles.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["what", "at_s"])
        rows.writerows([what, f"{at_s - zero:.3f}"] for at_s, what in sorted(cycles))


_KINDS = {
    "submit": re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+)"),
    "start": re.compile(r"sched: Allocate JobId=(\d+) |sched/backfill: _start_job: Started JobId=(\d+) "),
    "end": re.compile(r"_job_complete: JobId=(\d+) done"),
    "backfill": re.compile(r"sched/backfill: _attempt_backfill: beginning"),
    "main": re.compile(r"debug: +sched: Running job scheduler"),
    "priorities": re.compile(r".*Decay factor over"),
}


def _events(log: str) -> Iterator[tuple[float, str, int]]:
    """Yield what a log of slurmctld tells: when (s), what, and which job (0: none)."""
    for stamp, text in re.findall(r"^\[([^\]]+)\] (.*)", log, re.MULTILINE):
        for kind, pattern in _KINDS.items():
            if found := pattern.match(text):
                number = next((int(group) for group in found.groups() if group), 0)
                yield datetime.fromisoformat(stamp).timestamp(), kind, number


def declare(slurm: PrivateSlurm, stream: Stream) -> None:
    """Make the accounts, QOS and users of a stream."""

    def manage(*words: str) -> None:
        slurm.run("sacctmgr", "--immediate", *words)

    for name in stream.qos:
        if name != "normal":
            manage("add", "qos", name)
    for name, options in stream.qos.items():
        for option in filter(None, options.split(",")):
            manage("modify", "qos", name, "set", option)
    if not stream.accounts:
        return
    for name, parent, shares in stream.accounts:
        manage("add", "account", name, f"parent={parent}", f"fairshare={shares}")
    for name, account, shares in stream.users:
        qos = f"qos={','.join(stream.qos)}" if stream.qos else ""
        manage("add", "user", name, f"account={account}", f"fairshare={shares}", *([qos] if qos else []))
    time.sleep(2)  # slurmctld hears of it


def submit_all(slurm: PrivateSlurm, jobs: Sequence[StreamJob], log: Path) -> list[str]:
    """Submit each job when its time has come; return their ids."""
    # Slurm's cycles are counted from its start: jobs come and end between two of them, so that a second's
    # delay on a busy machine does not decide which sees them.
    slurm.wait_for(lambda: "_attempt_backfill: beginning" in log.read_text(), "the first backfill cycle")
    began = time.monotonic() + 6.0
    ids = []
    for job in jobs:
        time.sleep(max(0.0, began + job.at_s - time.monotonic()))
        nodes = -(-job.gpus // GPUS)
        ids.append(
            slurm.run(
                "sbatch",
                "--parsable",
                f"--uid={job.user}",
                *([f"--account={job.account}"] if job.account else []),
                *([f"--qos={job.qos}"] if job.qos else []),
                "--chdir=/tmp",
                "--output=/dev/null",
                f"--nodes={nodes}",
                f"--ntasks={nodes}",
                f"--gpus-per-node={min(job.gpus, GPUS)}",
                f"--time={job.limit_min}",
                f"--wrap=exec sleep {job.run_s}",
            ).strip()
        )
    return ids


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("stream", choices=sorted(STREAMS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    stream = STREAMS[chosen.stream]
    record(stream, make_jobs(stream, chosen.jobs, chosen.seed), chosen.out)


if __name__ == "__main__":
    main()
