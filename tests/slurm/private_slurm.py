"""A private Slurm on this machine: real daemons with fake GPUs on free loopback ports, in one folder.

Needs Debian's packages (`INSTALL_LINE`); runs as root or as anybody, and is gone when the process that asked
for it is gone, however that ended (`keeper.py`).

    with PrivateSlurm(folder, nodes=[Node("p1", gpus=2)], partitions=[Partition("prof", ["p1"])]) as slurm:
        slurm.run("sinfo")

One that stays until it is told to go: `standing_slurm.py`.
"""

import json
import os
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

INSTALL_LINE = (
    "RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"
    " slurm-wlm slurm-client slurmdbd mariadb-server"
)
START_LIMIT_S = 300.0
CLUSTER_NAME = "private"
# Debian keeps the daemons where a user's PATH does not look.
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
# Below Linux's range of ephemeral ports, so that no outgoing connection takes one between check and use.
_PORTS = range(15_000, 32_000)
# What a test keeps need not survive a power cut.
NO_SYNC = ("--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0", "--sync-frm=0")
_CLUSTERS = ("sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster")
_LONGEST_SOCKET_PATH = 100
_KEEPER = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True)
class Node:
    """A node with fake GPUs; `shards` in all lets jobs share them."""

    name: str
    gpus: int = 4
    shards: int = 0
    cpus: int = 64
    memory_mib: int = 256_000


@dataclass(frozen=True)
class Partition:
    """A partition; the first of a cluster is its default. `options` are further words of its line."""

    name: str
    nodes: Sequence[str]
    max_time_min: int | None = None
    options: str = ""


DEFAULT_NODES = (Node("n1"), Node("n2"), Node("p1", gpus=2))
DEFAULT_PARTITIONS = (Partition("vc1", ("n1",)), Partition("vc2", ("n2",)), Partition("prof", ("p1",), 60))


class SlurmStartError(RuntimeError):
    """The cluster did not come up; holds the end of its logs."""


def missing_programs(*, accounting: bool = False) -> list[str]:
    """Which of the programs that a private cluster needs are not installed."""
    needed = ["slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel", "sinfo", "sacct"]
    if accounting:
        needed += ["slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db"]
    return [name for name in needed if shutil.which(name, path=SEARCH_PATH) is None]


