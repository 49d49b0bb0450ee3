"""A private Slurm with the live scheduler as its users run it, and what must hold whatever goes wrong there.

Every job appends a line to a file when it starts, so that what Slurm says can be held against what happened.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from foundation.process_lock import holder, is_held
from live_scheduler.memory.journal import JobEvent, JobEventKind, Journal
from live_scheduler.safety.dead_mans_switch import DAEMON_LOCK, WATCH_LOCK, WATCH_LOG
from live_scheduler.safety.heartbeat import HEARTBEAT_FILE, Moment, read_heartbeat
from live_scheduler.slurm.control import PRIORITIES
from tests.live_scheduler.live_release import AWAY, keep_release
from tests.slurm.private_slurm import PrivateSlurm

NAME = "small"  # whose releases the tests have
# Names whose run times differ in the releases of the tests, the longest first.
NAMES = [f"train_u{number}" for number in (5, 3, 0)]
# Read at the start of every Python process of the daemon's: faults that come and go with a file.
FAULTS = """
import math, os, pathlib, sys, time

folder = pathlib.Path(os.environ["LUCID_TEST_FAULTS"])
real_time = time.time


def set_time():
    try:
        return real_time() + float((folder / "clock").read_text() or 0)
    except (OSError, ValueError):
        return real_time()


time.time = set_time
if "lucid_cli.main" in sys.orig_argv and "slurm" in sys.orig_argv:
    from live_scheduler.memory.online_state import OnlineState

    estimates = OnlineState.estimates

    def bad(self, at_s):
        found = estimates(self, at_s)
        return found * math.nan if (folder / "nan").exists() else found

    OnlineState.estimates = bad
"""
# In the place of scontrol: kills the daemon, its parent, before the line with the number in the file `kill`,
# or before or after the words in the file `kill_at` (such as: before update PartitionName=a).
SCONTROL = """#!/bin/sh
if [ $# != 0 ] && [ -e "$LUCID_TEST_FAULTS/kill_at" ]; then
    read when words < "$LUCID_TEST_FAULTS/kill_at"
    case "$*" in
        "$words"*)
            rm "$LUCID_TEST_FAULTS/kill_at"
            [ $when = before ] || {real} "$@"
            kill -9 $PPID
            echo done > "$LUCID_TEST_FAULTS/killed"
            exit 1 ;;
    esac
fi
[ -e "$LUCID_TEST_FAULTS/kill" ] && [ $# = 0 ] || exec {real} "$@"
read at < "$LUCID_TEST_FAULTS/kill"
rm "$LUCID_TEST_FAULTS/kill"
parent=$PPID
{{
    n=0
    while IFS= read -r line; do
        case $line in
            update*|release*|requeue*) n=$((n + 1)) ;;
        esac
        if [ $n = "$at" ]; then
            sleep 0.1  # what was told before is on its way
            kill -9 $parent
            echo done > "$LUCID_TEST_FAULTS/killed"
            exit
        fi
        printf '%s\\n' "$line"
    done
    if [ "$at" = last ]; then
        kill -9 $parent
        echo done > "$LUCID_TEST_FAULTS/killed"
    fi
}} | {real}
"""
# A job: one short line, which the system appends whole.
SCRIPT = """#!/bin/sh
if [ -n "$SLURM_ARRAY_TASK_ID" ]; then
    echo "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" >> {starts}
else
    echo "$SLURM_JOB_ID" >> {starts}
