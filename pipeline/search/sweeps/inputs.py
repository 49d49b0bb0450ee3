"""What all runs of a sweep share: jobs, sizes and profiles, frozen in one folder that any worker can read.

    FOLDER/inputs/DIGEST/jobs.parquet, sizes.parquet[, solo.parquet, pairs.parquet], inputs.json

A sweep that goes on tomorrow, or on another machine, replays the very same jobs, whatever happened to the log
or the lake in between.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cluster_logs.lake import Lake
from foundation.errors import BadInputError, NotFoundError
from foundation.input_roots import admitted
from foundation.progress import Progress, silent
from foundation.run_manifest import frame_sha256
from foundation.storage import locate, read_bytes, write_atomically
from lucid_models.known_profiles import with_own_metrics
from pipeline.profiling.profile_store import measured_or_simulated
from pipeline.replay.cluster_events import EVERYONE, ClusterEvents, ClusterSize, lake_sizes
from pipeline.replay.log_file import LogFile
from pipeline.training.windows import submission_span
from pipeline.validation.replay_inputs import JobTypes
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles
from simulator.node_failures import DEFAULT_REPAIR_HOURS
from simulator.rule_sets import load_rules

INPUTS_FILE = "inputs.json"
# What a replay may depend on; columns that a source lacks are null.
JOB_COLUMNS = (
    "job_id",
    "virtual_cluster",
    "user",
    "name",
    "gpus",
    "cpus",
    "state",
    "submit_time",
    "start_time",
    "end_time",
    "duration_s",
    "time_limit_s",
    "estimated_duration_s",
    "order_in_vc",
    "job_type",
    "gpu_util_pct",
    "gpu_mem_util_pct",
    "gpu_mem_mib",
)
SIZE_COLUMNS = ("virtual_cluster", "from_time", "nodes", "gpus_per_node")


@dataclass(frozen=True)
class SweepInputs:
    """The tables that a sweep replays, and how.

    - `sizes`: virtual_cluster, from_time (UTC; NaT: from the beginning), nodes, gpus_per_node.
    - `job_types`: a job whose profile the log does not say has one "drawn" from `solo` with the run's seed,
      or (with "log") never shares its GPUs.
    - `solo` with a column sharing_score: scores are these labels, and pairs are used in the published order
      (`Rules.labelled_scores`); without it the packing model learns from both tables.
    - `packing_model`: what scores jobs, as `PackingAnalyzeModel.to_data` says it; None: one that learns from
      both tables.
    - `cpu_cores_per_node`, `failure_mtbf_hours`, `failure_repair_hours`: as in `lucid simulate`; failures are
      drawn with the run's seed.
    - `remarks`: what the log did not say, for people.
    """

    jobs: pd.DataFrame
    sizes: pd.DataFrame
    rules: str = "default"
    job_types: JobTypes = "log"
    solo: pd.DataFrame | None = None
    pairs: pd.DataFrame | None = None
    cpu_cores_per_node: int = 0
    failure_mtbf_hours: float | None = None
    failure_repair_hours: float = DEFAULT_REPAIR_HOURS
    packing_model: Mapping[str, Any] | None = None
    remarks: tuple[str, ...] = ()
    sha256: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        load_rules(self.rules)
        if (self.solo is None) != (self.pairs is None):
            raise BadInputError("Colocation needs both measurements.", remedy="Give solo and pair profiles.")
        if self.job_types == "drawn" and self.solo is None:
            raise BadInputError(
                "Job types cannot be drawn without measured profiles.", remedy="Give solo and pair profiles."
            )
        if not self.sha256:
            object.__setattr__(self, "sha256", self._digest())

    @property
    def events(self) -> ClusterEvents:
        """What happens to the cluster beside its changes of size."""
        return ClusterEvents(
            cpu_cores_per_node=self.cpu_cores_per_node,
            failure_mtbf_hours=self.failure_mtbf_hours,
            failure_repair_hours=self.failure_repair_hours,
        )

    @property
    def one_pool(self) -> bool:
        """Whether all jobs share one virtual cluster, whatever the log says."""
        return set(self.sizes["virtual_cluster"]) == {EVERYONE}

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables that are there, by name."""
        frames = {"jobs": self.jobs, "sizes": self.sizes, "solo": self.solo, "pairs": self.pairs}
        return {name: frame for name, frame in frames.items() if frame is not None}

    def choices(self) -> dict[str, Any]:
        """Return what is not a table and changes results, by name."""
        packing = {} if self.packing_model is None else {"packing_model": dict(self.packing_model)}
        return {
            "rules": self.rules,
            "job_types": self.job_types,
            "cpu_cores_per_node": self.cpu_cores_per_node,
            "failure_mtbf_hours": self.failure_mtbf_hours,
            "failure_repair_hours": self.failure_repair_hours,
            **packing,
        }

    def _digest(self) -> str:
        digests = {name: frame_sha256(frame) for name, frame in self.tables().items()}
        text = json.dumps({**digests, **self.choices()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def read_log(
    log: LogFile,
    size: ClusterSize,
    *,
    events: ClusterEvents,
    rules: str = "default",
    job_types: JobTypes = "log",
    measured: tuple[str, str] | None = None,
    progress: Progress = silent,
) -> SweepInputs:
    """Read a log file, the cluster's size and, if given, profiles.

    `measured`: where the measurements of job types lie, alone and in pairs. Raises BadInputError for what
    cannot be used.
    """
    sizes = size.read(log.zone)
    frame, remarks = log.read(progress)
    solo, pairs = _measurements(measured, rules)
    return SweepInputs(
        jobs=_columns(log.part(frame), JOB_COLUMNS),
        sizes=_columns(sizes, SIZE_COLUMNS),
        rules=rules,
        job_types=job_types,
        solo=solo,
        pairs=pairs,
        **_drawn(events),
        remarks=tuple(remarks),
    )


def _drawn(events: ClusterEvents) -> dict[str, Any]:
    """What a sweep keeps of a cluster's events, by field of `SweepInputs`."""
    return {
        "cpu_cores_per_node": events.cpu_cores_per_node,
        "failure_mtbf_hours": events.failure_mtbf_hours,
        "failure_repair_hours": events.failure_repair_hours,
    }


def _measurements(
    measured: tuple[str, str] | None, rules: str
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    if measured is None:
        return None, None
    singles_uri, pairs_uri = measured
    published = Path(admitted(singles_uri)), Path(admitted(pairs_uri))
    labelled = load_rules(rules).labelled_tables(*published)
    if labelled is not None:
        return labelled
    return read_solo_profiles(singles_uri), read_pair_profiles(pairs_uri)


def read_lake(
    *,
    lake_uri: str,
    cluster: str,
    start: datetime | None = None,
    end: datetime | None = None,
    events: ClusterEvents,
    rules: str = "default",
    job_types: JobTypes = "drawn",
) -> SweepInputs:
    """Read a cluster's jobs submitted in [start, end), its nodes and its profiles from the lake.

    Without stored profiles the zoo is measured on the simulated GPU, and a remark says so. Raises
    NotFoundError when the lake has no jobs or no nodes of the cluster.
    """
    lake = Lake(lake_uri)
    jobs = with_own_metrics(lake.read_jobs(cluster, start, end), lake.read_job_metrics(cluster))
    if jobs.empty:
        first, last = submission_span(lake_uri, cluster)
        raise BadInputError(
            f"No job of {cluster!r} was submitted from {start or 'the start'} to {end or 'the end'}: the "
            f"lake has {first} to {last}.",
            remedy="Choose a window inside it.",
        )
    sizes = lake_sizes(lake_uri, cluster, jobs["submit_time"].min().to_pydatetime(), ZoneInfo("UTC"))
    profiles, remarks = measured_or_simulated(lake_uri, cluster)
    return SweepInputs(
        jobs=_columns(jobs, JOB_COLUMNS),
        sizes=_columns(sizes, SIZE_COLUMNS),
        rules=rules,
        job_types=job_types,
        solo=profiles.solo,
        pairs=profiles.pairs,
        **_drawn(events),
        remarks=tuple(remarks),
    )


def _columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Keep these columns, in this order, as far as they are there."""
    return frame[[name for name in names if name in frame.columns]].reset_index(drop=True)


# -- storing -------------------------------------------------------------------------------------------------


def store_inputs(inputs: SweepInputs, folder_uri: str) -> str:
    """Write the inputs below a sweep's folder and return their URI; the same inputs are written once."""
    uri = f"{folder_uri.rstrip('/')}/inputs/{inputs.sha256[:20]}"
    fs, folder = locate(uri)
    if read_bytes(f"{uri}/{INPUTS_FILE}") is not None:
        return uri
    for name, frame in inputs.tables().items():
        table = pa.Table.from_pandas(frame, preserve_index=False)
        write_atomically(fs, f"{folder}/{name}.parquet", partial(pq.write_table, table))
    document = {
        "sha256": inputs.sha256,
        "tables": sorted(inputs.tables()),
        **inputs.choices(),
        "remarks": list(inputs.remarks),
    }
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    # Last: inputs without this file are not complete.
    write_atomically(fs, f"{folder}/{INPUTS_FILE}", lambda sink: sink.write(text.encode()))
    return uri


def load_inputs(uri: str) -> SweepInputs:
    """Read what `store_inputs` wrote. Raises NotFoundError when it is not there."""
    text = read_bytes(f"{uri}/{INPUTS_FILE}")
    if text is None:
        raise NotFoundError(f"There are no inputs of a sweep at {uri}.", remedy="Plan the sweep again.")
    document = json.loads(text)
    fs, folder = locate(uri)
    frames = {}
    for name in document.pop("tables"):
        with fs.open_input_file(f"{folder}/{name}.parquet") as source:
            frames[name] = pq.read_table(source).to_pandas()
    return SweepInputs(**frames, **{**document, "remarks": tuple(document["remarks"])})
