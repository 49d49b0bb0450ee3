"""Measures the live policy's regret over the last day now and then, beside the passes, and the agreement.

A replay may take seconds of computing, so a process of its own makes it, with low priority; it ends with the
daemon, however that ends. The daemon (`RegretJob`) only starts it, and reads what it leaves in the state
folder.
"""

import ctypes
import json
import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from foundation.errors import LucidError
from foundation.replaced_files import replace_file
from live_scheduler.cluster_state import ClusterState
from live_scheduler.daemon import JOURNAL_FILE
from live_scheduler.deciding.live_policies import live_policy
from live_scheduler.hindsight.decision_log import DECISIONS_FILE, estimates_at_submission, read_lines
from live_scheduler.hindsight.replayed_window import Hindsight, judge_window, lived_jobs
from live_scheduler.live_settings import LiveSettings
from live_scheduler.live_view import LiveView
from live_scheduler.memory.journal import Journal
from live_scheduler.settings_file import settings_from

logger = logging.getLogger("lucid.live")
HINDSIGHT_FILE = "hindsight.json"
EVERY_S = 600.0
WINDOW_S = 86_400.0
# Before the window: for the jobs that ran or waited when it began.
WARM_UP_S = 86_400.0
LIMIT_S = 300.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class StartAgreement:
    """Starts since a time, beside the decision log. `agreed`: the policy would have made them by then too.

    In the mode `observe` the cluster keeps its own order; in the mode `control` nearly all should be agreed:
    where they are not, limits and rules that only the cluster knows stood in the way.

    `mean_lead_s`: how long before its start the policy first chose a job of these, None without any.
    `passed_over`: jobs that the policy would have started and that were not started by the log's end.
    """

    started: int
    agreed: int
    mean_lead_s: float | None
    passed_over: int

    @property
    def share(self) -> float | None:
        """The share of starts that the policy agreed with; None without a start."""
        return self.agreed / self.started if self.started else None


def start_agreement(log: Path, since_s: float = -math.inf) -> StartAgreement:
    """Compare the starts in a decision log from `since_s` (Unix time) on."""
    first_chosen_s: dict[str, float] = {}
    leads: list[float] = []
    started = 0
    for line in read_lines(log):
        for job_id in line.chosen:
            first_chosen_s.setdefault(job_id, line.at_s)
        for job_id in line.started:
            first_s = first_chosen_s.pop(job_id, None)
            if line.at_s >= since_s:
                started += 1
                if first_s is not None:
                    leads.append(line.at_s - first_s)
    mean_lead_s = sum(leads) / len(leads) if leads else None
    return StartAgreement(
        started, len(leads), mean_lead_s, sum(at_s >= since_s for at_s in first_chosen_s.values())
    )


@dataclass(frozen=True)
class RegretReport:
    """The regret and agreement at `at_s` (Unix time); `hindsight` is None where `problem` says why."""

    at_s: float
    agreement: StartAgreement
    hindsight: Hindsight | None
    problem: str | None = None


_REPORT = TypeAdapter(RegretReport)


def make_regret_report(
    state_dir: Path,
    *,
    nodes: list[tuple[str, int, list[str]]],
    settings: LiveSettings,
    start_s: float,
    end_s: float,
) -> RegretReport:
    """Measure [start_s, end_s) by the journal and the decision log of a state folder.

    `nodes` as (name, GPUs, partitions); `settings` are those in force.
    """
    log = state_dir / DECISIONS_FILE
    since_s = start_s - WARM_UP_S
    agreed = start_agreement(log, start_s)
    jobs = lived_jobs(Journal(state_dir / JOURNAL_FILE).read(since_s), estimates_at_submission(log))
    try:
        hindsight = judge_window(
            jobs,
            start_s=start_s,
            end_s=end_s,
            nodes=nodes,
            policy=lambda: live_policy(settings),
            policy_name=settings.policy,
        )
    except LucidError as error:
        return RegretReport(end_s, agreed, None, str(error))
    return RegretReport(end_s, agreed, hindsight)


def read_regret_report(state_dir: Path) -> RegretReport | None:
    """Return the last report of a state folder; None where there is none that can be read."""
    try:
        return _REPORT.validate_json((state_dir / HINDSIGHT_FILE).read_bytes())
    except (OSError, ValueError):
        return None


class RegretJob:
    """Starts processes that write reports, one at a time; `latest` is the last. Called at each pass."""

    def __init__(
        self,
        state_dir: Path,
        *,
        every_s: float = EVERY_S,
        window_s: float = WINDOW_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The first report begins after `every_s`."""
        self._state_dir = state_dir
        self._every_s, self._window_s, self._clock = every_s, window_s, clock
        self._begun_s = clock()  # so that the first report has a window
        self._process: subprocess.Popen[str] | None = None
        self.latest: RegretReport | None = read_regret_report(state_dir)

    def passed(self, view: LiveView) -> None:
        """Start a report when it is due, and read one that is done. Raises OSError."""
        now_s = self._clock()
        if self._process is not None:
            if self._process.poll() is None and now_s - self._begun_s <= LIMIT_S:
                return
            self._finish()
        if view.cluster is not None and now_s - self._begun_s >= self._every_s:
            self._begun_s = now_s
            self._begin(view, view.cluster)

    def close(self) -> None:
        """End a report that is being made."""
        if self._process is not None:
            self._process.kill()
            self._finish()

    def _begin(self, view: LiveView, cluster: ClusterState) -> None:
        request = {
            "nodes": [[n.name, n.gpus, list(n.partitions)] for n in cluster.nodes if n.available and n.gpus],
            "settings": asdict(view.settings),
            "start_s": view.at_s - self._window_s,
            "end_s": view.at_s,
        }
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "live_scheduler.hindsight.regret_job",
                str(self._state_dir),
                str(os.getpid()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if self._process.stdin is not None:
            with suppress(BrokenPipeError), self._process.stdin as pipe:
                pipe.write(json.dumps(request))

    def _finish(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.kill()
        if process.wait():
            logger.warning("a regret report ended with %s", process.returncode)
        self.latest = read_regret_report(self._state_dir) or self.latest


def main() -> int:
    """Write one report as the request on standard input says, into the state folder."""
    state_dir, parent = Path(sys.argv[1]), int(sys.argv[2])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return 1
    os.nice(10)
    request = json.load(sys.stdin)
    report = make_regret_report(
        state_dir,
        nodes=[(name, gpus, partitions) for name, gpus, partitions in request["nodes"]],
        settings=settings_from(request["settings"]),
        start_s=request["start_s"],
        end_s=request["end_s"],
    )
    replace_file(state_dir / HINDSIGHT_FILE, json.dumps(asdict(report), allow_nan=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
