"""Which log is planned for, and where the plan's inputs are kept so that its commands find them."""

import shlex
from collections.abc import Mapping, Sequence
from csv import writer
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from cluster_logs.lake import Lake
from cluster_logs.log_span import submission_span
from foundation.csv_files import csv_text
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from foundation.replaced_files import replace_file
from foundation.run_manifest import frame_sha256
from foundation.storage import write_bytes, write_frame
from pipeline.loaning.inference_lender import InferenceLender
from pipeline.planning.planned_log import PlannedLog, read_planned_log
from pipeline.planning.planned_run import PlannedRun
from pipeline.replay.cluster_events import ClusterSize, lake_sizes
from pipeline.replay.log_file import LogFile, read_lake_jobs
from pipeline.replay.log_scenario import LogToReplay
from pipeline.replay.warm_up import warm_up_days_of
from pipeline.training.windows import read_time
from simulator.job_columns import ARRIVAL
from simulator.loaning.jobs_in_workers import JobMix
from simulator.policies.registry import policy_class
from simulator.rule_sets import load_rules

WORKER_FORMAT, WORKER_FORMAT_RULES = "lyra-csv", "lyra"
_MODE = 0o644


@dataclass(frozen=True)
class LogRequest:
    """A log file with the size of its cluster, or (with `cluster`) a cluster of the lake.

    A file's `end` is included and its naive times are on the log's clock, as of `lucid simulate`; the lake's
    `end` is not, and its clock is UTC. `inference` is the load of servers that may be lent; `lake_load`:
    where it is not given, the lake's of this cluster, if there is one of a known number of servers. The jobs
    before `start` fill the cluster, unless it is to start `cold`, or as another simulator (`rules`) does.
    """

    jobs: str | None = None
    source_format: str | None = None
    nodes: str | None = None
    gpus: int | None = None
    gpus_per_node: int = 8
    start: str | None = None
    end: str | None = None
    time_zone: str | None = None
    rules: str | None = None
    cluster: str | None = None
    lake_uri: str | None = None
    training_servers: int | None = None
    inference: str | None = None
    inference_servers: int | None = None
    scenario: str = "basic"
    loaned_workers: int | None = None
    lake_load: bool = True
    cold: bool = False

    def __post_init__(self) -> None:
        if self.cluster is not None and self.jobs is None:
            for name in ("nodes", "gpus", "source_format"):
                if getattr(self, name) is not None:
                    raise BadInputError(
                        f"Cluster {self.cluster!r} comes from the lake, but {name} is "
                        f"{getattr(self, name)!r}.",
                        remedy=f"Leave {name} out, or give the log as a file.",
                    )
        elif self.jobs is None or self.source_format is None:
            raise BadInputError(
                "There is no log to plan for.",
                remedy="Give a cluster of the lake, or a log file with its format.",
            )
        elif [self.nodes, self.gpus, self.training_servers].count(None) != 2:
            raise BadInputError(
                "The cluster's size is not clear.",
                remedy="Give one of a file of nodes, a number of GPUs, or a number of training servers.",
            )
        if self.source_format == WORKER_FORMAT and self.inference is None:
            raise BadInputError(
                f"A log of {WORKER_FORMAT} is replayed beside inference servers.",
                remedy="Give their load.",
            )
        if self.gpus_per_node < 1 or (self.gpus is not None and self.gpus < 1):
            raise BadInputError(
                f"A cluster of {self.gpus} GPUs, {self.gpus_per_node} a node.", remedy="Use 1 or more."
            )

    @property
    def rule_set(self) -> str:
        """Name the rule set: by default that of the log's format."""
        return self.rules or (WORKER_FORMAT_RULES if self.source_format == WORKER_FORMAT else "default")

    def read(self, policy: str, replays_uri: str, progress: Progress = silent) -> PlannedLog:
        """Read the log for a policy. The lake's jobs are first written below `replays_uri`, a file to replay.

        Raises BadInputError for what cannot be used, NotFoundError when the lake lacks the cluster.
        """
        rules = load_rules(self.rule_set)
        class_ = policy_class(policy, rules)
        warm_up_days = warm_up_days_of(rules, cold=self.cold)
        start, end = read_time(self.start), read_time(self.end)
        if self.cluster is not None and self.jobs is None:
            sizes = self._lake_sizes()
            path, source_format = self._frozen_jobs(self.cluster, replays_uri, start, end, warm_up_days)
            log = LogFile(path, source_format, start, warm_up_days=warm_up_days)
        else:
            assert self.jobs is not None  # noqa: S101 - checked when it was made
            assert self.source_format is not None  # noqa: S101
            path, source_format, sizes = str(Path(self.jobs).absolute()), self.source_format, None
            if "://" in self.jobs:
                path = self.jobs
            log = LogFile(path, source_format, start, end, self.time_zone, warm_up_days)
        inference = self.inference
        if inference is None and self.lake_load and self.cluster is not None and self.jobs is None:
            inference = self._frozen_load(self.cluster, replays_uri)
        size = ClusterSize(self.nodes, self.gpus, self.gpus_per_node, self.training_servers)
        if self.training_servers is not None:
            sizes = size.read(log.zone)
        return read_planned_log(
            LogToReplay(log, size, rules=rules, companions=self._lender(inference)),
            needs_estimates=class_.needs_estimates,
            needs_profiles=class_.reads_profiles,
            command=self._words(log, inference),
            sizes=sizes,
            progress=progress,
        )

    def _words(self, log: LogFile, inference: str | None) -> list[str]:
        words = ["--jobs", log.path, "--format", log.source_format]
        for option, value in (
            ("--start", log.start and self.start),
            ("--end", log.end and self.end),
            ("--time-zone", log.time_zone),
        ):
            words += [option, value] if value else []
        words += ["--cold"] if log.start and self.cold else []
        words += ["--rules", self.rules] if self.rules else []
        if inference is not None:
            words += ["--inference", inference if "://" in inference else str(Path(inference).absolute())]
            words += ["--scenario", self.scenario]
            words += ["--loaned-workers", str(self.loaned_workers)] if self.loaned_workers else []
            words += ["--inference-servers", str(self.inference_servers)] if self.inference_servers else []
        return words

    def _lender(self, inference: str | None) -> tuple[InferenceLender, ...]:
        if inference is None:
            return ()
        mix = JobMix(scenario=self.scenario)  # type: ignore[arg-type]
        return (InferenceLender(inference, self.inference_servers, mix, self.loaned_workers),)

    def _frozen_jobs(
        self,
        cluster: str,
        replays_uri: str,
        start: datetime | None,
        end: datetime | None,
        warm_up_days: float,
    ) -> tuple[str, str]:
        """Write the jobs that count, and those that fill the cluster before them, to a file to replay."""
        warm = read_lake_jobs(self._lake_uri, cluster, start, end, warm_up_days=warm_up_days)
        jobs = warm.jobs.drop(columns=ARRIVAL, errors="ignore")
        uri = f"{replays_uri.rstrip('/')}/jobs-{frame_sha256(jobs)[:12]}.parquet"
        write_frame(uri, jobs)
        return uri, "lake"

    def _frozen_load(self, cluster: str, replays_uri: str) -> str | None:
        """Write the lake's inference load to a file to replay; None: the lake has none that can be lent."""
        try:
            load = Lake(self._lake_uri).read_inference_load(cluster)
        except NotFoundError:
            return None
        if self.inference_servers is None and load["servers"].isna().all():
            return None
        text = csv_text(load[["time", "usage", "servers", "gap"]].assign(gap=load["gap"].astype(int)))
        uri = f"{replays_uri.rstrip('/')}/load-{sha256(text.encode()).hexdigest()[:12]}.csv"
        write_bytes(uri, text.encode())
        return uri

    def _lake_sizes(self) -> pd.DataFrame:
        assert self.cluster is not None  # noqa: S101 - the caller looked
        last = submission_span(self._lake_uri, self.cluster)[1]
        return lake_sizes(self._lake_uri, self.cluster, last, ZoneInfo("UTC"))

    @property
    def _lake_uri(self) -> str:
        from pipeline import settings

        return self.lake_uri or settings.lake_uri()


