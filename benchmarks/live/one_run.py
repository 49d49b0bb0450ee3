"""One stream on one fresh Slurm under one mode, in a process of its own.

    python -m benchmarks.live.one_run REQUEST.json

`REQUEST.json` is a `RunRequest`; its `out` receives the outcome. Everything that was started ends with the
process, also on Ctrl-C and SIGTERM.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from benchmarks.live.publication import CLUSTER
from benchmarks.live.site import Users, cluster
from benchmarks.live.stream import VirtualCluster, read_stream
from benchmarks.live.submission import outcomes, submit_stream, wait_until_drained
from foundation.run_manifest import git_commit
from tests.slurm.private_slurm import PrivateSlurm, short_folder

READY_LIMIT_S = 60.0
# On the stream's scale of time a second stands for minutes: the daemon looks as often as it can afford.
PASS_INTERVAL_S = 1.0


class RunMode(StrEnum):
    """Who orders the queue."""

    FIFO = "fifo"  # Slurm itself: submission order and backfill
    DAEMON = "daemon"  # `lucid live slurm --mode control` with the published release
    ORACLE = "oracle"  # the same daemon with true run times


@dataclass(frozen=True)
class RunRequest:
    """What to run; paths as text, so that it is JSON."""

    mode: RunMode
    stream: str
    virtual_clusters: list[VirtualCluster]
    accounts: dict[str, str]
    tracking_uri: str
    out: str
    settings: dict[str, float | str]


def read_request(path: Path) -> RunRequest:
    """Read what `write_request` wrote."""
    document = json.loads(path.read_text())
    clusters = [VirtualCluster(**one) for one in document.pop("virtual_clusters")]
    return RunRequest(mode=RunMode(document.pop("mode")), virtual_clusters=clusters, **document)


def write_request(request: RunRequest, path: Path) -> None:
    """Write a request as JSON."""
    path.write_text(json.dumps(asdict(request), indent=1))


def run(request: RunRequest) -> None:
    """Run the stream; write outcomes, lateness and load of the machine to `request.out`."""
    jobs = read_stream(Path(request.stream))
    users = Users(request.accounts)
    out = Path(request.out)
    folder = short_folder()
    folder.chmod(0o755)  # jobs of other users read their scripts below it
    try:
        with (
            cluster(folder, request.virtual_clusters) as slurm,
            scheduler(request, slurm, [job.duration_s for job in jobs], out),
        ):
            began = time.time()
            submitted = submit_stream(slurm, jobs, users, say)
            if [one.job_id for one in submitted] != [str(one.index + 1) for one in submitted]:
                raise RuntimeError("Slurm did not number the jobs in the order of submission.")
            wait_until_drained(slurm, say)
            ended = outcomes(slurm, submitted)
            document = {
                "mode": request.mode,
                "commit": git_commit(Path(__file__).parent),
                "began_s": began,
                "outcomes": [asdict(one) for one in ended],
                "late_s": [round(one.late_s, 3) for one in submitted],
                "load_average": os.getloadavg(),
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    temporary = out.with_suffix(".part")
    temporary.write_text(json.dumps(document))
    temporary.replace(out)


@contextlib.contextmanager
def scheduler(
    request: RunRequest, slurm: PrivateSlurm, durations_s: list[float], out: Path
) -> Iterator[None]:
    """The daemon of a mode, following its release; none for FIFO. What it logs lies beside `out`."""
    if request.mode is RunMode.FIFO:
        yield
        return
    state = slurm.folder / "lucid"
    settings = slurm.folder / "live.toml"
    chosen = {
        "cluster": CLUSTER,
        "mode": "control",
        "pass_interval_s": PASS_INTERVAL_S,
        "trust": "unsigned",  # the registry is the bench's own
        **request.settings,
    }
    settings.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in chosen.items()))
    if request.mode is RunMode.DAEMON:
        program = ["-m", "lucid_cli.main", "live", "slurm"]
    else:
        known = slurm.folder / "durations.json"
        known.write_text(json.dumps(durations_s))
        program = ["-m", "benchmarks.live.oracle_daemon", "--durations", str(known)]
    command = [
        sys.executable, *program, "--settings", str(settings), "--tracking-uri", request.tracking_uri
    ]  # fmt: skip
    log_path = out.with_suffix(".log")
    with log_path.open("wb") as log:
        daemon = subprocess.Popen(
            command, env=slurm.environment() | {"LUCID_STATE_DIR": str(state)}, stdout=log, stderr=log
        )
        try:
            _wait_until_it_leads(daemon, log_path)
            yield
            if daemon.poll() is not None:
                raise RuntimeError(f"The daemon ended by itself:\n{log_path.read_text()[-2_000:]}")
            usage = psutil.Process(daemon.pid).cpu_times()
            say(f"the daemon used {usage.user + usage.system:.1f} s of CPU time")
        finally:
            daemon.terminate()
            try:
                daemon.wait(timeout=30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
            for name in ("decisions.jsonl",):
                with contextlib.suppress(OSError):
                    shutil.copy(state / "live" / CLUSTER / name, out.with_suffix(f".{name}"))


def _wait_until_it_leads(daemon: "subprocess.Popen[bytes]", log_path: Path) -> None:
    """Wait until the daemon says that it follows a release."""
    deadline = time.monotonic() + READY_LIMIT_S
    while b"following " not in log_path.read_bytes():
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"The daemon does not lead:\n{log_path.read_text()[-2_000:]}")
        time.sleep(0.05)


def say(text: str) -> None:
    """Tell the process that started this one."""
    print(text, flush=True)


def _leave(*_: object) -> None:
    raise SystemExit(1)


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    run(read_request(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
