"""Which log is planned for, and where the plan's inputs are kept so that its commands find them."""

import shlex
from collections.abc import Mapping, Sequence
from csv import writer
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd

from cluster_logs.log_span import submission_span
from foundation.errors import BadInputError
from foundation.progress import Progress, silent
from foundation.replaced_files import replace_file
from foundation.run_manifest import frame_sha256
from foundation.site import Site
from foundation.storage import write_frame
from pipeline.planning.planned_log import PlannedLog, read_planned_log
from pipeline.planning.planned_part import ClusterOfLake, planned_parts
from pipeline.planning.planned_run import PlannedRun
from pipeline.replay.cluster_events import ClusterSize, lake_sizes
from pipeline.replay.log_file import LogFile, read_lake_jobs
from pipeline.replay.log_scenario import LogToReplay
from pipeline.replay.warm_up import warm_up_days_of
from pipeline.training.windows import read_time
from simulator.policies.registry import policy_class
from simulator.scenario.rules import load_rules
from simulator.workload.job_columns import ARRIVAL

_MODE = 0o644


@dataclass(frozen=True)
class LogRequest:
    """A log file with the size of its cluster, or (with `cluster`) a cluster of the lake.

    A file's `end` is included and its naive times are on the log's clock, as of `lucid simulate`; the lake's
    `end` is not, and its clock is UTC. The jobs before `start` fill the cluster, unless it is to start
    `cold`, or as another simulator (`rules`) does. `of_parts`: what lies beside the log, by
    `PlannedPart.log_fields`.
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
    cold: bool = False
    of_parts: Mapping[str, Any] = field(default_factory=dict)

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
        for part in planned_parts():
            part.check_log(self.of_parts, self.source_format)
        if self.gpus_per_node < 1 or (self.gpus is not None and self.gpus < 1):
            raise BadInputError(
                f"A cluster of {self.gpus} GPUs, {self.gpus_per_node} a node.", remedy="Use 1 or more."
            )

    @property
    def rule_set(self) -> str:
        """Name the rule set: by default that of the log's format."""
        of_format = {name: rules for part in planned_parts() for name, rules in part.rules_of_formats.items()}
        return self.rules or of_format.get(self.source_format or "", "default")

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
        in_lake = None
        if self.cluster is not None and self.jobs is None:
            in_lake = ClusterOfLake(self._lake_uri, self.cluster)
        beside = [part.beside_log(self.of_parts, in_lake, replays_uri) for part in planned_parts()]
        size = ClusterSize(self.nodes, self.gpus, self.gpus_per_node, self.training_servers)
        if self.training_servers is not None:
            sizes = size.read(log.zone)
        return read_planned_log(
            LogToReplay(
                log, size, rules=rules, companions=tuple(each for one in beside for each in one.companions)
            ),
            needs_estimates=class_.needs_estimates,
            needs_profiles=class_.reads_profiles,
            command=[*self._words(log), *(word for one in beside for word in one.words)],
            sizes=sizes,
            progress=progress,
        )

    def _words(self, log: LogFile) -> list[str]:
        words = ["--jobs", log.path, "--format", log.source_format]
        for option, value in (
            ("--start", log.start and self.start),
            ("--end", log.end and self.end),
            ("--time-zone", log.time_zone),
        ):
            words += [option, value] if value else []
        words += ["--cold"] if log.start and self.cold else []
        words += ["--rules", self.rules] if self.rules else []
        return words

    def _frozen_jobs(
        self,
        cluster: str,
        replays_uri: str,
        start: datetime | None,
        end: datetime | None,
        warm_up_days: float,
    ) -> tuple[str, str]:
        """Write the jobs that count, and those that fill the cluster before them, to a file to replay."""
        warm = read_lake_jobs(
            Site(lake=self._lake_uri, cluster=cluster), start, end, warm_up_days=warm_up_days
        )
        jobs = warm.jobs.drop(columns=ARRIVAL, errors="ignore")
        uri = f"{replays_uri.rstrip('/')}/jobs-{frame_sha256(jobs)[:12]}.parquet"
        write_frame(uri, jobs)
        return uri, "lake"

    def _lake_sizes(self) -> pd.DataFrame:
        assert self.cluster is not None  # noqa: S101 - the caller looked
        last = submission_span(self._lake_uri, self.cluster)[1]
        return lake_sizes(Site(lake=self._lake_uri, cluster=self.cluster), last, ZoneInfo("UTC"))

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