fi
[ {seconds} = 0 ] || exec sleep {seconds}
"""


@dataclass
class LiveProcess:
    """A `lucid live slurm` that runs, or ran."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Told to end, it ends; its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=300)

    def said(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass
class LiveCluster:
    """`slurm` runs; everything else lies below `folder`."""

    slurm: PrivateSlurm
    folder: Path
    models: Mapping[str, list[Path]]
    settings: str = ""
    http_port: int = -1
    dead_after_s: float = 4.0
    submitted: list[str] = field(default_factory=list)
    _daemons: list[LiveProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("faults", "bin", "python", "logs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "python" / "sitecustomize.py").write_text(FAULTS)
        scontrol = self.folder / "bin" / "scontrol"
        scontrol.write_text(SCONTROL.format(real="/usr/bin/scontrol"))
        scontrol.chmod(0o755)
        (self.folder / "live.toml").write_text(
            f"pass_interval_s = 0.25\nrelease_interval_s = 0.5\ndead_after_s = {self.dead_after_s}\n"
            f"http_port = {self.http_port}\n" + self.settings
        )

    @property
    def state(self) -> Path:
        """The state folder of the live scheduler."""
        return self.folder / "state" / "live" / NAME

    @property
    def starts_file(self) -> Path:
        return self.folder / "starts"

    # The cluster

    def submit(self, name: str = "train_u0", *options: str, seconds: float = 0, gpus: int = 1) -> str:
        """Submit a job that says when it starts; return its id."""
        script = SCRIPT.format(starts=self.starts_file, seconds=seconds)
        words = [
            "sbatch",
            "--parsable",
            "--output=/dev/null",
            f"--job-name={name}",
            f"--gres=gpu:{gpus}",
            *options,
        ]
        job_id = self.slurm.run(*words, input_text=script).strip()
        self.submitted.append(job_id)
        return job_id

    def block(self, for_s: int = 600) -> str:
        """Occupy all GPUs of the default partition, until it is cancelled; return the job's id."""
        nodes = self.slurm.partitions[0].nodes
        gpus = next(node.gpus for node in self.slurm.nodes if node.name == nodes[0])
        script = f"#!/bin/sh\nexec sleep {for_s}\n"
        words = ["sbatch", "--parsable", "--output=/dev/null", f"--nodes={len(nodes)}", f"--gres=gpu:{gpus}"]
        job_id = self.slurm.run(*words, "--job-name=block", input_text=script).strip()
        self.wait(lambda: self.queue("%i %T").get(job_id) == "RUNNING", "the block runs")
        return job_id

    def facts(self, job: str) -> dict[str, str]:
        """What Slurm says of a job: the fields that its user or an admin has set."""
        words = self.slurm.run("scontrol", "--oneliner", "show", "job", job).split()
        known = dict(word.partition("=")[::2] for word in words if "=" in word)
        wanted = ("Dependency", "Reservation", "TimeLimit", "ReqNodeList", "Partition", "Nice", "Requeue")
        wanted += ("ArrayTaskThrottle", "JobState")
        return {name: known.get(name, "") for name in wanted}

    def free(self, job_id: str) -> None:
        """End the block."""
        self.slurm.run("scancel", job_id)

    def queue(self, words: str = "%i %Q", *options: str) -> dict[str, str]:
        """What squeue says of jobs: the first word -> the rest."""
        lines = self.slurm.run("squeue", "--noheader", f"--format={words}", *options).splitlines()
        return {line.split()[0]: line.partition(" ")[2].strip() for line in lines if line.strip()}

    def priorities(self) -> dict[str, int]:
        """The priorities of the waiting jobs."""
        return {job: int(priority) for job, priority in self.queue("%i %Q", "--states=PD").items()}

    def order(self) -> list[str]:
        """The waiting jobs that are not held, as Slurm would serve them."""
        waiting = [
            (-priority, int(job.partition("_")[0]), job) for job, priority in self.priorities().items()
        ]
        return [job for priority, _, job in sorted(waiting) if priority]

    def ranked(self) -> set[str]:
        """The waiting jobs that have a priority of the live scheduler's."""
        return {job for job, priority in self.priorities().items() if priority >= PRIORITIES.least}

    def names(self, jobs: Sequence[str]) -> list[str]:
        known = self.queue("%i %j")
        return [known[job] for job in jobs]

    def starts(self) -> Counter[str]:
        """How often each job has started, by its own word."""
        with suppress(FileNotFoundError):
            return Counter(self.starts_file.read_text().split())
        return Counter()

    def wait(self, happened: Callable[[], object], what: str, *, limit_s: float = 300.0) -> None:
        deadline = time.monotonic() + limit_s
        while True:
            with suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
                if happened():
                    return
            assert time.monotonic() < deadline, f"{what}\n{self.account()}"
            time.sleep(0.05)

    def wait_ended(self, jobs: Sequence[str] | None = None) -> None:
        """Wait until jobs (all) are gone from the queue."""
        wanted = set(self.submitted if jobs is None else jobs)
        self.wait(lambda: not wanted & set(self.queue("%A %i")), "the queue moves")

    def assert_each_ran_once(self, jobs: Sequence[str] | None = None) -> None:
        """No job is lost, stuck, or started twice: by what the jobs wrote, and by accounting."""
        wanted = list(self.submitted if jobs is None else jobs)
        self.wait_ended(wanted)
        starts = self.starts()
        assert {job: starts[job] for job in wanted} == dict.fromkeys(wanted, 1)
        if self.slurm.accounting:
            self.wait(lambda: set(self.accounted(wanted).values()) == {"COMPLETED"}, "accounting agrees")
            assert set(self.accounted(wanted)) == set(wanted)

    def accounted(self, jobs: Sequence[str]) -> dict[str, str]:
        """What accounting says of jobs; a job that ran twice is there twice."""
        words = ["sacct", "-a", "-X", "-D", "-P", "-n", f"--jobs={','.join(jobs)}", "-o", "JobIDRaw,State"]
        rows = [line.split("|") for line in self.slurm.run(*words).splitlines()]
        found = dict(rows)
        assert len(found) == len(rows), rows
        return found

    # The live scheduler

    def keep_release(self) -> None:
        """Let the live scheduler have a last known good release; its server is away.

        Its journal begins now, so that it learns nothing of what accounting tells of other tests' jobs.
        """
        keep_release(self.state / "releases", dict(self.models))
        begun = JobEvent(time.time() + 1.0, JobEventKind.WITHDRAWN, "of no test", {})
        Journal(self.state / "journal.jsonl").append([begun])

    def environment(self) -> dict[str, str]:
        plain = self.slurm.environment()
        return plain | {
            "LUCID_STATE_DIR": str(self.folder / "state"),
            "LUCID_TEST_FAULTS": str(self.folder / "faults"),
            "PYTHONPATH": os.pathsep.join([str(self.folder / "python"), str(Path.cwd())]),
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{plain['PATH']}",
        }

    def lucid(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the program to its end."""
        command = [sys.executable, "-m", "lucid_cli.main", *words]
        return subprocess.run(
            command,
            env=self.environment() | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def start(self, *options: str, tracking_uri: str = AWAY, mode: str = "control") -> LiveProcess:
        """Start the daemon as its users do."""
        return self._start("slurm", f"--mode={mode}", f"--tracking-uri={tracking_uri}", *options)

    def start_switch(self) -> LiveProcess:
        """Start the dead man's switch as a service manager does."""
        return self._start("watch")

    def start_own_switch(self) -> LiveProcess:
        """Start the switch as a daemon does, with the daemons' log of it."""
        command = [sys.executable, "-m", "live_scheduler.safety.dead_mans_switch", str(self.state)]
        return self._launch(command, self.state / WATCH_LOG)

    def _start(self, verb: str, *options: str) -> LiveProcess:
        command = [sys.executable, "-m", "lucid_cli.main", "live", verb, f"--cluster={NAME}", *options]
        log = self.folder / "logs" / f"{len(self._daemons)}.log"
        return self._launch([*command, f"--settings={self.folder / 'live.toml'}"], log)

    def _launch(self, command: Sequence[str], log: Path) -> LiveProcess:
        with log.open("ab") as stream:
            process = subprocess.Popen(
                command,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        daemon = LiveProcess(process, log)
        self._daemons.append(daemon)
        return daemon

    def started(self, *options: str, **more: str) -> LiveProcess:
        """Start the daemon, and wait until it, not one before it, ranks what waits (something must)."""
        daemon = self.start(*options, **more)
        self.wait(
            lambda: (self.beats(daemon) and self.ranked()) or daemon.process.poll() is not None,
            "the live scheduler ranks the queue",
        )
        assert daemon.process.poll() is None, self.account()
        return daemon

    def beats(self, daemon: LiveProcess | None = None) -> bool:
        """Whether a daemon (this one, if given) controls the queue by its heartbeat."""
        beat = read_heartbeat(self.state / HEARTBEAT_FILE)
        if beat is None or (daemon is not None and beat.pid != daemon.pid):
            return False
        return beat.controls and beat.alive(Moment.now())

    def wait_ranked(self, jobs: Sequence[str]) -> None:
        """Wait until the waiting jobs are in this order, by the live scheduler's hand."""
        self.wait(lambda: self.order() == list(jobs) and self.ranked() >= set(jobs), f"the order is {jobs}")

    def wait_returned(self, jobs: Sequence[str]) -> None:
        """Wait until the waiting jobs are in this order, by Slurm's own hand."""
        self.wait(lambda: self.order() == list(jobs) and not self.ranked(), f"the order is Slurm's: {jobs}")

    def fault(self, name: str, text: str = "") -> Path:
        """Let a fault come; it goes with its file."""
        path = self.folder / "faults" / name
        scratch = path.with_name(f".{name}")
        scratch.write_text(text)
        return scratch.rename(path)

    def end(self) -> None:
        """End all daemons and switches, and everything that they and the tests left in the queue."""
        self.end_processes()
        self.slurm.clear()

    def end_processes(self) -> None:
        """Kill all daemons and switches."""
        for daemon in self._daemons:
            with suppress(ProcessLookupError):
                daemon.process.kill()
            daemon.process.wait()
        while (pid := holder(self.state / WATCH_LOCK)) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def quiet(self) -> bool:
        """Whether neither a daemon nor a switch runs."""
        return not any(is_held(self.state / name) for name in (DAEMON_LOCK, WATCH_LOCK))

    def account(self) -> str:
        """Everything that says why, for a test that failed."""
        texts = [f"== {daemon.log.name}\n{daemon.said()[-3_000:]}" for daemon in self._daemons]
        for name in ("watch.log", "touched.jsonl", "loans.jsonl", HEARTBEAT_FILE):
            with suppress(OSError):
                text = (self.state / name).read_text(errors="replace")
                texts.append(f"== {name}\n{text[-2_000:]}")
        with suppress(subprocess.SubprocessError):
            texts.append(self.slurm.run("squeue", "--format=%i %j %T %Q %r %P %k"))
        return "\n".join([*texts, json.dumps(self.starts())])


def queue_up(cluster: LiveCluster) -> tuple[str, list[str]]:
    """A block, and behind it three jobs whose order by the release is not that of their submission."""
    block = cluster.block()
    return block, [cluster.submit(name) for name in NAMES]