@dataclass
class PrivateSlurm:
    """A cluster below `folder`, which is made when it is absent; `settings` are further lines of slurm.conf.

    `job_submit` is the text of a job_submit.lua, through which all submissions go.
    With `accounting` a private MariaDB and slurmdbd stand behind `sacct`; without, a cluster starts faster
    and Slurm forgets a job some minutes after its end.
    """

    folder: Path
    nodes: Sequence[Node] = DEFAULT_NODES
    partitions: Sequence[Partition] = DEFAULT_PARTITIONS
    accounting: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    job_submit: str = ""
    _keeper: subprocess.Popen[str] | None = field(default=None, init=False, repr=False)
    _ports: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def conf(self) -> Path:
        """The cluster's slurm.conf, for SLURM_CONF."""
        return self.folder / "etc" / "slurm.conf"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Life

    def start(self) -> None:
        """Start all daemons and wait until every node is idle. Raises SlurmStartError; nothing runs then."""
        if missing := missing_programs(accounting=self.accounting):
            raise SlurmStartError(f"{', '.join(missing)} not installed: {INSTALL_LINE}")
        self._prepare_folders()
        for attempt in range(3):
            try:
                self._start_once()
                return
            except BaseException as error:
                port_taken = "Address already in use" in self._log_tails()
                self.stop()
                if not (isinstance(error, SlurmStartError) and port_taken and attempt < 2):
                    raise

    def stop(self) -> None:
        """End everything that runs; the folder stays. Does nothing when nothing runs."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        if keeper.stdin is not None:
            keeper.stdin.close()
        try:
            keeper.wait(timeout=300)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
        if keeper.stdout is not None:
            keeper.stdout.close()

    def stop_controller(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop (or kill) slurmctld; jobs that run go on."""
        self._ask({"stop": "slurmctld", "signal": int(number)})

    def start_controller(self) -> None:
        """Start slurmctld, with its saved state if there is one, and wait until it answers."""
        self._launch("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        self.wait_for(lambda: self._try("scontrol", "ping"), "slurmctld answers", daemon="slurmctld")

    def stop_accounting(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop (or kill) slurmdbd; slurmctld keeps what it has to tell, and its database goes on."""
        self._ask({"stop": "slurmdbd", "signal": int(number)})

    def start_accounting(self) -> None:
        """Start slurmdbd, and wait until it answers."""
        unix_socket = self.folder / "db" / "socket"
        self._launch("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(unix_socket))
        self.wait_for(lambda: self._try(*_CLUSTERS), "slurmdbd answers", daemon="slurmdbd")

    @contextmanager
    def frozen_accounting(self) -> Iterator[None]:
        """Let slurmdbd take connections and answer nothing; on the way out it goes on."""
        frozen = [
            process
            for process in psutil.Process(self._running().pid).children(recursive=True)
            if process.name() == "slurmdbd"
        ]
        for process in frozen:
            process.suspend()
        try:
            yield
        finally:
            for process in frozen:
                process.resume()

    def wait_saved(self, job_id: str) -> None:
        """Wait until what slurmctld keeps on the disk is no older than this call; `job_id` waits or runs."""
        mark = secrets.token_hex(8)
        self.run("scontrol", "update", f"JobId={job_id}", f"AdminComment={mark}")
        kept = self.folder / "state" / "job_state"
        self.wait_for(lambda: mark.encode() in kept.read_bytes(), "slurmctld has saved its jobs")

    def stop_node(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop (or kill) a node's slurmd."""
        self._ask({"stop": f"slurmd.{name}", "signal": int(number)})

    def start_node(self, name: str) -> None:
        """Start a node's slurmd."""
        self._launch(f"slurmd.{name}", "slurmd", "-D", "-N", name, "-f", str(self.conf))

    def crash_node(self, name: str) -> None:
        """Kill a node's slurmd and all that runs of its jobs at once, as if its power had gone."""
        keeper = self._running()
        self.stop_node(name, signal.SIGKILL)
        for process in psutil.Process(keeper.pid).children(recursive=True):
            with suppress(psutil.Error):
                if process.environ().get("SLURMD_NODENAME") == name:
                    for each in (process.parent(), process):
                        if each is not None and each.pid != keeper.pid:
                            each.kill()

    # Use

    def environment(self) -> dict[str, str]:
        """An environment in which Slurm's commands talk to this cluster."""
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "SBATCH"))}
        return plain | {"SLURM_CONF": str(self.conf), "PATH": SEARCH_PATH}

    def run(self, *argv: str, input_text: str | None = None) -> str:
        """Run one of Slurm's commands and return what it said. Raises CalledProcessError."""
        return subprocess.run(
            argv,
            input=input_text,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout

    def wait_for(self, happened: Callable[[], object], what: str, *, daemon: str | None = None) -> None:
        """Wait until `happened()`. Raises SlurmStartError after START_LIMIT_S, or when `daemon` died."""
        deadline = time.monotonic() + START_LIMIT_S
        while not happened():
            if daemon is not None and not self._ask({}).get(daemon):
                raise SlurmStartError(f"{daemon} ended by itself.\n{self._log_tails()}")
            if time.monotonic() > deadline:
                raise SlurmStartError(f"Waited {START_LIMIT_S:g} s until {what}.\n{self._log_tails()}")
            time.sleep(0.05)

    def clear(self) -> None:
        """Cancel all jobs, and wait until every node is idle again."""
        if ids := self.run("squeue", "--noheader", "--format=%i").split():
            self.run("scancel", "--full", *ids)
        self.wait_for(lambda: not self.run("squeue", "--noheader"), "the queue is empty")
        self.wait_for(self._all_idle, "all nodes are idle")

    # The parts of a start

    def _start_once(self) -> None:
        names = ["slurmctld", "slurmdbd", *(node.name for node in self.nodes)]
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._write_configuration()
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", str(_KEEPER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self.accounting:
            self._start_accounting()
        self.start_controller()
        for node in self.nodes:
            self.start_node(node.name)
        self.wait_for(self._all_idle, "all nodes are idle", daemon="slurmctld")

    def _prepare_folders(self) -> None:
        self.folder = self.folder.absolute()
        if len(str(self.folder / "spool" / "node" / "node_4294967294.4294967294")) > _LONGEST_SOCKET_PATH:
            raise SlurmStartError(f"{self.folder}: too long for the sockets of a cluster below it")
        for name in (
            "etc",
            "state",
            "run",
            "log",
            "dev",
            "db/tmp",
            *(f"spool/{node.name}" for node in self.nodes),
        ):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o755)
        for number in range(max(node.gpus for node in self.nodes)):
            device = self.folder / "dev" / f"nvidia{number}"
            if not device.is_symlink():
                device.symlink_to(os.devnull)

    def _start_accounting(self) -> None:
        data, unix_socket = self.folder / "db" / "data", self.folder / "db" / "socket"
        # A database that starts throws away the temporary tables of all others in the same folder.
        own_tables = f"--tmpdir={self.folder / 'db' / 'tmp'}"
        as_user = [f"--user={_user()}"] if os.geteuid() == 0 else []
        if not (data / "mysql").exists():
            self.run(
                "mariadb-install-db", "--no-defaults", f"--datadir={data}", *as_user,
                "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
                own_tables, *NO_SYNC,
            )  # fmt: skip
        # Nobody else reaches it: no port, and a socket in a folder of ours.
        (self.folder / "db").chmod(0o700)
        self._launch(
            "mariadbd", "mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={unix_socket}", *as_user,
            f"--pid-file={self.folder / 'run' / 'mariadbd.pid'}", "--skip-networking", "--skip-grant-tables",
            "--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900", "--innodb-log-file-size=16M",
            "--performance-schema=off", own_tables, *NO_SYNC,
        )  # fmt: skip
        self.wait_for(unix_socket.exists, "the database listens", daemon="mariadbd")
        self.start_accounting()
        if CLUSTER_NAME not in self.run(*_CLUSTERS).split():
            self.run("sacctmgr", "--immediate", "add", "cluster", CLUSTER_NAME)

    def _launch(self, name: str, *argv: str, **environment: str) -> None:
        program = shutil.which(argv[0], path=SEARCH_PATH)
        self._ask(
            {
                "start": name,
                "argv": [program, *argv[1:]],
                "env": self.environment() | environment,
                "log": str(self.folder / "log" / f"{name}.log"),
            }
        )

    def _ask(self, request: Mapping[str, object]) -> dict[str, bool]:
        keeper = self._running()
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        print(json.dumps(request), file=keeper.stdin, flush=True)
        answer: dict[str, bool] = json.loads(keeper.stdout.readline())
        return answer

    def _running(self) -> "subprocess.Popen[str]":
        if self._keeper is None:
            raise SlurmStartError("The cluster is not running.")
        return self._keeper

    def _try(self, *argv: str) -> bool:
        try:
            self.run(*argv)
        except subprocess.CalledProcessError:
            return False
        return True

    def _all_idle(self) -> bool:
        states = self.run("sinfo", "--noheader", "--Node", "--format=%T").split()
        return bool(states) and set(states) == {"idle"}

    def _log_tails(self) -> str:
        logs = sorted((self.folder / "log").glob("*.log"))
        return "\n".join(
            f"== {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:]) for log in logs
        )

    # Configuration

    def _write_configuration(self) -> None:
        folder, user, host = self.folder, _user(), socket.gethostname().partition(".")[0]
        settings = {
            "ClusterName": CLUSTER_NAME,
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": self._ports["slurmctld"],
            "SlurmUser": user,
            "SlurmdUser": user,
            "AuthType": "auth/none",
            "CredType": "cred/none",
            "StateSaveLocation": folder / "state",
            "SlurmdSpoolDir": folder / "spool" / "%n",
            "SlurmctldPidFile": folder / "run" / "slurmctld.pid",
            "SlurmdPidFile": folder / "run" / "slurmd.%n.pid",
            "MpiDefault": "none",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "JobAcctGatherType": "jobacct_gather/none",
            "SwitchType": "switch/none",
            "ReturnToService": 2,
            "SlurmdParameters": "config_overrides",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "bf_interval=1,sched_interval=1,sched_min_interval=0,"
            "default_queue_depth=5000,batch_sched_delay=0,bf_max_job_test=5000",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "DefMemPerCPU": 1_000,
            "PriorityType": "priority/basic",
            "GresTypes": "gpu,shard",
            "MaxJobCount": 20_000,
            "KillWait": 2,
            **self._accounting_settings(),
            **({"JobSubmitPlugins": "lua"} if self.job_submit else {}),
            **self.settings,
        }
        lines = [f"{key}={value}" for key, value in settings.items()]
        for node in self.nodes:
            gres = f"gpu:{node.gpus}" + (f",shard:{node.shards}" if node.shards else "")
            lines.append(
                f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={self._ports[node.name]}"
                f" CPUs={node.cpus} RealMemory={node.memory_mib} Gres={gres} State=UNKNOWN"
            )
        for position, partition in enumerate(self.partitions):
            limit = "INFINITE" if partition.max_time_min is None else str(partition.max_time_min)
            default = "YES" if position == 0 else "NO"
            nodes = f" Nodes={','.join(partition.nodes)}" if partition.nodes else ""
            lines.append(
                f"PartitionName={partition.name}{nodes} MaxTime={limit}"
                f" Default={default} State=UP {partition.options}".rstrip()
            )
        self._write("slurm.conf", lines)
        gres_lines = ["AutoDetect=off"]
        for node in self.nodes:
            devices = folder / "dev" / f"nvidia[0-{node.gpus - 1}]"
            gres_lines.append(f"NodeName={node.name} Name=gpu File={devices}")
            if node.shards:
                gres_lines.append(f"NodeName={node.name} Name=shard Count={node.shards}")
        self._write("gres.conf", gres_lines)
        if self.job_submit:
            self._write("job_submit.lua", [self.job_submit])
        if self.accounting:
            self._write(
                "slurmdbd.conf",
                [
                    "AuthType=auth/none",
                    "DbdHost=localhost",
                    f"DbdPort={self._ports['slurmdbd']}",
                    f"SlurmUser={user}",
                    "StorageType=accounting_storage/mysql",
                    "StorageHost=localhost",
                    "StorageUser=slurm",
                    "StorageLoc=slurm",
                    f"PidFile={folder / 'run' / 'slurmdbd.pid'}",
                ],
            )

    def _accounting_settings(self) -> dict[str, object]:
        if not self.accounting:
            return {"AccountingStorageType": "accounting_storage/none"}
        return {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "localhost",
            "AccountingStoragePort": self._ports["slurmdbd"],
            "AccountingStorageTRES": "gres/gpu,gres/shard",
            "AccountingStoreFlags": "job_comment,job_script,job_env",
        }

    def _write(self, name: str, lines: Sequence[str]) -> None:
        path = self.folder / "etc" / name
        path.touch(mode=0o600)
        path.chmod(0o600 if name == "slurmdbd.conf" else 0o644)
        path.write_text("\n".join(lines) + "\n")


def free_ports(count: int) -> list[int]:
    """Loopback ports on which nothing listens, all of them held until the last is found."""
    found: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
            listener = held.enter_context(socket.socket())
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise SlurmStartError(f"No {count} free ports between {_PORTS.start} and {_PORTS.stop}.")


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def short_folder() -> Path:
    """A private folder whose path leaves room for the names of sockets."""
    return Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
