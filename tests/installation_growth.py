"""An installation cycle after cycle: what it keeps with a retention, and without.

    python -m tests.installation_growth --write docs/keeping.md

A cycle is one training, one release (every second one is published), a pass of the monitoring, and what their
tasks leave behind, on a real MLflow. Then all of it becomes 60 days older: MLflow's rows in its database, the
other files by their times.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from cluster_logs.lake import Lake
from foundation.retention_settings import RetentionSettings
from local_stack.upkeep import mlflow_collect
from lucid_models.model_format import parse_model, save_model
from lucid_models.registry import Registry
from lucid_models.releases.lifecycle import build_release, publish_release, record_verdict
from lucid_models.releases.manifest import release_name
from pipeline.retention.folders import folder_bytes
from pipeline.retention.prune import Installation, prune
from tests.fixtures import (
    MlflowServer,
    register_small_models,
    save_small_models,
    saved_small_models,
    small_jobs,
)

CYCLE = timedelta(days=60)
# Short enough that some cycles show all of them.
SETTINGS = RetentionSettings(
    challenger_days=60,
    published_days=120,
    model_days=60,
    run_days=90,
    page_days=90,
    work_days=60,
    airflow_days=60,
    quarantine_days=90,
    lake_days=120,
)
FOREVER = replace(
    RetentionSettings(),
    **dict.fromkeys([name for name in asdict(SETTINGS) if name.endswith("_days") and name != "deleted_days"]),
)
EPOCH = pd.Timestamp("2026-01-01", tz="UTC")
KIB = 1_024


@dataclass(frozen=True)
class Size:
    """What there is after a cycle's pass."""

    cycle: int
    releases: int
    model_versions: int
    runs: int
    mlflow_kib: int
    lake_kib: int
    state_kib: int


@dataclass(frozen=True)
class GrowingInstallation:
    """A lake, a state folder and an MLflow server, whose clock a test moves."""

    server: MlflowServer
    folder: Path
    files: Mapping[str, list[Path]]

    @property
    def places(self) -> Installation:
        """What a pass looks at."""
        return Installation(
            self.server.uri, str(self.folder / "lake"), self.folder / "state", self.folder / "airflow-logs"
        )

    def work(self, cycle: int) -> int:
        """Train, release, judge, perhaps publish, monitor; returns the release's version."""
        self._train(cycle)
        built = build_release(tracking_uri=self.server.uri, cluster="small", settings={"gss": cycle + 1})
        verdict = {"approved": True, "sentence": "No loss was found.", "objective": {"change_pct": -3.0}}
        record_verdict(tracking_uri=self.server.uri, cluster="small", version=built.version, verdict=verdict)
        if cycle % 2 == 0:
            publish_release(tracking_uri=self.server.uri, cluster="small", version=built.version)
        with Registry(self.server.uri).run("lucid-monitoring", "small", {"cluster": "small"}) as run:
            run.log_folder(self._filled(self.folder / "scratch" / "monitoring"))
        self._filled(self.folder / "airflow-logs" / "dag_id=ingest_logs" / f"run_id=cycle{cycle}")
        self._filled(self.folder / "lake" / "sweeps" / "cluster=small" / f"sweep{cycle}")
        for day in range(61):  # of which an index lists 60
            self._filled(self.folder / "state" / "monitoring" / "small" / f"{cycle:03d}-{day:02d}", kib=1)
        self._ingest(cycle)
        return built.version

    def grow_older(self, by: timedelta = CYCLE) -> None:
        """Let all that there is be so much older."""
        ms, names = int(by.total_seconds() * 1e3), ["start_time", "end_time", "deleted_time"]
        columns = {
            "runs": names,
            "model_versions": ["creation_time", "last_updated_time"],
            "logged_models": ["creation_timestamp_ms", "last_updated_timestamp_ms"],
        }
        with closing(sqlite3.connect(self.server.folder / "mlflow.db", timeout=60)) as database, database:
            for table, moments in columns.items():
                for column in moments:
                    database.execute(f"UPDATE {table} SET {column} = {column} - ?", (ms,))
            told = database.execute(
                "SELECT name, version, value FROM model_version_tags WHERE key = 'went_live'"
            ).fetchall()
            for name, version, text in told:
                decision = json.loads(text)
                decision["at"] = (datetime.fromisoformat(decision["at"]) - by).isoformat()
                database.execute(
                    "UPDATE model_version_tags SET value = ? "
                    "WHERE key = 'went_live' AND name = ? AND version = ?",
                    (json.dumps(decision), name, version),
                )
        for top in ("lake", "state", "airflow-logs"):
            for path in (self.folder / top).rglob("*"):
                written_s = path.stat().st_mtime - by.total_seconds()
                os.utime(path, (written_s, written_s))

    def apply(self, settings: RetentionSettings) -> None:
        """What the DAG and the upkeep do in a day."""
        problems = [each.problem for each in prune(self.places, settings) if each.problem]
        assert not problems, problems
        store = f"sqlite:///{self.server.folder / 'mlflow.db'}"
        subprocess.run(mlflow_collect(settings, store, self.server.uri), check=True, capture_output=True)

    def size(self, cycle: int) -> Size:
        """What there is now."""
        registry = Registry(self.server.uri)
        names = registry.models_named("lucid-")
        versions = {name: len(registry.versions(name)) for name in names}
        with closing(sqlite3.connect(self.server.folder / "mlflow.db", timeout=60)) as database:
            runs = database.execute("SELECT count(*) FROM runs").fetchone()[0]
        state_bytes = sum(folder_bytes(self.folder / name) for name in ("state", "airflow-logs"))
        return Size(
            cycle,
            versions.get(release_name("small"), 0),
            sum(count for name, count in versions.items() if name != release_name("small")),
            int(runs),
            folder_bytes(self.server.folder / "artifacts") // KIB,
            folder_bytes(self.folder / "lake") // KIB,
            state_bytes // KIB,
        )

    def _train(self, cycle: int) -> None:
        """Register a duration model of its own file and data."""
        if cycle == 0:
            register_small_models(self.server.uri, dict(self.files))
        registry = Registry(self.server.uri)
        file = self.folder / "scratch" / "duration.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        digest = save_model(
            parse_model(self.files["duration"][cycle % 2].read_bytes(), kind="duration"), file
        )
        example = pd.DataFrame({"job_id": ["a"], "gpus": [2], "submit_time_s": [1.6e9], "user": ["u1"]})
        tags = {
            "digest": digest,
            "dataset_digest": f"{cycle:064x}",
            "cluster": "small",
            "synthetic_logs": "true",
        }
        with registry.run("lucid-training", f"small duration {cycle}", tags) as run:
            uri, model_id = run.log_scorer("lucid-duration", "duration", file, example)
            registry.create_version(
                "lucid-duration", uri, run.run_id, tags, description="test", model_id=model_id
            )

    def _ingest(self, cycle: int) -> None:
        lake = Lake(str(self.folder / "lake"))
        jobs = small_jobs(200, seed=cycle)
        first = EPOCH + cycle * CYCLE
        for column in ("submit_time", "start_time", "end_time"):
            jobs[column] += first - pd.Timestamp("2020-04-01", tz="UTC")
        lake.write_jobs("small", jobs.assign(source_file="log.synthetic", source_row=range(len(jobs))))

    def _filled(self, folder: Path, kib: int = 16) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_bytes(np.random.default_rng(0).bytes(kib * KIB))
        return folder


