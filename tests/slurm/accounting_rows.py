"""What a row of Slurm's accounting means, by state: real rows, and what the reader makes of each.

    python -m tests.slurm.accounting_rows --write docs/accounting_rows.md    # some minutes

A private Slurm runs jobs into each state that it can be brought to without cgroups, power saving or a
federation, and `sacct --duplicates` tells of them. Instants are shown by what they equal, so that a second
run writes the same page.
"""

import argparse
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CalledProcessError

import pandas as pd

from cluster_logs.ingest import read_jobs_file
from cluster_logs.job_states import JobState
from cluster_logs.readers.base import EVERY_CLUSTER
from cluster_logs.slurm_words import SLURM_STATES
from experiments.pages import publish
from foundation.markdown import markdown_table
from tests.slurm.accounted_slurm import sbatch
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm, SlurmStartError, short_folder

COLUMNS = (
    "JobIDRaw", "JobID", "Partition", "JobName", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "AllocTRES", "ReqTRES", "NNodes", "NodeList",
)  # fmt: skip
NODES = (Node("n1", gpus=8), Node("n2", gpus=8), Node("n3"), Node("n4"), Node("n5"))
PARTITIONS = (
    Partition("main", ("n1", "n2"), options="PriorityTier=1 PreemptMode=OFF"),
    Partition("cut", ("n3",), options="PriorityTier=1 PreemptMode=CANCEL"),
    Partition("again", ("n4",), options="PriorityTier=1 PreemptMode=REQUEUE"),
    Partition("first", ("n3", "n4"), options="PriorityTier=10 PreemptMode=OFF"),
    Partition("down", ("n5",), options="PriorityTier=1 PreemptMode=OFF"),
)
SETTINGS = {
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "REQUEUE",
    "SchedulerParameters": "bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0",
}
GPU = "--gres=gpu:1"


@dataclass
class Stand:
    """Jobs by what has happened to them, in the order of the page."""

    slurm: PrivateSlurm
    what: dict[str, str] = field(default_factory=dict)  # job id -> what happened

    def submit(self, what: str, command: str, *options: str) -> str:
        """Submit a job of a GPU of which something is to be told."""
        job_id = sbatch(self.slurm, command, GPU, *options)
        self.what[job_id] = what
        return job_id

    def state_of(self, job_id: str) -> str:
        """What slurmctld says of it."""
        return self.slurm.run(
            "squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%T"
        ).strip()

    def await_state(self, job_id: str, *states: str, times: int = 1) -> None:
        """Wait until slurmctld says one of them, for so many times a usual wait."""
        for left in reversed(range(times)):
            try:
                self.slurm.wait_for(lambda: self.state_of(job_id) in states, f"job {job_id} is {states}")
                return
            except SlurmStartError:
                if not left:
                    raise

    def await_run(self, job_id: str) -> None:
        """Wait until a running job has run for some seconds."""

        def ran() -> bool:
            minutes, _, seconds = (
                self.slurm.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%M")
                .strip()
                .rpartition(":")
            )
            return bool(minutes) and 60 * int(minutes) + int(seconds) >= 2

        self.slurm.wait_for(ran, f"job {job_id} has run")

    def update(self, job_id: str, *changes: str) -> None:
        """Change a job."""
        self.slurm.run("scontrol", "update", f"JobId={job_id}", *changes)


def run_jobs(stand: Stand) -> None:
    """Bring a job into each state; those that end by a clock are submitted first."""
    slurm = stand.slurm
    limited = stand.submit("reached its limit", "sleep 600", "--time=1")
    runs = stand.submit("ran to its end", "sleep 2")
    stand.submit("failed after a while", "sleep 2; exit 1")
    stand.submit("failed at once", "exit 1")
    stand.submit("waits for its time", "true", "--begin=now+1hour")
    stand.submit("waits, held by its user", "true", "--hold")
    withdrawn = [
        stand.submit("cancelled while it waited", "true", "--hold"),
        stand.submit("an array, cancelled while it waited", "true", "--hold", "--array=1-2"),
    ]
    with suppress(CalledProcessError):
        sbatch(slurm, "true", "--gres=gpu:9")
    stand.what[str(int(max(stand.what, key=int)) + 1)] = "refused by sbatch: no node is large enough"
    going = {
        what: stand.submit(what, "sleep 600", *options)
        for what, options in {
            "runs": (),
            "suspended": (),
            "cancelled while it ran": (),
            "requeued, and waits again": (),
            "requeued and held": (),
            "requeued as a special exit": (),
            "requeued, and ran again": (),
            "its node failed": ("-p", "down", "--no-requeue"),
            "preempted, and cancelled": ("-p", "cut"),
            "preempted, and requeued": ("-p", "again"),
            "gave a node back, and runs": ("--nodes=2",),
            "gave a node back, and was cancelled": ("--nodes=2",),
        }.items()
    }
    for job_id in going.values():
        stand.await_state(job_id, "RUNNING")
    late = stand.submit(
        "its deadline passed while it waited",
        "true",
        "--time=1",
        "--deadline=now+70seconds",
        "-w",
        "n1",
        "--gres=gpu:8",
    )
    stand.await_run(going["gave a node back, and was cancelled"])
    slurm.run("scontrol", "suspend", going["suspended"])
    slurm.run("scancel", going["cancelled while it ran"], *withdrawn)
    again, waits = going["requeued, and ran again"], going["requeued, and waits again"]
    slurm.run("scontrol", "requeue", f"{again},{waits}")
    slurm.run("scontrol", "requeuehold", going["requeued and held"])
    slurm.run("scontrol", "requeuehold", "State=SpecialExit", going["requeued as a special exit"])
    slurm.run("scontrol", "update", "NodeName=n5", "State=DOWN", "Reason=test")
    for name in ("n3", "n4"):
        sbatch(slurm, "sleep 600", "--gres=gpu:4", "-p", "first", "-w", name)
    stand.await_state(again, "PENDING")
    stand.await_state(waits, "PENDING")
    stand.update(waits, "StartTime=now+1hour")
    stand.update(again, "StartTime=now")
    resized = going["gave a node back, and was cancelled"]
    for job_id in (resized, going["gave a node back, and runs"]):
        stand.update(job_id, "NumNodes=1")
    stand.await_state(again, "RUNNING")
    stand.await_run(again)
    slurm.run("scancel", again, resized)
    stand.await_state(going["preempted, and cancelled"], "PREEMPTED")
    stand.await_state(going["preempted, and requeued"], "PENDING")
    stand.await_state(runs, "COMPLETED")
    stand.await_state(limited, "TIMEOUT", times=4)
    stand.await_state(late, "DEADLINE", times=4)


