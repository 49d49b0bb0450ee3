"""What all runs of a sweep share: jobs, nodes and profiles, frozen in one folder that any worker can read.

    FOLDER/inputs/DIGEST/jobs.parquet, nodes.parquet[, solo.parquet, pairs.parquet], inputs.json

A sweep that goes on tomorrow, or on another machine, replays the very same jobs, whatever happened to the log
or the lake in between.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cluster_logs.errors import BadInputError, NotFoundError
from cluster_logs.ingest import read_jobs_file
from cluster_logs.lake import Lake
from cluster_logs.progress import Progress, silent
from cluster_logs.readers.nodes_file import read_nodes_file
from cluster_logs.readers.registry import load_reader
from cluster_logs.storage import locate, write_atomically
from pipeline.profile_store import read_profile_set
from pipeline.replay_inputs import JobTypes
from pipeline.run_manifest import frame_sha256
from pipeline.simulation import EVERYONE, within
from pipeline.windows import submission_span
from profiler_jobs.profile_table import read_pair_profiles, read_solo_profiles
from simulator.rules import load_rules

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
NODE_COLUMNS = ("virtual_cluster", "nodes", "gpus_per_node")


@dataclass(frozen=True)
class SweepInputs:
    """The tables that a sweep replays, and how.

    - `nodes`: virtual_cluster, nodes, gpus_per_node; `one_pool`: all jobs share the one virtual cluster.
    - `job_types`: a job whose profile the log does not say has one "drawn" from `solo` with the run's seed,
      or (with "log") never shares its GPUs.
    - `remarks`: what the log did not say, for people.
    """

    jobs: pd.DataFrame
    nodes: pd.DataFrame
    rules: str = "default"
    one_pool: bool = False
    job_types: JobTypes = "log"
    solo: pd.DataFrame | None = None
    pairs: pd.DataFrame | None = None
    remarks: tuple[str, ...] = ()
    sha256: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        load_rules(self.rules)
        if self.job_types == "drawn" and self.solo is None:
            raise BadInputError(
                "Job types cannot be drawn without measured profiles.", remedy="Give solo and pair profiles."
            )
        if not self.sha256:
            object.__setattr__(self, "sha256", self._digest())

    def _digest(self) -> str:
        tables = {
            name: None if frame is None else frame_sha256(frame)
            for name, frame in (
                ("jobs", self.jobs),
                ("nodes", self.nodes),
                ("solo", self.solo),
                ("pairs", self.pairs),
            )
        }
        text = json.dumps({**tables, **self._choices()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _choices(self) -> dict[str, Any]:
        return {"rules": self.rules, "one_pool": self.one_pool, "job_types": self.job_types}


def read_log(
    *,
    jobs_uri: str,
    source_format: str,
    nodes_uri: str | None = None,
    gpus: int | None = None,
    gpus_per_node: int = 8,
    start: datetime | None = None,
    end: datetime | None = None,
    time_zone: str | None = None,
    rules: str = "default",
    job_types: JobTypes = "log",
    singles_uri: str | None = None,
    pairs_uri: str | None = None,
    progress: Progress = silent,
) -> SweepInputs:
    """Read a log file, the cluster's size (`nodes_uri`, or one pool of `gpus`) and, if given, profiles.

    `start` and `end` as in `lucid simulate`: jobs submitted in the window, both ends included, on the log's
    own clock. Raises BadInputError for what cannot be used.
    """
    frame, account = read_jobs_file(jobs_uri, source_format, time_zone=time_zone, progress=progress)
    zone = ZoneInfo(time_zone or load_reader(source_format).time_zone)
    remarks = []
    if account.rows_quarantined or account.rows_skipped:
        reasons = ", ".join(f"{count:,} {name}" for name, count in sorted(account.reasons.items()))
        remarks.append(f"Rows of the log that are not replayed: {reasons}.")
    if nodes_uri is not None:
        nodes = read_nodes_file(nodes_uri, gpus_per_node=gpus_per_node)
    else:
        nodes = pd.DataFrame(
            {"virtual_cluster": [EVERYONE], "nodes": [1], "gpus_per_node": [gpus or gpus_per_node]}
        )
    return SweepInputs(
        jobs=_columns(within(frame, start, end, zone), JOB_COLUMNS),
        nodes=_columns(nodes, NODE_COLUMNS),
        rules=rules,
        one_pool=nodes_uri is None,
        job_types=job_types,
        solo=None if singles_uri is None else read_solo_profiles(singles_uri),
        pairs=None if pairs_uri is None else read_pair_profiles(pairs_uri),
        remarks=tuple(remarks),
    )


def read_lake(
    *,
    lake_uri: str,
    cluster: str,
    start: datetime | None = None,
    end: datetime | None = None,
    rules: str = "default",
    job_types: JobTypes = "drawn",
) -> SweepInputs:
    """Read a cluster's jobs submitted in [start, end), its nodes and its profiles from the lake.

    Without stored profiles the zoo is measured on the simulated GPU, and a remark says so. Raises
    NotFoundError when the lake has no jobs or no nodes of the cluster.
    """
    lake = Lake(lake_uri)
    jobs = lake.read_jobs(cluster, start, end)
    if jobs.empty:
        first, last = submission_span(lake_uri, cluster)
        raise BadInputError(
            f"No job of {cluster!r} was submitted from {start or 'the start'} to {end or 'the end'}: the "
            f"lake has {first} to {last}.",
            remedy="Choose a window inside it.",
        )
    nodes = lake.read_nodes(cluster, jobs["submit_time"].min().date())
    remarks = []
    try:
        profiles = read_profile_set(lake_uri, cluster)
    except NotFoundError:
        from profiler_jobs.devices.simulated import measure_simulated_profiles

        profiles = measure_simulated_profiles(0)
    if bool(profiles.solo["simulated"].any() or profiles.pairs["simulated"].any()):
        remarks.append(
            "How jobs slow each other down on shared GPUs was measured on the simulated GPU, not a real one."
        )
    return SweepInputs(
        jobs=_columns(jobs, JOB_COLUMNS),
        nodes=_columns(nodes, NODE_COLUMNS),
        rules=rules,
        job_types=job_types,
        solo=profiles.solo,
        pairs=profiles.pairs,
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
    if _read(f"{uri}/{INPUTS_FILE}") is not None:
        return uri
    for name, frame in _tables(inputs).items():
        table = pa.Table.from_pandas(frame, preserve_index=False)
        write_atomically(fs, f"{folder}/{name}.parquet", partial(pq.write_table, table))
    document = {
        "sha256": inputs.sha256,
        "tables": sorted(_tables(inputs)),
        "rules": inputs.rules,
        "one_pool": inputs.one_pool,
        "job_types": inputs.job_types,
        "remarks": list(inputs.remarks),
    }
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    # Last: inputs without this file are not complete.
    write_atomically(fs, f"{folder}/{INPUTS_FILE}", lambda sink: sink.write(text.encode()))
    return uri


def load_inputs(uri: str) -> SweepInputs:
    """Read what `store_inputs` wrote. Raises NotFoundError when it is not there."""
    text = _read(f"{uri}/{INPUTS_FILE}")
    if text is None:
        raise NotFoundError(f"There are no inputs of a sweep at {uri}.", remedy="Plan the sweep again.")
    document = json.loads(text)
    fs, folder = locate(uri)
    frames = {}
    for name in document.pop("tables"):
        with fs.open_input_file(f"{folder}/{name}.parquet") as source:
            frames[name] = pq.read_table(source).to_pandas()
    return SweepInputs(**frames, **{**document, "remarks": tuple(document["remarks"])})


def _tables(inputs: SweepInputs) -> dict[str, pd.DataFrame]:
    frames = {"jobs": inputs.jobs, "nodes": inputs.nodes, "solo": inputs.solo, "pairs": inputs.pairs}
    return {name: frame for name, frame in frames.items() if frame is not None}


def _read(uri: str) -> bytes | None:
    fs, path = locate(uri)
    try:
        with fs.open_input_stream(path) as source:
            return bytes(source.read())
    except FileNotFoundError:
        return None
