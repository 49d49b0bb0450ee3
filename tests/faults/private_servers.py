"""PostgreSQL and Redis on loopback ports of their own, which a test may stop, kill and start again."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fixtures import free_port
from tests.waiting import wait_until

INSTALL_LINE = "apt-get install postgresql redis-server"


def postgres_programs() -> Path | None:
    """Debian's folder of the newest PostgreSQL's programs, which are not on the PATH; None without one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


def missing_servers() -> list[str]:
    """What is not installed of both."""
    there = {"PostgreSQL": postgres_programs(), "Redis": shutil.which("redis-server")}
    return [name for name, place in there.items() if place is None]


@dataclass
class Server:
    """A process that a test may end as it likes; what it keeps stays in its folder."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """The program with its arguments."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it serves."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, stdout=log, stderr=log, **_unprivileged()
            )
        wait_until(self.answers, f"{type(self).__name__} answers")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it with a signal."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)
            self.process = None


class Postgres(Server):
    """A PostgreSQL whose only user, `lucid`, needs no password."""

    @property
    def programs(self) -> Path:
        """Where its programs are."""
        place = postgres_programs()
        assert place is not None, INSTALL_LINE
        return place

    def create(self) -> None:
        """Make its files."""
        made = [str(self.programs / "initdb"), "--username=lucid", "--auth=trust", "--no-sync", "-D", "data"]
        subprocess.run(made, cwd=self.folder, check=True, capture_output=True, **_unprivileged())

    def command(self) -> list[str]:
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}"]
        return [str(self.programs / "postgres"), "-D", "data", "-p", str(self.port), *options]

    def answers(self) -> bool:
        asked = [str(self.programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(asked, check=False).returncode == 0

    def database(self, name: str) -> str:
        """Make a database; its address, as SQLAlchemy writes it without a driver."""
        address = f"lucid@127.0.0.1:{self.port}"
        made = [str(self.programs / "createdb"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "lucid", name]
        subprocess.run(made, check=True, capture_output=True)
        return f"postgresql://{address}/{name}"


class Redis(Server):
    """A Redis that forgets all when it ends, as the deployment's does."""

    def command(self) -> list[str]:
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", ""]
        return [shutil.which("redis-server") or "redis-server", *options, "--dir", str(self.folder)]

    def answers(self) -> bool:
        asked = ["redis-cli", "-p", str(self.port), "ping"]
        return subprocess.run(asked, check=False, capture_output=True).stdout.strip() == b"PONG"


def server_folder(name: str) -> Path:
    """A folder with a short name that the servers' user may write."""
    folder = Path(tempfile.mkdtemp(prefix=f"lucid-{name}-"))
    if user := _unprivileged().get("user"):
        os.chown(folder, user, -1)
    return folder


def _unprivileged() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then another user runs it."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        entry = pwd.getpwnam("nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
