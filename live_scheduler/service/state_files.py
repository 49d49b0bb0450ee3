"""What a daemon leaves in its state folder for its clients: its token, and where it listens."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from foundation import strict_json
from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError
from foundation.private_files import private_folder
from foundation.replaced_files import create_file, replace_file

TOKEN_FILE = "token"  # noqa: S105  (a file's name)
ENDPOINT_FILE = "endpoint.json"
_LEAST_TOKEN_LENGTH = 32


@dataclass(frozen=True)
class Endpoint:
    """Where a daemon listens; `started_after_boot_s` tells its process from a later one with the same id."""

    cluster: str
    pid: int
    started_after_boot_s: float
    http: str | None


def token_of(state_dir: Path) -> str:
    """Return the token of a state folder; one is made, readable by its owner only, if there is none.

    Raises BadInputError when the file holds none, or when others may read it.
    """
    path = state_dir / TOKEN_FILE
    private_folder(state_dir, tighten=False)
    if not path.exists():
        create_file(path, secrets.token_urlsafe(32) + "\n")
    if path.stat().st_mode & 0o077:
        raise BadInputError(
            f"Others may read the token {path}.",
            remedy=f"Delete it: a new one is made. (Or: chmod 600 {path})",
        )
    return read_token(path)


def read_token(path: Path) -> str:
    """Return the token of a file; raises NotFoundError, BadInputError."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise NotFoundError(
            f"There is no token {path}.", remedy="The daemon makes one when it starts."
        ) from None
    except PermissionError:
        raise BadInputError(
            f"The token {path} may not be read by this user.", remedy="Ask as the user who runs the daemon."
        ) from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"The token {path} cannot be read: {error}.") from None
    if len(token) < _LEAST_TOKEN_LENGTH:
        raise BadInputError(
            f"The token {path} holds {len(token)} characters.",
            remedy="Delete it: the daemon makes a new one.",
        )
    return token


def write_endpoint(state_dir: Path, *, cluster: str, http: str | None) -> Path:
    """Say where this process listens; return the file's path. Raises OSError."""
    endpoint = Endpoint(cluster, os.getpid(), _started_after_boot_s(os.getpid()), http)
    path = state_dir / ENDPOINT_FILE
    private_folder(state_dir, tighten=False)
    replace_file(path, json.dumps(asdict(endpoint)))
    return path


def remove_endpoint(state_dir: Path) -> None:
    """Take back what this process wrote."""
    path = state_dir / ENDPOINT_FILE
    try:
        if strict_json.loads(path.read_text(encoding="utf-8")).get("pid") == os.getpid():
            path.unlink()
    except (OSError, ValueError, AttributeError):
        return


def read_endpoint(state_dir: Path) -> Endpoint:
    """Return where the daemon of a state folder listens.

    Raises ServiceUnavailableError, with the remedy, when none runs.
    """
    path = state_dir / ENDPOINT_FILE
    remedy = "Start it: lucid live slurm (or, for a scheduler that is not Slurm, lucid live serve)."
    try:
        fields = strict_json.loads(path.read_text(encoding="utf-8"))
        endpoint = Endpoint(
            str(fields["cluster"]),
            int(fields["pid"]),
            float(fields["started_after_boot_s"]),
            fields["http"],
        )
    except FileNotFoundError:
        raise ServiceUnavailableError(f"No daemon runs with the state {state_dir}.", remedy=remedy) from None
    except PermissionError:
        raise BadInputError(
            f"{path} may not be read by this user.", remedy="Ask as the user who runs the daemon."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServiceUnavailableError(f"{path} cannot be read: {error!r}.", remedy=remedy) from None
    try:
        alive = abs(_started_after_boot_s(endpoint.pid) - endpoint.started_after_boot_s) < 1.0
    except (psutil.Error, ValueError):
        alive = False
    if not alive:
        raise ServiceUnavailableError(
            f"The daemon of {endpoint.cluster} (process {endpoint.pid}) does not run any more.", remedy=remedy
        )
    return endpoint


def _started_after_boot_s(pid: int) -> float:
    """When a process started, by a monotonic clock."""
    boot_s = psutil.boot_time()  # read first: psutil adds it to what the kernel says
    return float(psutil.Process(pid).create_time() - boot_s)