def cycles(installation: GrowingInstallation, settings: RetentionSettings, count: int) -> Iterator[Size]:
    """Work, grow older and apply the settings, so many times; yields the size after each."""
    for cycle in range(count):
        installation.work(cycle)
        installation.apply(settings)
        yield installation.size(cycle + 1)
        installation.grow_older()


def main() -> int:
    """Print the table, or write it between the marks of a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cycles", type=int, default=8)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    sizes: dict[str, list[Size]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "models").mkdir()
        save_small_models(Path(scratch) / "models")
        for name, settings in (("with", SETTINGS), ("without", FOREVER)):
            server = MlflowServer(Path(scratch) / name / "mlflow")
            server.folder.mkdir(parents=True)
            server.start()
            try:
                files = saved_small_models(Path(scratch) / "models")
                installation = GrowingInstallation(server, Path(scratch) / name, files)
                sizes[name] = list(cycles(installation, settings, asked.cycles))
            finally:
                server.stop()
    columns = [name for name in asdict(sizes["with"][0]) if name != "cycle"]
    titles = [name.replace("_kib", ", KiB").replace("_", " ") for name in columns]
    lines = [f"| cycle | {' | '.join(titles)} |", f"|{' ---: |' * (len(columns) + 1)}"]
    for kept, grown in zip(sizes["with"], sizes["without"], strict=True):
        pairs = [f"{getattr(kept, name):,} ({getattr(grown, name):,})" for name in columns]
        lines.append(f"| {kept.cycle} | {' | '.join(pairs)} |")
    if asked.write is None:
        print("\n".join(lines))
        return 0
    head, _, rest = asked.write.read_text(encoding="utf-8").partition("<!-- growth: begin -->\n")
    _, _, tail = rest.partition("<!-- growth: end -->")
    table = "\n".join(lines)
    asked.write.write_text(
        f"{head}<!-- growth: begin -->\n{table}\n<!-- growth: end -->{tail}", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