@dataclass(frozen=True)
class Commands:
    """Writes the nodes of runs to files, and says the `lucid simulate` that repeats a run."""

    log: PlannedLog
    out_dir: Path

    def of(self, run: PlannedRun) -> str:
        """Return the command; its file of nodes is written."""
        words = ["lucid", "simulate", *self.log.command, *self._nodes_words(run.nodes), *run.command_words()]
        name = sha256(repr(run.to_dict()).encode()).hexdigest()[:12]
        return shlex.join([*words, "--no-plot", "--out", str(self.out_dir.absolute() / "check" / name)])

    def _nodes_words(self, nodes: Mapping[str, int]) -> Sequence[str]:
        per_node = self.log.gpus_per_node
        if self.log.one_pool:
            return "--gpus", str(sum(nodes.values()) * per_node)
        text = StringIO()
        # Names as they are: it is read back by the product, which takes a text as it stands.
        rows = writer(text, lineterminator="\n")
        homes = self.log.homes
        if all(name == pool for name, pool in homes.items()):
            rows.writerow(("virtual_cluster", "nodes"))
            rows.writerows(nodes.items())
        else:
            rows.writerow(("node", "gpus", "partitions"))
            for pool, count in nodes.items():
                owners = ",".join(name for name, home in homes.items() if home == pool)
                rows.writerows((f"{pool} {number}", per_node, owners) for number in range(count))
        digest = sha256(text.getvalue().encode()).hexdigest()[:8]
        path = self.out_dir.absolute() / "nodes" / f"{sum(nodes.values())}-{digest}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            replace_file(path, text.getvalue(), mode=_MODE)
        return "--nodes", str(path), "--gpus-per-node", str(per_node)
