"""A private Slurm to try things on: `make slurm-up` starts it, `make slurm-down` ends it.

Two virtual clusters, a partition for profiling and one whose GPUs may be shared; accounting where MariaDB and
slurmdbd are installed. It is the cluster of the tour in docs/live_slurm.md. It belongs to a process of its
own, which holds it until it gets a SIGTERM; that process is named in FOLDER/owner.json.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.slurm.private_slurm import (
    START_LIMIT_S,
    Node,
    Partition,
    PrivateSlurm,
    SlurmStartError,
    missing_programs,
)

OWNER, LOG = "owner.json", "owner.log"

NODES = (
    Node("n1"),
    Node("n2"),
    Node("n3"),
    Node("s1", gpus=1, shards=2),
    Node("s2", gpus=1, shards=2),
    Node("p1", gpus=2),
)
PARTITIONS = (
    Partition("vc1", ("n1", "n2")),
    Partition("vc2", ("n3",)),
    Partition("shared", ("s1", "s2")),
    Partition("prof", ("p1",)),
)


def start(folder: Path, *, accounting: bool = True) -> PrivateSlurm:
    """Start a cluster that outlives this process. Raises SlurmStartError, when one is up there too."""
    slurm = PrivateSlurm(folder.absolute())
    if _owner(folder) is not None:
        raise SlurmStartError(f"A cluster is up in {folder}: export SLURM_CONF={slurm.conf}")
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "tests.slurm.standing_slurm",
        "hold" if accounting else "hold-plain",
        str(folder),
    ]
    with (folder / LOG).open("w") as log:
        owner = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + 2 * START_LIMIT_S
    while _owner(folder) is None:
        if owner.poll() is not None or time.monotonic() > deadline:
            owner.kill()
            raise SlurmStartError((folder / LOG).read_text())
        time.sleep(0.05)
    return slurm


def end(folder: Path) -> bool:
    """End the cluster of a folder; say whether there was one. Its files stay."""
    owner = _owner(folder)
    if owner is None:
        return False
    owner.terminate()
    owner.wait(timeout=START_LIMIT_S)
    return True


def hold(folder: Path, *, accounting: bool) -> None:
    """Start a cluster and hold it until SIGTERM."""
    signal.signal(signal.SIGTERM, _leave)
    with PrivateSlurm(folder.absolute(), NODES, PARTITIONS, accounting=accounting):
        me = psutil.Process()
        (folder / OWNER).write_text(json.dumps({"pid": me.pid, "created_s": me.create_time()}))
        try:
            while True:
                signal.pause()
        finally:
            (folder / OWNER).unlink(missing_ok=True)


def _leave(*_: object) -> None:
    raise SystemExit(0)


def _owner(folder: Path) -> psutil.Process | None:
    with contextlib.suppress(OSError, ValueError, KeyError, psutil.Error):
        record = json.loads((folder / OWNER).read_text())
        process = psutil.Process(record["pid"])
        if abs(process.create_time() - record["created_s"]) < 1.0:
            return process
    return None


def main() -> int:
    """Run `up`, `down` or (for `up` itself) `hold` and `hold-plain`."""
    verb, folder = sys.argv[1], Path(sys.argv[2])
    try:
        if verb == "up":
            slurm = start(folder)
            print(f"Slurm is up:\n  export SLURM_CONF={slurm.conf}\n  sinfo")
        elif verb == "down":
            print("Slurm is down." if end(folder) else "No Slurm was up.")
        else:
            hold(folder, accounting=verb == "hold" and not missing_programs(accounting=True))
    except SlurmStartError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
