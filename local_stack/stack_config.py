"""What a local stack consists of: folders, secrets, settings, command lines. `stack.py` starts it."""

import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foundation import strict_json
from foundation.bounded_http import without_proxies
from local_stack.supervisor import STACK_VARIABLE, ProcessSpec, read_json, running_supervisor, write_private
from lucid_models.signing.trust import TRUST_FILE, TRUST_VARIABLE
from mlflow_access.accounts import ACCOUNTS_FILE, FILE_VARIABLE, password_variable

LOOPBACK = "127.0.0.1"
DEFAULT_AIRFLOW_PORT = 8080
DEFAULT_MLFLOW_PORT = 5000
# Tasks that measure take a slot of this pool; there is one for each device of LUCID_GPU_DEVICES.
GPU_POOL, GPU_POOL_MEANING = "gpu", "One slot a device that profile_workloads measures on."
STACK_FILE = "stack.json"
UPKEEP_EVERY_S = 86_400.0
# How long a writer of Airflow's SQLite waits for the others; the library's 5 s pass while many DAGs begin.
# Shorter than a client waits for an answer (airflow_client.py).
SQLITE_CONNECT_ARGS = {"timeout": 20.0}
# The accounts of MLflow that the stack uses: people's, that of the tasks, and that of what only shows things.
MLFLOW_ACCOUNTS = (ADMIN, TASKS, PAGES, UPKEEP) = ("admin", "tasks", "pages", "upkeep")
LOGIN_VARIABLES = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class StackConfig:
    """One stack: its folder, its two ports, and whether a person must approve every publication."""

    state_dir: Path
    airflow_port: int = DEFAULT_AIRFLOW_PORT
    mlflow_port: int = DEFAULT_MLFLOW_PORT
    require_approval: bool = False
    dags_dir: Path = REPOSITORY / "dags"

    @property
    def airflow_url(self) -> str:
        """Where the Airflow UI and its REST API are."""
        return f"http://{LOOPBACK}:{self.airflow_port}"

    @property
    def mlflow_url(self) -> str:
        """Where the MLflow UI and tracking server are."""
        return f"http://{LOOPBACK}:{self.mlflow_port}"

    @property
    def run_dir(self) -> Path:
        """Where the supervisor keeps its files."""
        return self.state_dir / "run"

    @property
    def log_dir(self) -> Path:
        """Where every process writes its log."""
        return self.state_dir / "log"

    @property
    def inbox_dir(self) -> Path:
        """Where files are put that forms name; the plugin's `settings.inbox_dir`."""
        return self.state_dir / "inbox"

    @property
    def airflow_home(self) -> Path:
        """Airflow's own folder: database, task logs."""
        return self.state_dir / "airflow"

    @property
    def airflow_database(self) -> Path:
        """Airflow's metadata database."""
        return self.airflow_home / "airflow.db"

    @property
    def mlflow_dir(self) -> Path:
        """MLflow's database and artifacts."""
        return self.state_dir / "mlflow"

    @property
    def secrets_dir(self) -> Path:
        """Generated secrets, readable by their owner only."""
        return self.state_dir / "secrets"

    @property
    def passwords_file(self) -> Path:
        """The JSON file in which SimpleAuthManager looks passwords up."""
        return self.secrets_dir / "passwords.json"

    @property
    def migrated_marker(self) -> Path:
        """A file that exists once the metadata database is there; it holds Airflow's version."""
        return self.run_dir / "migrated"


def admin_password(config: StackConfig) -> str:
    """Return the admin's password; generated once per state folder."""
    if not config.passwords_file.exists():
        write_private(config.passwords_file, json.dumps({ADMIN: secrets.token_urlsafe(12)}) + "\n")
    return str(strict_json.loads(config.passwords_file.read_text(encoding="utf-8"))[ADMIN])


def mlflow_password(config: StackConfig, account: str) -> str:
    """Return the password of an account of MLFLOW_ACCOUNTS; generated once per state folder."""
    path = _mlflow_password_file(config, account)
    if not path.exists():
        write_private(path, secrets.token_urlsafe(12 if account == ADMIN else 32))
    return path.read_text(encoding="utf-8")


def log_in(config: StackConfig) -> None:
    """Let this process, and those that it starts, ask the stack's MLflow as its admin."""
    os.environ |= zip(LOGIN_VARIABLES, (ADMIN, mlflow_password(config, ADMIN)), strict=True)


def _mlflow_password_file(config: StackConfig, account: str) -> Path:
    return config.secrets_dir / f"mlflow_{account}_password"


def _mlflow_login(config: StackConfig, account: str) -> dict[str, Any]:
    """What a process is given to ask MLflow as an account."""
    user, password = LOGIN_VARIABLES
    file = str(_mlflow_password_file(config, account))
    return {"environment": {user: account}, "secrets": {password: file}}


def _secret(config: StackConfig, name: str) -> str:
    path = config.secrets_dir / name
    if not path.exists():
        # 32 random bytes in base64 are what Fernet asks for; twice that is long enough for HS512 tokens.
        size = 32 if name == "fernet_key" else 64
        write_private(path, base64.urlsafe_b64encode(secrets.token_bytes(size)).decode())
    return path.read_text(encoding="utf-8")


