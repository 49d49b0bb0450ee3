"""`lucid live kueue` as its users run it, against an API server on loopback: order, way back, kill -9."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from foundation.process_lock import holder
from live_scheduler.assembly import RELEASES_DIR
from live_scheduler.safety.dead_mans_switch import WATCH_LOCK
from live_scheduler.settings_file import state_folder
from parts.kueue.tests.kueue_server import WORKLOADS, KueueServer, serve
from parts.kueue.tests.test_daemon import USER_LABEL, SmallKueue, kubeconfig
from tests.command_line import Lucid
from tests.live_scheduler.live_release import AWAY, keep_release
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

SETTINGS = """
cluster = "lab"
mode = "control"
pass_interval_s = 0.3
dead_after_s = 2.0
http_port = -1

[kueue]
kubeconfig = "{kubeconfig}"
user_labels = ["{label}"]
"""


def priorities(server: KueueServer) -> dict[str, int]:
    return {key: item["spec"]["priority"] for key, item in list(server.lists[WORKLOADS].items())}


@pytest.fixture
def lab(small_model_files: Any, tmp_path: Path) -> Iterator[tuple[SmallKueue, dict[str, str], Path]]:
    """Six workloads behind one that runs; Kueue, the environment and the settings of the commands."""
    with serve() as server, ticking(server):
        kueue = SmallKueue(server, quota=4)
        kueue.submit("blocker", "u0", 4)
        kueue.step()
        for number in range(6):
            kueue.submit(f"w{number}", f"u{number}", 4)
        settings = tmp_path / "live.toml"
        found = kubeconfig(server, tmp_path / "kube")
        settings.write_text(SETTINGS.format(kubeconfig=found, label=USER_LABEL))
        environment = os.environ | {"LUCID_STATE_DIR": str(tmp_path / "state"), "LUCID_TRACKING_URI": AWAY}
        keep_release(state_folder(tmp_path / "state", "lab") / RELEASES_DIR, small_model_files, cluster="lab")
        yield kueue, environment, settings


@contextmanager
def ticking(server: KueueServer) -> Iterator[None]:
    """Let the server's clock be this machine's: a daemon reading_problem one that is far off."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.05):
            server.clock_s = time.time()

    server.clock_s = time.time()
    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def daemon(environment: dict[str, str], settings: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "lucid_cli.main", "live", "kueue", "--settings", str(settings)]
    with settings.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        watch = holder(state_folder(Path(environment["LUCID_STATE_DIR"]), "lab") / WATCH_LOCK)
        if watch is not None:
            with suppress(ProcessLookupError):
                os.kill(watch, signal.SIGTERM)


def test_orders_the_queue_and_restores_it(
    lab: tuple[SmallKueue, dict[str, str], Path], lucid: Lucid, monkeypatch: pytest.MonkeyPatch
) -> None:
    kueue, environment, settings = lab
    monkeypatch.setenv("LUCID_STATE_DIR", environment["LUCID_STATE_DIR"])
    server = kueue.server
    with daemon(environment, settings) as process:
        wait_until(lambda: sorted(map(bool, priorities(server).values())) == [False, *[True] * 6], "an order")
        found = priorities(server)
        assert found["vision/blocker"] == 0
        assert len(set(found.values())) == 7
        # One that runs by then is given back too: it may be evicted, and queue again.
        kueue.finish("vision/blocker")
        kueue.step()
        assert kueue.admitted[-1] == max(found, key=lambda key: found[key])
        said = lucid("live", "restore", "--cluster", "lab")
        assert said.code == 0, said.err
        assert "everything was given back" in said.out + said.err
        assert process.wait(timeout=PATIENCE_S) == 0
    assert set(priorities(server).values()) == {0}
    assert not any(item["metadata"].get("annotations") for item in server.lists[WORKLOADS].values())


def test_a_daemon_that_is_killed_is_followed_by_kueues_own_order(
    lab: tuple[SmallKueue, dict[str, str], Path],
) -> None:
    kueue, environment, settings = lab
    server = kueue.server
    with daemon(environment, settings) as process:
        wait_until(lambda: sorted(map(bool, priorities(server).values())) == [False, *[True] * 6], "an order")
        process.kill()
        wait_until(lambda: set(priorities(server).values()) == {0}, "Kueue's own order")
