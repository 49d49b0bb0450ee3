"""What systemd hears of the live scheduler, over the socket that it names."""

import configparser
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from live_scheduler import slurm
from live_scheduler.deciding.decision import Decision
from live_scheduler.live_settings import LiveSettings
from live_scheduler.live_view import LiveView
from live_scheduler.release import ClientStatus
from live_scheduler.service_manager import ServiceManager
from live_scheduler.slurm import adapter

UNITS = Path(slurm.__file__).parent
STATUS = ClientStatus(
    alias="champion",
    mode="following",
    release="lucid-release version 3",
    version=3,
    verdict="approved",
    last_poll=None,
    last_contact=None,
    problem=None,
    refused_version=None,
    refused_reason=None,
)
VIEW = LiveView(
    1.0,
    0.0,
    LiveSettings("mine"),
    STATUS,
    decision=Decision(1.0, "r", 3, "lucid", (), (), {}, 0.001),
)


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_of_each_pass(tmp_path: Path, abstract: bool) -> None:
    path = f"@lucid-{tmp_path.name}-{id(tmp_path)}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + path[1:] if abstract else path)
        listener.settimeout(10)
        manager = ServiceManager({"NOTIFY_SOCKET": path})
        manager.passed(VIEW)
        assert listener.recv(4096).decode().splitlines() == [
            "READY=1",
            "WATCHDOG=1",
            "STATUS=observe: 0 jobs ranked by lucid-release version 3",
        ]
        manager.passed(replace(VIEW, problem="Slurm is\naway. " * 100))
        told = listener.recv(4096).decode().splitlines()
        assert told[:2] == ["READY=1", "WATCHDOG=1"]  # alive, though not well
        assert told[2].startswith("STATUS=Slurm is away. Slurm is")
        assert len(told) == 3
        manager.ending()
        assert "STOPPING=1" in listener.recv(4096).decode()


def test_a_service_manager_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    ServiceManager({}).passed(VIEW)
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).passed(VIEW)


def test_the_units_fit_the_program() -> None:
    """The watchdog outlasts what a pass may wait for, and the stop what the way back may take."""
    units = {}
    for name in ("lucid-live", "lucid-live-watch"):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(UNITS / f"{name}.service")
        units[name] = unit["Service"]
    daemon = units["lucid-live"]
    assert (daemon["Type"], daemon["Restart"]) == ("notify", "always")
    assert int(daemon["WatchdogSec"]) > 2 * (adapter.READ_LIMIT_S + adapter.ACCOUNTING_LIMIT_S)
    assert "lucid live slurm" in daemon["ExecStart"]
    assert "lucid live watch" in units["lucid-live-watch"]["ExecStart"]
    for unit in units.values():
        assert unit["User"] != "root"
        assert (unit["NoNewPrivileges"], unit["ProtectSystem"]) == ("yes", "strict")
