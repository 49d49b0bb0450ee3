"""Airflow and MLflow on this machine: `python -m local_stack up | down | status`.

Everything listens on loopback and lives in one folder (LUCID_STATE_DIR, default `.lucid`): databases, logs,
generated secrets. Two stacks run side by side with two folders and four ports. `up` leaves a supervisor
behind, which starts a dead process again; `down` ends all of it within seconds.
"""

import argparse
import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from foundation.bounded_http import BoundedClient
from foundation.environment import read_switch, state_dir
from foundation.errors import BadInputError, LucidError, ServiceUnavailableError
from foundation.exit_codes import ERROR, NOT_REACHED, CommandLine
from foundation.parts import installed_parts
from foundation.private_files import PRIVATE_UMASK, private_database, private_folder
from foundation.process_lock import ProcessLock
from foundation.retention_settings import retention_settings
from foundation.screen_text import on_screen
from foundation.storage import sweep_unfinished
from local_stack.airflow_client import HEALTH_LIMITS, AirflowClient
from local_stack.stack_config import (
    ADMIN,
    DEFAULT_AIRFLOW_PORT,
    DEFAULT_MLFLOW_PORT,
    GPU_POOL,
    GPU_POOL_MEANING,
    LOOPBACK,
    STACK_FILE,
    StackConfig,
    admin_password,
    gpu_slots,
    mlflow_password,
    port_from_environment,
    running_stack,
    stack_environment,
    stack_processes,
)
from local_stack.supervisor import (
    GRACE_S,
    STATUS_FILE,
    end_processes,
    processes_of_stack,
    read_json,
    running_supervisor,
    write_private,
    write_processes,
)
from lucid_models.signing.installation import Signing
from lucid_models.signing.trust import TRUST_VARIABLE, UNSIGNED
from simulator.gate.installed_rules import installed_rules

READY_TIMEOUT_S = 240.0
# The file of dags/ that lists what installed parts bring.
DAGS_OF_PARTS = "dags_of_parts"
AIRFLOW_PARTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")

Say = Callable[[str], None]


def say(line: str) -> None:
    """Write a line of progress to standard error at once."""
    print(line, file=sys.stderr, flush=True)


def connect(config: StackConfig) -> AirflowClient:
    """Return a client of the stack's Airflow, logged in as its admin."""
    return AirflowClient(config.airflow_url, username=ADMIN, password=admin_password(config))


def up(config: StackConfig, *, tell: Say = say) -> StackConfig:
    """Start the stack and wait until it is healthy and knows every DAG; return what runs.

    Raises BadInputError for a busy port, ServiceUnavailableError when a process does not come up.
    """
    with _only_one(config):
        running = running_stack(config.state_dir)
        if running is not None:
            _refuse_another_shape(running, config)
            tell("the stack is up already")
        else:
            _end_leftovers(config)
            _check_ports(config)
            _create_keys(config)
            installed_rules()  # a bad rule is said now, not by the first validation
            retention_settings()
            _start(config, tell)
        try:
            wait_until_ready(config, tell=tell)
            if running is None:
                with connect(config) as airflow:
                    airflow.set_pool(GPU_POOL, gpu_slots(os.environ), GPU_POOL_MEANING)
        except LucidError:
            if running is None:
                down(config.state_dir, tell=tell)
            raise
    return config


def _create_keys(config: StackConfig) -> None:
    """What is published is signed from the first release on, unless LUCID_TRUST says how it is otherwise."""
    if not os.environ.get(TRUST_VARIABLE):
        Signing.of_environment(config.state_dir).key_store.create()


def down(state_dir: Path, *, tell: Say = say) -> bool:
    """End every process of the stack; say whether there was one. Nothing is left behind.

    Raises ServiceUnavailableError when a process survives SIGKILL.
    """
    config = StackConfig(state_dir=state_dir)
    supervisor = running_supervisor(config.run_dir)
    if supervisor is not None:
        started = time.monotonic()
        supervisor.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            supervisor.wait(timeout=2 * GRACE_S + 5)
        tell(f"stopped in {time.monotonic() - started:.1f} s")
    leftovers = _end_leftovers(config)
    return supervisor is not None or leftovers