def stack_environment(config: StackConfig, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every process of the stack. It holds secrets: never write it to a file."""
    admin_password(config)  # the file must exist before the API server looks for it
    for account in MLFLOW_ACCOUNTS:  # likewise, for the processes that log in
        mlflow_password(config, account)
    return {
        **inherited,
        **without_proxies(inherited),
        STACK_VARIABLE: str(config.state_dir),
        # ours
        "LUCID_STATE_DIR": str(config.state_dir),
        "LUCID_LAKE_URI": inherited.get("LUCID_LAKE_URI") or str(config.state_dir / "lake"),
        "LUCID_TRACKING_URI": config.mlflow_url,
        "LUCID_INPUT_ROOTS": inherited.get("LUCID_INPUT_ROOTS") or _input_roots(inherited),
        "LUCID_REQUIRE_APPROVAL": "true" if config.require_approval else "false",
        TRUST_VARIABLE: inherited.get(TRUST_VARIABLE) or str(config.state_dir / TRUST_FILE),
        # It has one login: nobody else could approve what that one started.
        "LUCID_FOUR_EYES": inherited.get("LUCID_FOUR_EYES") or "false",
        # Airflow
        "AIRFLOW_HOME": str(config.airflow_home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(config.dags_dir),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(config.airflow_home / "plugins"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__FERNET_KEY": _secret(config, "fernet_key"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{ADMIN}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(config.passwords_file),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{config.airflow_url}/execution/",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{config.airflow_database}",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": f"{__name__}.SQLITE_CONNECT_ARGS",
        "AIRFLOW__API__HOST": LOOPBACK,
        "AIRFLOW__API__PORT": str(config.airflow_port),
        "AIRFLOW__API__BASE_URL": config.airflow_url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": _secret(config, "api_secret_key"),
        "AIRFLOW__API_AUTH__JWT_SECRET": _secret(config, "jwt_secret"),
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        # DAG files that did not change need no parsing every half minute; changed ones are seen at once.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
        # A task that died with the machine is tried again after a minute, not after five.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(config.airflow_home / "logs"),
        "AIRFLOW__LOGGING__NAMESPACE_LEVELS": "great_expectations=WARNING",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        # MLflow, and telemetry of all
        FILE_VARIABLE: str(config.secrets_dir / ACCOUNTS_FILE),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "GX_ANALYTICS_ENABLED": "false",
    }


def _input_roots(inherited: Mapping[str, str]) -> str:
    """Where forms may read from unless it is said: the checkout, and the reference data."""
    return ",".join(filter(None, (str(REPOSITORY), inherited.get("LUCID_REFERENCE_DATA"))))


def stack_processes(config: StackConfig) -> list[ProcessSpec]:
    """Return the processes of the stack. All listen on loopback; task logs are read from disk, not served."""
    binaries = Path(sys.executable).parent
    airflow = str(binaries / "airflow")
    migrated = str(config.migrated_marker)
    mlflow_store = f"sqlite:///{config.mlflow_dir / 'mlflow.db'}"
    airflow_processes = {
        "api-server": (
            *(airflow, "api-server"),
            *("--host", LOOPBACK, "--port", str(config.airflow_port), "--workers", "1"),
        ),
        # Its tasks are forks of it.
        "scheduler": (sys.executable, "-m", "lucid_airflow.warm_start", "scheduler", "--skip-serve-logs"),
        "dag-processor": (airflow, "dag-processor"),
        "triggerer": (airflow, "triggerer", "--skip-serve-logs"),
    }
    return [
        ProcessSpec(
            name="mlflow",
            argv=(
                *(sys.executable, "-m", "mlflow_access", "serve"),
                *("--host", LOOPBACK, "--port", str(config.mlflow_port), "--workers", "1"),
                *("--backend-store-uri", mlflow_store),
                *("--serve-artifacts", "--artifacts-destination", str(config.mlflow_dir / "artifacts")),
            ),
            log=str(config.log_dir / "mlflow.log"),
            secrets={
                password_variable(account): str(_mlflow_password_file(config, account))
                for account in MLFLOW_ACCOUNTS
            },
        ),
        *(
            ProcessSpec(
                name=name,
                argv=argv,
                log=str(config.log_dir / f"{name}.log"),
                waits_for=migrated,
                # Its tasks report to the API server: one that starts before that listens has failed.
                waits_for_port=config.airflow_port if name == "scheduler" else None,
                **_mlflow_login(config, TASKS if name == "scheduler" else PAGES),
            )
            for name, argv in airflow_processes.items()
        ),
        ProcessSpec(
            name="upkeep",
            argv=(
                *(sys.executable, "-m", "local_stack.upkeep", "--mlflow-store", mlflow_store),
                *("--tracking-uri", config.mlflow_url),
            ),
            log=str(config.log_dir / "upkeep.log"),
            waits_for=migrated,
            waits_for_port=config.mlflow_port,
            every_s=UPKEEP_EVERY_S,
            **_mlflow_login(config, UPKEEP),
        ),
    ]


def gpu_slots(environment: Mapping[str, str]) -> int:
    """Return how many devices LUCID_GPU_DEVICES names (default: the simulated one)."""
    names = environment.get("LUCID_GPU_DEVICES", "").split(",")
    return max(1, sum(1 for name in names if name.strip()))


def port_from_environment(variable: str, default: int) -> int:
    """Return the port that an environment variable names.

    Raises ValueError when the variable does not hold a number from 1 to 65535.
    """
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise ValueError(f"{variable}={text!r} is not a port; give a number from 1 to 65535.")
    return int(text)


def running_stack(state_dir: Path) -> StackConfig | None:
    """Return the stack that runs in this folder, or None."""
    config = StackConfig(state_dir=state_dir)
    if running_supervisor(config.run_dir) is None:
        return None
    record = read_json(config.run_dir / STACK_FILE)
    if not isinstance(record, dict):
        return None
    return StackConfig(
        state_dir=state_dir,
        airflow_port=int(record["airflow_port"]),
        mlflow_port=int(record["mlflow_port"]),
        require_approval=bool(record["require_approval"]),
        dags_dir=Path(record["dags_dir"]),
    )
