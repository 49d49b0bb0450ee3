"""`make bench-live`: one job stream on real Slurms under FIFO, under our daemon, and with true run times.

    python -m benchmarks.live.bench [--seeds 1 2 3] [--stream FILE [--history FILE]] [--write PAGE]

First the cluster's past is run on a Slurm, ingested, learned from, and a release published into an MLflow of
the bench's own. Then each stream is run once a mode, the modes side by side on a Slurm each. What is done is
kept in `--out`, and a bench that was broken off goes on there.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.live.foretell import foretell
from benchmarks.live.history import run_history
from benchmarks.live.measures import Floats
from benchmarks.live.one_run import RunMode, RunRequest
from benchmarks.live.page import SeedResult, draw, figures_of, provenance, tables_of
from benchmarks.live.publication import HOLD_OUT_DAYS, PublicationError, publish_from
from benchmarks.live.runs import RunError, first_estimates, read_run, run_side_by_side
from benchmarks.live.site import Users, stand_ins
from benchmarks.live.stream import (
    SPAN_S,
    Session,
    StreamJob,
    VirtualCluster,
    make_world,
    read_stream,
    sized_for,
    stream_text,
)
from benchmarks.live.submission import StreamError
from experiments.pages import publish
from foundation.errors import BadInputError, LucidError
from tests.fixtures import MlflowServer
from tests.slurm.private_slurm import SlurmStartError

LEAST_JOBS = 200
HISTORY_DAYS = 10
# What else the daemon is told.
SETTINGS: dict[str, float | str] = {}


@dataclass(frozen=True)
class Plan:
    """What is to be run: streams by name, the past, the cluster, and whose accounts are used."""

    streams: dict[str, list[StreamJob]]
    history: list[Session]
    virtual_clusters: tuple[VirtualCluster, ...]
    users: Users

    def digest(self) -> str:
        """Return what tells this past, cluster and users from others."""
        values = [
            [asdict(session) for session in self.history],
            [asdict(one) for one in self.virtual_clusters],
            dict(self.users.accounts),
        ]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def plan_of(given: argparse.Namespace) -> Plan:
    """Return what the arguments ask for. Raises LucidError."""
    world = make_world(given.world)
    clusters = world.virtual_clusters
    history = world.history(HISTORY_DAYS)
    if given.stream is None:
        streams = {
            f"seed-{seed}": world.stream(seed, span_s=given.span_s, least_jobs=given.jobs)
            for seed in given.seeds
        }
    else:
        jobs = read_stream(given.stream, time_scale=given.time_scale)
        before = read_stream(given.history, time_scale=given.time_scale) if given.history else []
        if given.past_share:
            before, jobs = split(jobs, given.past_share)
        streams = {given.stream.stem: jobs}
        clusters = sized_for(jobs)
        if before:
            history = in_days(before, HISTORY_DAYS)
    everyone = [job for jobs in streams.values() for job in jobs]
    past = [job for session in history for job in session.jobs]
    names = {one.name for one in clusters}
    if strangers := sorted({job.virtual_cluster for job in past} - names):
        clusters = (*clusters, *(VirtualCluster(name, 1, 0.0) for name in strangers))
    users = stand_ins({job.user for job in (*everyone, *past)})
    return Plan(streams, history, clusters, users)


def split(jobs: Sequence[StreamJob], share: float) -> tuple[list[StreamJob], list[StreamJob]]:
    """Return the first share of a stream, and the rest as a stream of its own. Raises BadInputError."""
    first = round(share * len(jobs))
    if not 0 < first < len(jobs):
        raise BadInputError(f"A past of {share:g} of {len(jobs)} jobs.", remedy="Give one between 0 and 1.")
    begin_s = jobs[first].offset_s
    return list(jobs[:first]), [replace(job, offset_s=job.offset_s - begin_s) for job in jobs[first:]]


def in_days(jobs: Sequence[StreamJob], days: int) -> list[Session]:
    """Cut a stream into equally long stretches, one a day, at eight in the morning."""
    length_s = max(job.offset_s for job in jobs) / days + 1e-6
    found = []
    for day in range(days):
        here = [job for job in jobs if int(job.offset_s // length_s) == day]
        moved = (replace(job, offset_s=job.offset_s - day * length_s) for job in here)
        found.append(Session(day * 86_400.0 + 8 * 3_600.0, tuple(moved)))
    return [session for session in found if session.jobs]


class Bench:
    """The steps in `out`, each left out when its result lies there already."""

    def __init__(self, plan: Plan, out: Path) -> None:
        self.plan, self.out = plan, out
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Show progress."""
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", file=sys.stderr, flush=True)

    def take(self, *, anew: bool = False) -> None:
        """Claim the folder for this plan. Raises LucidError when another plan's results lie there."""
        plan = self.out / "plan.txt"
        if anew and plan.exists():  # a folder of ours
            shutil.rmtree(self.out)
        claims = {plan: self.plan.digest()}
        for name, jobs in self.plan.streams.items():
            claims[self.out / name / "stream.csv"] = stream_text(jobs)
        for path, text in claims.items():
            if path.exists() and path.read_text() != text:
                raise LucidError(f"{path} holds another plan's.", remedy="Give another --out, or --anew.")
        for path, text in claims.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def release(self, tracking_uri: str) -> dict[str, Any]:
        """Run the past, learn from it, publish to this MLflow; return what was published."""
        path = self.out / "release.json"
        if not path.exists():
            sacct = self._past()
            published = publish_from(
                sacct, self.plan.virtual_clusters, self.out, self._environment(tracking_uri), self.say
            )
            path.write_text(json.dumps(asdict(published), indent=1))
        found: dict[str, Any] = json.loads(path.read_text())
        self.say(f"release {found['release']['version']} is published: {found['verdict']}")
        return found

    def runs(self, modes: Sequence[RunMode], tracking_uri: str, at_once: int) -> None:
        """Run every stream under every mode."""
        for name in self.plan.streams:
            folder = self.out / name
            requests = [
                RunRequest(
                    mode=mode,
                    stream=str(folder / "stream.csv"),
                    virtual_clusters=list(self.plan.virtual_clusters),
                    accounts=dict(self.plan.users.accounts),
                    tracking_uri=tracking_uri,
                    out=str(folder / f"{mode}.json"),
                    settings=SETTINGS,
                )
                for mode in modes
            ]
            if all(Path(request.out).exists() for request in requests):
                self.say(f"{name} was measured before; --anew measures again")
            for first in range(0, len(requests), at_once):
                run_side_by_side(requests[first : first + at_once], self.say)

    def results(self, modes: Sequence[RunMode]) -> list[SeedResult]:
        """Read what was measured, and let the simulator foretell the same."""
        found = []
        for name, jobs in self.plan.streams.items():
            runs = {mode: read_run(self.out / name / f"{mode}.json") for mode in modes}
            truth = np.array([job.duration_s for job in jobs])
            estimates: dict[RunMode, Floats | None] = {RunMode.FIFO: None, RunMode.ORACLE: truth}
            if RunMode.DAEMON in modes:
                estimates[RunMode.DAEMON] = first_estimates(self.out / name / "daemon.json", len(jobs))
            clusters = self.plan.virtual_clusters
            foretold = {str(mode): foretell(jobs, clusters, estimates[mode]) for mode in modes}
            measured = {str(mode): run.times for mode, run in runs.items()}
            late_s = {str(mode): run.late_s for mode, run in runs.items()}
            commits = frozenset(run.commit for run in runs.values())
            found.append(SeedResult(name, jobs, measured, foretold, late_s, commits))
        return found

    def _past(self) -> Path:
        path = self.out / "sacct.txt"
        if not path.exists():
            jobs = sum(len(session.jobs) for session in self.plan.history)
            self.say(f"running {jobs} jobs of the cluster's past")
            days = 1 + int(max(session.begin_s for session in self.plan.history) // 86_400)
            today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            text = run_history(
                self.plan.history,
                self.plan.virtual_clusters,
                self.plan.users,
                today - timedelta(days=days),
                self.say,
            )
            path.write_text(text)
        return path

    def _environment(self, tracking_uri: str) -> dict[str, str]:
        return {
            **os.environ,
            "LUCID_LAKE_URI": str((self.out / "lake").absolute()),
            "LUCID_TRACKING_URI": tracking_uri,
            "LUCID_TRUST": "unsigned",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
        }


def remarks_of(plan: Plan, release: dict[str, Any] | None) -> list[str]:
    """Return what a reader should know of the release and of the stream."""
    said = plan.users.said
    about_users = f"{said[0].upper()}{said[1:]}."
    if release is None:
        return [about_users]
    metrics, rivals = release["duration_metrics"], release["duration_baselines"]
    best = min((values["mae_log10"], name) for name, values in rivals.items() if "mae_log10" in values)
    learned = (
        f"The release learned from {release['jobs']:,} jobs of the cluster's past, the last {HOLD_OUT_DAYS} "
        f"days held out; its run times are off by {metrics['mae_log10']:.3f} powers of ten, the best naive "
        f"estimate's ({best[1]}) by {best[0]:.3f}. The gate: {release['verdict']}"
    )
    return [learned, about_users]


def parser() -> argparse.ArgumentParser:
    """Return the program's arguments."""
    found = argparse.ArgumentParser(prog="python -m benchmarks.live.bench", description=__doc__)
    found.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="streams of our own world")
    found.add_argument("--world", type=int, default=1, help="the seed of its users and their habits")
    found.add_argument("--span-s", type=float, default=SPAN_S, help="seconds in which jobs are submitted")
    found.add_argument("--jobs", type=int, default=LEAST_JOBS, help="a stream has at least so many")
    found.add_argument("--stream", type=Path, help="or a stream of your own: CSV, see `read_stream`")
    found.add_argument("--history", type=Path, help="the past of that stream's users, as CSV")
    found.add_argument("--past-share", type=float, default=0.0, help="or that share of it, from its front")
    found.add_argument("--time-scale", type=float, default=1.0, help="divide a file's times by this")
    found.add_argument("--modes", nargs="+", type=RunMode, choices=list(RunMode), default=list(RunMode))
    found.add_argument("--at-once", type=int, default=len(RunMode), help="modes that run side by side")
    found.add_argument("--out", type=Path, default=Path(".lucid/bench-live"), help="where results are kept")
    found.add_argument("--anew", action="store_true", help="throw away what lies there first")
    found.add_argument("--write", type=Path, metavar="PAGE", help="write the tables into this page")
    return found


def _leave(*_: object) -> None:
    raise SystemExit(1)


def main() -> int:
    """Run what is missing, then print or write the tables."""
    given = parser().parse_args()
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    try:
        bench = Bench(plan_of(given), given.out.absolute())
        bench.take(anew=given.anew)
        release = None
        if set(given.modes) == {RunMode.FIFO}:
            bench.runs(given.modes, "", given.at_once)
        else:
            (bench.out / "mlflow").mkdir(exist_ok=True)
            server = MlflowServer(bench.out / "mlflow")
            try:
                bench.say("starting MLflow")
                server.start()
                release = bench.release(server.uri)
                bench.runs(given.modes, server.uri, given.at_once)
            finally:
                server.stop()
        results = bench.results(given.modes)
        figures_of(results).to_csv(bench.out / "figures.csv", index=False)
        tables = tables_of(results)
        tables["live-bench-provenance"] = provenance(
            results, list(bench.plan.streams), remarks_of(bench.plan, release)
        )
        picture = bench.out if given.write is None else given.write.parent / "images"
        draw(results, picture / "live_bench.png")
        publish(tables, given.write)
    except (LucidError, StreamError, RunError, PublicationError, SlurmStartError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