def wait_until_ready(config: StackConfig, *, tell: Say = say) -> None:
    """Wait until MLflow and every part of Airflow are healthy and all DAG files are parsed.

    Raises ServiceUnavailableError with the log's last lines when a process keeps dying or time is up.
    """
    expected = _dags_of(config)
    started = time.monotonic()
    reported = ""
    with connect(config) as airflow:
        while True:
            missing = _missing(config, airflow, expected)
            elapsed_s = time.monotonic() - started
            if not missing:
                tell(f"[{elapsed_s:4.0f} s] ready")
                return
            if missing != reported:
                tell(f"[{elapsed_s:4.0f} s] waiting for {missing}")
                reported = missing
            _check_alive(config)
            if elapsed_s > READY_TIMEOUT_S:
                raise ServiceUnavailableError(
                    f"After {elapsed_s:.0f} s the stack still waits for {missing}.",
                    remedy=f"Look into {config.log_dir}.",
                )
            time.sleep(0.5)


def status(state_dir: Path) -> dict[str, Any]:
    """Return what runs: {running, airflow, mlflow, processes: {name: {pid, restarts, last_exit}}}."""
    running = running_stack(state_dir)
    if running is None:
        return {"running": False, "processes": {}}
    return {
        "running": True,
        "airflow": running.airflow_url,
        "mlflow": running.mlflow_url,
        "state_dir": str(state_dir),
        "processes": read_json(running.run_dir / STATUS_FILE) or {},
    }


def login_lines(config: StackConfig) -> list[str]:
    """Return the lines that tell a person where the UIs are and how to log in."""
    approval = "off: what the gate approves is published; LUCID_REQUIRE_APPROVAL=true asks a person first"
    if config.require_approval:
        approval = "on: a person must approve every publication"
    trust_file = Signing.of_environment(config.state_dir).trust_file
    signed = (
        f"trust file for schedulers: {trust_file}" if trust_file else f"off ({TRUST_VARIABLE}={UNSIGNED})"
    )
    return [
        f"Airflow  {config.airflow_url}   user {ADMIN}, password {admin_password(config)}",
        f"MLflow   {config.mlflow_url}/#/models   user {ADMIN}, password {mlflow_password(config, ADMIN)}",
        f"Approval {approval}",
        f"Signed   {signed}",
        f"Logs     {config.log_dir}     stop with `make down`",
    ]


def _start(config: StackConfig, tell: Say) -> None:
    artifacts = config.mlflow_dir / "artifacts"
    private = (config.run_dir, config.log_dir, config.airflow_home, config.mlflow_dir, config.secrets_dir)
    for folder in (*private, artifacts, config.inbox_dir):
        private_folder(folder, tighten=folder in private)
    for database in (config.airflow_database, config.mlflow_dir / "mlflow.db"):
        private_database(database)
    prepared = _prepared(config)
    if not prepared:
        config.migrated_marker.unlink(missing_ok=True)
    sweep_unfinished(str(config.state_dir))
    environment = stack_environment(config, os.environ)
    if not prepared:
        _migrate_mlflow(config, environment, tell)
    write_processes(config.run_dir, stack_processes(config))
    write_private(
        config.run_dir / STACK_FILE,
        json.dumps(
            {
                "airflow_port": config.airflow_port,
                "mlflow_port": config.mlflow_port,
                "require_approval": config.require_approval,
                "dags_dir": str(config.dags_dir),
            }
        ),
    )
    with (config.log_dir / "supervisor.log").open("ab") as log:
        command = (sys.executable, "-m", "local_stack.supervisor", str(config.run_dir))
        subprocess.Popen(command, **_surroundings(config, environment, log), start_new_session=True)
    if not prepared:
        _prepare_database(config, environment, tell)


def _surroundings(config: StackConfig, environment: Mapping[str, str], log: BinaryIO) -> dict[str, Any]:
    """Where a process of the stack runs: in its folder, told nothing, all that it says in its log."""
    return {
        "cwd": config.state_dir,
        "env": environment,
        "stdin": subprocess.DEVNULL,
        "stdout": log,
        "stderr": subprocess.STDOUT,
        "umask": PRIVATE_UMASK,
    }


