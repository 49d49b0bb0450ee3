"""Whose processes hold a GPU: their names, which of them go through MPS, which are not ours, and whose job.

MPS (CUDA's Multi-Process Service): without its daemon, CUDA runs without it and says nothing. So what counts
is not the environment but which process is its client while the processes hold the device.
"""

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

MPS_SERVER = "nvidia-cuda-mps-server"
_MPS_CONTROL = "nvidia-cuda-mps-control"
_MPS_PIPES = "/tmp/nvidia-mps"  # noqa: S108  the place that CUDA itself looks at
_MPS_ANSWER_S = 5.0
# cgroup paths of Slurm: .../slurm/uid_1000/job_123/step_0 and .../slurmstepd.scope/job_123/step_0/user/task_0
_CGROUP_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_ENVIRONMENT_JOB = re.compile(rb"(?:^|\0)SLURM_JOB_ID=(\d+)(?:\0|$)")


def local_name(process_id: int, proc: Path = Path("/proc")) -> str | None:
    """Return the program that a process of this machine runs; None where it is not visible from here."""
    try:
        words = (proc / str(process_id) / "cmdline").read_bytes().split(b"\0")
        if words[0]:
            return os.fsdecode(words[0])
        return (proc / str(process_id) / "comm").read_text().strip() or None
    except OSError:
        return None


def is_mps_server(name: str | None) -> bool:
    """Return whether a process of this name is a server of MPS, which stays when its clients have gone."""
    return name is not None and Path(name).name == MPS_SERVER


def uses_mps(mps_list: Collection[int] | None, names: Mapping[int, str | None]) -> bool:
    """Return whether processes on the device go through MPS, as far as the driver tells.

    `mps_list` is its list of MPS's processes, None where it has none; `names` are those of all on the device.
    """
    if mps_list is None:
        return any(is_mps_server(name) for name in names.values())
    return any(not is_mps_server(names.get(process_id)) for process_id in mps_list)


def mps_pipes(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder through which CUDA would reach MPS's daemon; None: no daemon, so no MPS."""
    folder = Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or _MPS_PIPES)
    return folder if (folder / "control").exists() else None


def mps_clients(environ: Mapping[str, str] = os.environ) -> tuple[int, ...]:
    """Return the clients that MPS's daemon knows of; none where it does not run or does not answer."""
    if mps_pipes(environ) is None:
        return ()
    clients: set[int] = set()
    for server in _ask_mps("get_server_list", environ):
        clients.update(_ask_mps(f"get_client_list {server}", environ))
    return tuple(sorted(clients))


def _ask_mps(question: str, environ: Mapping[str, str]) -> list[int]:
    try:
        answer = subprocess.run(
            [_MPS_CONTROL],
            input=f"{question}\n",
            capture_output=True,
            text=True,
            timeout=_MPS_ANSWER_S,
            env=dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [int(line) for line in answer.stdout.split() if line.isdecimal()]


def foreign_processes(reported: Iterable[int], ours: Collection[int]) -> tuple[int, ...]:
    """Return the processes on the device that are not ours, by id.

    Inside a container the driver names processes by their ids outside it. Then none of ours is among them,
    and as many as we have are taken for ours.
    """
    process_ids = sorted(set(reported))
    others = tuple(process_id for process_id in process_ids if process_id not in ours)
    if ours and len(others) == len(process_ids) <= len(ours):
        return ()
    return others


def slurm_job(process_id: int, proc: Path = Path("/proc")) -> str | None:
    """Return the id of the Slurm job that a process belongs to (a part of an array by its own id), or None.

    From its control group, which it cannot choose, else from its environment (root and its user read that).
    """
    folder = proc / str(process_id)
    try:
        in_group = _CGROUP_JOB.findall((folder / "cgroup").read_text())
        if in_group:
            return str(in_group[0])
        in_environment = _ENVIRONMENT_JOB.search((folder / "environ").read_bytes())
    except OSError:
        return None
    return in_environment.group(1).decode() if in_environment else None
