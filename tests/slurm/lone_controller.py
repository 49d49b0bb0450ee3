"""A slurmctld alone, without nodes or jobs: what it makes of a slurm.conf, or that it refuses one."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.slurm.private_slurm import SEARCH_PATH, free_ports

START_LIMIT_S = 60.0
# Nodes of a cloud need no address, and none has to answer; PrivateData shows them while they sleep.
_HEAD = """\
ClusterName=mini
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MailProg=/bin/true
ResumeProgram=/bin/true
SuspendProgram=/bin/true
PrivateData=cloud
"""


def what_slurm_makes_of(
    folder: Path, text: str, commands: Sequence[Sequence[str]], files: Mapping[str, str]
) -> list[str] | None:
    """Return what the commands print once slurmctld has read a slurm.conf; None: it does not start."""
    (folder / "state").mkdir()
    conf = folder / "slurm.conf"
    conf.write_text(head(folder) + text)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(content)
    environment = {**os.environ, "SLURM_CONF": str(conf), "PATH": SEARCH_PATH}
    program = shutil.which("slurmctld", path=SEARCH_PATH)
    assert program is not None

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    controller = subprocess.Popen(
        [program, "-D", "-f", str(conf)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while "is UP" not in run(("scontrol", "ping")).stdout:
            if controller.poll() is not None:
                return None
            assert time.monotonic() < deadline, (folder / "slurmctld.log").read_text()
            time.sleep(0.05)
        return [run(command).stdout for command in commands]
    finally:
        controller.terminate()
        with suppress(subprocess.TimeoutExpired):
            controller.wait(30)
        controller.kill()
        controller.wait()


def head(folder: Path) -> str:
    """The lines that a controller below a folder needs whatever it is asked."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    host = socket.gethostname().partition(".")[0]
    return _HEAD.format(host=host, user=user, folder=folder, port=free_ports(1)[0])