def _prepared(config: StackConfig) -> bool:
    """Whether the databases are there already, made or migrated by these versions of Airflow and MLflow."""
    marker = config.migrated_marker
    return (
        config.airflow_database.is_file()
        and marker.is_file()
        and marker.read_text(encoding="utf-8") == _programs()
    )


def _programs() -> str:
    """The versions that databases are migrated to."""
    return f"{version('apache-airflow')} {version('mlflow')}"


def _migrate_mlflow(config: StackConfig, environment: Mapping[str, str], tell: Say) -> None:
    """Upgrade a database of MLflow that an older version made: its server would not start on it."""
    database = config.mlflow_dir / "mlflow.db"
    if database.stat().st_size:
        tell("migrating MLflow's database")
        _migrate(config, environment, ("mlflow", "db", "upgrade", f"sqlite:///{database}"))


def _migrate(config: StackConfig, environment: Mapping[str, str], command: Sequence[str]) -> None:
    """Run a migration; killed in the middle, the next `up` runs it again. Raises ServiceUnavailableError."""
    with (config.log_dir / "db-migrate.log").open("ab") as log:
        words = (str(Path(sys.executable).parent / command[0]), *command[1:])
        code = subprocess.run(words, **_surroundings(config, environment, log), check=False).returncode
    if code != 0:
        raise ServiceUnavailableError(
            f"`{' '.join(command)}` ended with {code}: {_tail(config.log_dir / 'db-migrate.log')}"
        )


def _prepare_database(config: StackConfig, environment: Mapping[str, str], tell: Say) -> None:
    """Make or upgrade Airflow's database; MLflow comes up meanwhile, Airflow waits for the marker."""
    tell("preparing Airflow's database")
    try:
        _migrate(config, environment, ("airflow", "db", "migrate"))
    except ServiceUnavailableError:
        down(config.state_dir, tell=tell)
        raise
    write_private(config.migrated_marker, _programs())


def _dags_of(config: StackConfig) -> set[str]:
    """Return the DAGs of the folder: each file has one of its own name, and one file those of the parts."""
    stems = {path.stem for path in config.dags_dir.glob("*.py")}
    if DAGS_OF_PARTS not in stems:
        return stems
    return stems - {DAGS_OF_PARTS} | {dag.dag_id for part in installed_parts() for dag in part.dags}


def _missing(config: StackConfig, airflow: AirflowClient, expected: set[str]) -> str:
    """Return what the stack still lacks, in words; empty when it is ready."""
    missing = []
    if not _answers(f"{config.mlflow_url}/health"):
        missing.append("MLflow")
    health = airflow.health()
    if not health:
        return ", ".join([*missing, "Airflow"])
    missing.extend(f"Airflow's {part}" for part in AIRFLOW_PARTS if health.get(part) != "healthy")
    if not missing:
        errors = airflow.import_errors()
        if errors:
            file, error = next(iter(errors.items()))
            raise BadInputError(f"Airflow cannot parse {file}: {error.strip().splitlines()[-1]}")
        absent = expected - airflow.dag_ids()
        if absent:
            missing.append(f"DAGs {', '.join(sorted(absent))}")
    return ", ".join(missing)


def _answers(url: str) -> bool:
    try:
        with BoundedClient(limits=HEALTH_LIMITS) as client:
            return client.get(url).is_success
    except ServiceUnavailableError:
        return False


def _check_alive(config: StackConfig) -> None:
    for name, entry in (read_json(config.run_dir / STATUS_FILE) or {}).items():
        if entry["restarts"] >= 3 and entry["pid"] is None:
            raise ServiceUnavailableError(
                f"{name} ended {entry['restarts']} times, last with {entry['last_exit']}: "
                f"{_tail(config.log_dir / f'{name}.log')}",
                remedy=f"Its log: {config.log_dir / f'{name}.log'}.",
            )


def _tail(log: Path, lines: int = 5) -> str:
    return " | ".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-lines:])


