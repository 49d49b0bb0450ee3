"""A newcomer who follows "Add a live adapter" in CONTRIBUTING.md to the letter orders a new kind of queue."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foundation import parts
from live_scheduler.assembly import RELEASES_DIR
from live_scheduler.settings_file import state_folder
from tests.command_line import Lucid
from tests.live_scheduler.live_release import AWAY, keep_release
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = TEXT.split("## Add a live adapter\n")[1].split("\n## ")[0]
MODULE = ROOT / "tests" / "contributing" / "jobs_file.py"  # which the section names
ENTRY_POINT, SETTINGS = re.findall(r"^ *```toml\n(.*?)^ *```$", SECTION, re.DOTALL | re.MULTILINE)


class JobsFile:
    """Six waiting jobs behind one that runs, and the adapter that the page shows, as if installed."""

    def __init__(self, folder: Path, models: Any) -> None:
        self.package = folder / "package"
        info = self.package / "jobs_file-1.0.dist-info"
        info.mkdir(parents=True)
        assert MODULE.relative_to(ROOT).as_posix() in SECTION
        shutil.copy(MODULE, self.package)
        header, line = (part.strip() for part in ENTRY_POINT.strip().splitlines())
        assert header == '[project.entry-points."lucid.parts"]'
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jobs-file\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[lucid.parts]\n{line.replace(chr(34), '')}\n")

        self.jobs, self.settings = folder / "jobs.json", folder / "live.toml"
        now = time.time()
        rows = [
            {"id": f"j{at}", "gpus": 1 + at % 4, "submitted": now - 60 + at, "started": None, "priority": 0}
            for at in range(6)
        ]
        rows.append({"id": "runs", "gpus": 8, "submitted": now - 90, "started": now - 80, "priority": 0})
        self.jobs.write_text(json.dumps({"gpus": 8, "jobs": rows}))
        text = SETTINGS.replace("observe", "control").replace("/var/lib/cluster/jobs.json", str(self.jobs))
        self.settings.write_text("pass_interval_s = 0.3\ndead_after_s = 2.0\nhttp_port = -1\n" + text)
        state = folder / "state"
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.package), str(ROOT)]),
            "LUCID_STATE_DIR": str(state),
            "LUCID_TRACKING_URI": AWAY,
        }
        keep_release(state_folder(state, "mine") / RELEASES_DIR, models, cluster="mine")

    def priorities(self) -> dict[str, int]:
        try:
            rows = json.loads(self.jobs.read_text())["jobs"]
        except ValueError:  # it is being written
            return {}
        return {row["id"]: row["priority"] for row in rows}

    def ordered(self) -> bool:
        given = self.priorities()
        return sorted(map(bool, given.values())) == [False, *[True] * 6] and not given["runs"]

    def lucid(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "lucid_cli.main", "live", *words]


@pytest.fixture
def cluster(tmp_path: Path, small_model_files: Any) -> JobsFile:
    return JobsFile(tmp_path, small_model_files)


@pytest.fixture
def daemon(cluster: JobsFile) -> Iterator["subprocess.Popen[str]"]:
    (command,) = re.findall(r"`lucid live (\w+) --settings FILE`", SECTION)
    process = subprocess.Popen(
        cluster.lucid(command, "--settings", str(cluster.settings)),
        env=cluster.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.mark.slow
def test_the_daemon_orders_it_and_gives_it_back(cluster: JobsFile, daemon: "subprocess.Popen[str]") -> None:
    wait_until(lambda: cluster.ordered() or daemon.poll() is not None, "an order")
    assert cluster.ordered()
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate(timeout=PATIENCE_S)
    assert daemon.returncode == 0
    assert set(cluster.priorities().values()) == {0}


@pytest.mark.slow
def test_the_dead_mans_switch_finds_it_too(cluster: JobsFile, daemon: "subprocess.Popen[str]") -> None:
    wait_until(lambda: cluster.ordered() or daemon.poll() is not None, "an order")
    daemon.kill()
    wait_until(lambda: set(cluster.priorities().values()) == {0}, "the file's own order")


def test_its_settings_are_checked_and_its_name_is_offered(
    cluster: JobsFile, lucid: Lucid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(cluster.package)
    monkeypatch.setattr(parts, "installed_parts", parts.installed_parts.__wrapped__)  # as in a new process

    def run(settings: str) -> str:
        cluster.settings.write_text(f'cluster = "mine"\n{settings}')
        said = lucid("live", "run", "--settings", cluster.settings)
        assert said.code == 1
        return said.err

    assert "'pth'" in run('[jobs_file]\npth = "x"')
    assert re.search(r"jobs_file, (?:\w+, )*slurm", run('adapter = "jobs"'))
    assert "neither moves jobs" in run('profiling_partition = "prof"\n[jobs_file]')