def accounted(stand: Stand) -> list[str]:
    """Return sacct's rows of the jobs, once it tells of all, the header first."""
    options = ("--allusers", "--allocations", "--duplicates", "--parsable2", "--noconvert")
    asked = (f"--jobs={','.join(stand.what)}", f"--format={','.join(COLUMNS)}")

    def rows() -> list[str]:
        return stand.slurm.run("sacct", *options, *asked).splitlines()

    stand.slurm.wait_for(lambda: all(row.split("|")[2] for row in rows()), "accounting knows the partitions")
    return rows()


def table(stand: Stand, told: list[str], folder: Path) -> str:
    """Return what a row of each situation says, and what is read of it; the header of `told` comes first."""
    log = folder / "sacct.txt"
    header, *rows = told
    log.write_text("\n".join([header, *rows, ""]))
    jobs, report = read_jobs_file(str(log), "sacct", cluster=EVERY_CLUSTER)
    assert report.rows_quarantined == 0, report.reasons
    read = {int(job["source_row"]): job for _, job in jobs.iterrows()}
    return markdown_table(
        (
            "what happened",
            "State",
            "Start",
            "End",
            "Elapsed",
            "AllocTRES",
            "NodeList",
            "state read",
            "start",
            "end",
            "run time",
            "GPUs",
        ),
        list(_lines(stand, rows, read)),
        align_numbers=False,
    )


def others(told: list[str]) -> str:
    """Return the words for states that no row of `told` has, and how they are read."""
    shown = {row.split("|")[COLUMNS.index("State")].split()[0] for row in told}
    words = (f"{word} as {state}" for word, state in sorted(SLURM_STATES.items()) if word not in shown)
    return f"Other words are read, too: {', '.join(words)}."


def _lines(stand: Stand, rows: list[str], read: dict[int, "pd.Series"]) -> Iterator[tuple[str, ...]]:
    said = [dict(zip(COLUMNS, row.split("|"), strict=True)) for row in rows]
    in_order = {job_id: at for at, job_id in enumerate(stand.what)}
    places = sorted(range(len(said)), key=lambda at: (in_order[said[at]["JobIDRaw"]], at))
    before = ""
    for at in places:
        row = said[at]
        what = stand.what[row["JobIDRaw"]] if row["JobIDRaw"] != before else ""
        before = row["JobIDRaw"]
        yield (
            what,
            row["State"].partition(" by ")[0],
            _instant(row["Start"], row, ("Submit", "End")),
            _instant(row["End"], row, ("Submit",)),
            "0" if row["ElapsedRaw"] == "0" else "> 0",
            "given" if row["AllocTRES"] else "empty",
            "named" if row["NodeList"] != "None assigned" else row["NodeList"],
            *_as_read(read.get(at + 1)),
        )


def _instant(said: str, row: dict[str, str], others: tuple[str, ...]) -> str:
    """Show an instant by what it equals: two runs of this command write the same."""
    if not said[:1].isdigit():
        return said
    if row["ElapsedRaw"] != "0" or row["AllocTRES"]:
        return "an instant"
    equal = [name for name in others if row[name] == said]
    return f"an instant, as {' and '.join(equal)}" if equal else "an instant"


def _as_read(job: "pd.Series | None") -> tuple[str, ...]:
    if job is None:
        return ("no job of its own", "", "", "", "")
    known = ("yes" if pd.notna(job[name]) else "none" for name in ("start_time", "end_time", "duration_s"))
    return (str(JobState(job["state"])), *known, str(job["gpus"]))


def main() -> None:
    """Write the table into a page, or print it."""
    parser = argparse.ArgumentParser(prog="python -m tests.slurm.accounting_rows", description=__doc__)
    parser.add_argument("--write", type=Path, help="the page to write the table into")
    page = parser.parse_args().write
    folder = short_folder()
    try:
        with PrivateSlurm(folder, NODES, PARTITIONS, accounting=True, settings=SETTINGS) as slurm:
            stand = Stand(slurm)
            run_jobs(stand)
            version = f"Slurm {slurm.run('sacct', '--version').split()[-1]}."
            rows = accounted(stand)
            publish({"accounting rows": f"{version}\n\n{table(stand, rows, folder)}\n\n{others(rows)}"}, page)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