def _refuse_another_shape(running: StackConfig, wanted: StackConfig) -> None:
    if asdict(running) != asdict(wanted):
        raise BadInputError(
            f"A stack runs in {running.state_dir} already: Airflow on port {running.airflow_port}, MLflow on "
            f"port {running.mlflow_port}, approval {'on' if running.require_approval else 'off'}.",
            remedy="Stop it with `make down` first, or name another folder by LUCID_STATE_DIR.",
        )


def _check_ports(config: StackConfig) -> None:
    if config.airflow_port == config.mlflow_port:
        raise BadInputError(
            f"Airflow and MLflow cannot share port {config.airflow_port}.", remedy="Change --mlflow-port."
        )
    for name, port in (("airflow", config.airflow_port), ("mlflow", config.mlflow_port)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError as error:
                why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
                raise BadInputError(
                    f"Port {port} {why}.",
                    remedy=f"Choose another with --{name}-port N or LUCID_{name.upper()}_PORT=N.",
                ) from error


def _end_leftovers(config: StackConfig) -> bool:
    """End what a killed supervisor left; say whether there was anything."""
    leftovers = processes_of_stack(str(config.state_dir), read_json(config.run_dir / STATUS_FILE))
    alive = end_processes(leftovers, grace_s=5.0)
    if alive:
        raise ServiceUnavailableError(
            f"Processes {', '.join(str(process.pid) for process in alive)} of the stack do not end."
        )
    for name in (STATUS_FILE, STACK_FILE):
        (config.run_dir / name).unlink(missing_ok=True)
    return bool(leftovers)


@contextlib.contextmanager
def _only_one(config: StackConfig) -> Iterator[None]:
    """Let one `up` at a time work on a folder."""
    private_folder(config.run_dir)
    with ProcessLock(config.run_dir / "lock") as lock:
        if not lock.acquire():
            raise BadInputError(
                f"Another `up` is starting the stack in {config.state_dir}.", remedy="Wait for it."
            )
        yield


def add_stack_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which stack is meant."""
    parser.add_argument(
        "--state-dir", type=Path, help="folder of the stack (LUCID_STATE_DIR, default .lucid)"
    )
    parser.add_argument(
        "--airflow-port", type=int, help=f"LUCID_AIRFLOW_PORT, default {DEFAULT_AIRFLOW_PORT}"
    )
    parser.add_argument("--mlflow-port", type=int, help=f"LUCID_MLFLOW_PORT, default {DEFAULT_MLFLOW_PORT}")
    parser.add_argument(
        "--require-approval",
        action="store_true",
        help="a person must approve every publication (LUCID_REQUIRE_APPROVAL, default off)",
    )


def config_from(arguments: argparse.Namespace) -> StackConfig:
    """Return the stack that the options and the environment describe."""
    try:
        return StackConfig(
            state_dir=(arguments.state_dir or state_dir()).absolute(),
            airflow_port=arguments.airflow_port
            or port_from_environment("LUCID_AIRFLOW_PORT", DEFAULT_AIRFLOW_PORT),
            mlflow_port=arguments.mlflow_port
            or port_from_environment("LUCID_MLFLOW_PORT", DEFAULT_MLFLOW_PORT),
            require_approval=arguments.require_approval
            or read_switch("LUCID_REQUIRE_APPROVAL", default=False),
        )
    except ValueError as error:
        raise BadInputError(str(error)) from error


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 only on success."""
    parser = CommandLine(prog="python -m local_stack", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status"))
    add_stack_options(parser)
    arguments = parser.parse_args(argv)
    try:
        config = config_from(arguments)
        if arguments.command == "up":
            for line in login_lines(up(config)):
                print(line)
        elif arguments.command == "down":
            print("stopped" if down(config.state_dir) else "no stack was running")
        else:
            document = status(config.state_dir)
            print(json.dumps(document, indent=2))
            return 0 if document["running"] else NOT_REACHED
    except LucidError as error:
        print(f"error: {on_screen(str(error))}", file=sys.stderr)
        return ERROR
    return 0
