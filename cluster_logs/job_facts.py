"""The one table of job facts: what is known of a job, what it means, and where each log format holds it.

What follows from a row here, without a change elsewhere:

- the column of the job table and its documentation (`job_table.JOB_SCHEMA`), its checks on the way in
  (`readers/base.py`) and its expectations (`expectations/job_suites.py`);
- its place in what the duration model reads: every text that is known when a job is submitted is tried at
  each training (`lucid_models/duration/level_search.py`), a number once a plain feature names it
  (`job_columns.py`); training, serving, drift, reasons and pictures know it then;
- its place in a queue file, in what a live cluster pushes and in what is asked of Slurm's squeue and sacct;
- its reading, where a format holds it in a column of its own (`columns`): a reader says only what is not
  plain. A reader of another package names its columns itself.

The standard library is enough to read this table: the light client of a live scheduler does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(Enum):
    """What the values of a fact are."""

    TEXT = "text"
    COUNT = "whole number"
    SERIAL = "whole number of 64 bits"
    NUMBER = "number"
    TIME = "UTC instant"


class KnownFrom(Enum):
    """From when on a fact is known."""

    SUBMITTED = "the user asks for it"
    PROFILED = "a short run measures it"
    LOGGED = "only a log has it"


@dataclass(frozen=True, slots=True)
class JobFact:
    """One fact of a job.

    - `required`: no row goes without; all other facts may be null.
    - `bounds`: the least and the most that is sound, in `unit`; `above_least`: the least itself is not.
    - `columns`: log format -> the source's column, in lower case; `a|b`: the first of them that is there. The
      formats of one publisher share a name here (`acme`).
    - `label`: what people call it, where the name does not say so.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    known: KnownFrom = KnownFrom.LOGGED
    required: bool = False
    bounds: tuple[float, float] | None = None
    above_least: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    label: str = ""

    @property
    def words(self) -> str:
        """What people call it, such as `virtual cluster` or `time limit`."""
        return self.label or self.name.removesuffix("_s").replace("_", " ")

    @property
    def is_number(self) -> bool:
        """Whether its values are amounts."""
        return self.kind in (Kind.COUNT, Kind.SERIAL, Kind.NUMBER)

    @property
    def is_duration(self) -> bool:
        """Whether it is a span of time."""
        return self.kind is Kind.NUMBER and self.unit == "s"


_TEN_YEARS_S = 10 * 366 * 86_400.0

_WORDS_FOR_STATES = {
    "philly-json": "status",
    "helios": "state",
    "sacct": "state",
    "acme": "state",
    "alibaba-v2023": "pod_phase",
    "queue": "state",
}

JOB_FACTS: tuple[JobFact, ...] = (
    JobFact("cluster", Kind.TEXT, "The cluster that the log belongs to.", required=True),
    JobFact(
        "job_id",
        Kind.TEXT,
        "The job's id as its source writes it; unique with submit_time in a cluster.",
        known=KnownFrom.SUBMITTED,
        required=True,
        columns={
            "philly-json": "jobid",
            "helios": "job_id",
            "sacct": "jobidraw|jobid",
            "swf": "job",
            "acme": "job_id",
            "alibaba-v2023": "name",
            "reference-csv": "job_id",
            "pcs-csv": "app_id",
            "lyra-csv": "job_id",
            "queue": "job_unique_id|job_id|jobid",
        },
    ),
    JobFact(
        "virtual_cluster",
        Kind.TEXT,
        "The virtual cluster (partition, queue) that ran it.",
        known=KnownFrom.SUBMITTED,
        required=True,
        columns={
            "philly-json": "vc",
            "philly-csv": "cluster",
            "helios": "vc",
            "sacct": "partition",
            "swf": "partition",
            "reference-csv": "virtual_cluster",
            "queue": "partition_id_x|partition_id|partition",
        },
    ),
    JobFact(
        "user",
        Kind.TEXT,
        "Who submitted it.",
        known=KnownFrom.SUBMITTED,
        columns={
            "philly-json": "user",
            "helios": "user",
            "sacct": "user",
            "swf": "user",
            "acme": "user",
            "reference-csv": "user",
            "queue": "user_id|user",
        },
    ),
    JobFact(
        "name",
        Kind.TEXT,
        "The job's name, workload type or application.",
        known=KnownFrom.SUBMITTED,
        columns={
            "helios": "jobname",
            "sacct": "jobname",
            "swf": "app",
            "acme": "type",
            "pcs-csv": "model_name",
            "queue": "job_name|name",
        },
    ),
    JobFact(
        "account",
        Kind.TEXT,
        "The account that it is charged to.",
        known=KnownFrom.SUBMITTED,
        columns={"sacct": "account", "squeue": "Account", "queue": "account_id|account"},
    ),
    JobFact(
        "group",
        Kind.TEXT,
        "The group that its user belongs to.",
        known=KnownFrom.SUBMITTED,
        columns={"sacct": "group", "squeue": "GroupName", "swf": "group"},
    ),
    JobFact(
        "queue",
        Kind.TEXT,
        "The queue that it was submitted to: Slurm's partition, the number of a queue in SWF.",
        known=KnownFrom.SUBMITTED,
        columns={"sacct": "partition", "swf": "queue", "queue": "partition_id_x|partition_id|partition"},
    ),
    JobFact(
        "qos",
        Kind.TEXT,
        "The quality of service that it was submitted with.",
        known=KnownFrom.SUBMITTED,
        label="QOS",
        columns={"sacct": "qos", "squeue": "QOS", "alibaba-v2023": "qos", "queue": "qos_id|qos"},
    ),
    JobFact(
        "gpus",
        Kind.COUNT,
        "Whole GPUs occupied; 0 is a CPU job.",
        "GPUs",
        known=KnownFrom.SUBMITTED,
        required=True,
        label="GPUs",
        bounds=(0, 100_000),
        columns={
            "philly-json": "attempts",
            "philly-csv": "num_gpus",
            "helios": "gpu_num",
            "sacct": "alloctres|reqtres",
            "swf": "procs",
            "acme": "gpu_num",
            "alibaba-v2023": "num_gpu",
            "reference-csv": "gpus",
            "pcs-csv": "num_jobs",
            "lyra-csv": "gpus",
            "queue": "gpus|req_gpus|req_tres",
        },
    ),
    JobFact(
        "gpu_type",
        Kind.TEXT,
        "The type of GPU that it asked for, in the words of its source; null: any, or unknown.",
        known=KnownFrom.SUBMITTED,
        label="GPU type",
        columns={"sacct": "reqtres|reqgres", "alibaba-v2023": "gpu_spec"},
    ),
    JobFact(
        "gpu_share",
        Kind.NUMBER,
        "Share of each GPU asked for, in (0, 1].",
        "GPU/GPU",
        required=True,
        bounds=(0.0, 1.0),
        above_least=True,
        columns={"alibaba-v2023": "gpu_milli"},
    ),
    JobFact(
        "cpus",
        Kind.COUNT,
        "CPU cores of the whole job.",
        "cores",
        known=KnownFrom.SUBMITTED,
        label="CPU cores",
        bounds=(0, 10_000_000),
        columns={
            "helios": "cpu_num",
            "sacct": "ncpus|alloccpus",
            "swf": "procs",
            "acme": "cpu_num",
            "alibaba-v2023": "cpu_milli",
            "queue": "req_cpus|cpus",
        },
    ),
    JobFact(
        "requested_memory_mib",
        Kind.NUMBER,
        "Memory of the whole job that it asked for; null: all of its nodes', or unknown.",
        "MiB",
        known=KnownFrom.SUBMITTED,
        label="requested memory",
        bounds=(0.0, 1e9),
        columns={
            "sacct": "reqtres|reqmem",
            "swf": "req_mem",
            "acme": "mem_per_pod_gb",
            "alibaba-v2023": "memory_mib",
            "queue": "req_mem_total|mem_mib",
        },
    ),
    JobFact(
        "nodes",
        Kind.COUNT,
        "Nodes that it ran on.",
        "nodes",
        known=KnownFrom.SUBMITTED,
        bounds=(0, 1_000_000),
        columns={
            "philly-json": "attempts",
            "helios": "node_num",
            "sacct": "nnodes|allocnodes",
            "acme": "node_num",
            "queue": "alloc_nodes|req_nodes",
        },
    ),
    JobFact(
        "state",
        Kind.TEXT,
        "PENDING, RUNNING, COMPLETED, CANCELLED or FAILED; null when not said.",
        columns={**_WORDS_FOR_STATES, "swf": "status"},
    ),
    JobFact("source_state", Kind.TEXT, "The source's own word for the state.", columns=_WORDS_FOR_STATES),
    JobFact(
        "submit_time",
        Kind.TIME,
        "When it was submitted.",
        known=KnownFrom.SUBMITTED,
        required=True,
        columns={
            "philly-json": "submitted_time",
            "philly-csv": "timestamp",
            "helios": "submit_time",
            "sacct": "submit",
            "swf": "submit",
            "acme": "submit_time",
            "alibaba-v2023": "creation_time",
            "reference-csv": "submit_time",
            "pcs-csv": "submit_time",
            "lyra-csv": "submit_s",
            "queue": "submit_time",
        },
    ),
    JobFact(
        "eligible_time",
        Kind.TIME,
        "From when on it might have started: after its submission where it was to begin later, depended on "
        "another job, was held or paused after a requeue; null: unknown, or never.",
        columns={"sacct": "eligible", "queue": "eligible_time"},
    ),
    JobFact(
        "start_time",
        Kind.TIME,
        "When it first started; null when unknown or never.",
        columns={
            "philly-json": "attempts",
            "helios": "start_time",
            "sacct": "start",
            "swf": "wait",
            "acme": "start_time",
            "alibaba-v2023": "scheduled_time",
            "queue": "start_time",
        },
    ),
    JobFact(
        "end_time",
        Kind.TIME,
        "When it last ended; null when unknown or still running.",
        columns={
            "philly-json": "attempts",
            "helios": "end_time",
            "sacct": "end",
            "swf": "run",
            "acme": "end_time",
            "alibaba-v2023": "deletion_time",
            "queue": "end_time",
        },
    ),
    JobFact(
        "duration_s",
        Kind.NUMBER,
        "Run time: end - start (wall), or as the source states it.",
        "s",
        bounds=(0.0, _TEN_YEARS_S),
        columns={
            "philly-csv": "duration",
            "helios": "duration",
            "sacct": "elapsedraw|elapsed",
            "swf": "run",
            "acme": "duration",
            "reference-csv": "duration_s",
            "lyra-csv": "duration_s",
            "queue": "run_time_sec",
        },
    ),
    JobFact(
        "service_s",
        Kind.NUMBER,
        "Summed run time of all attempts; duration_s without requeues.",
        "s",
        bounds=(0.0, _TEN_YEARS_S),
        columns={"sacct": "elapsedraw|elapsed"},
    ),
    JobFact(
        "single_gpu_s",
        Kind.NUMBER,
        "Run time on one GPU of an elastic job; null: it is rigid.",
        "s",
        columns={"pcs-csv": "service"},
    ),
    JobFact(
        "gpus_per_worker",
        Kind.COUNT,
        "GPUs of each worker of a job that runs in workers, each on one node; null: it does not.",
        "GPUs",
        columns={"lyra-csv": "gpus_per_worker"},
    ),
    JobFact(
        "workers_min",
        Kind.COUNT,
        "The least workers that it runs on; `gpus` and `duration_s` are those of as many.",
        "workers",
        columns={"lyra-csv": "workers_min"},
    ),
    JobFact(
        "workers_max",
        Kind.COUNT,
        "The most workers that it can use.",
        "workers",
        columns={"lyra-csv": "workers_max"},
    ),
    JobFact(
        "loanable",
        Kind.COUNT,
        "1: it may run on servers that are on loan from inference; 0: it may not.",
        bounds=(0.0, 1.0),
        columns={"lyra-csv": "fungible"},
    ),
    JobFact(
        "heterogeneous",
        Kind.COUNT,
        "1: it may run on own servers and on loaned ones at once; 0: it may not.",
        bounds=(0.0, 1.0),
        columns={"lyra-csv": "heterogeneous"},
    ),
    *(
        JobFact(f"{name}_draw", Kind.NUMBER, meaning, bounds=bounds, columns={"lyra-csv": column})
        for name, column, bounds, meaning in (
            (
                "checkpoint",
                "u_checkpoint",
                (0.0, 1.0),
                "Drawn evenly from 0 to 1: where a share of the jobs keep checkpoints, those below it do.",
            ),
            (
                "elastic",
                "u_elastic",
                (0.0, 1.0),
                "Drawn evenly from 0 to 1: where a share of the jobs are elastic, those below it are.",
            ),
            (
                "heterogeneous",
                "u_hetero",
                (0.0, 1.0),
                "Drawn evenly from 0 to 1: where a share of the jobs are heterogeneous, those below it are.",
            ),
            (
                "estimate",
                "u_wrong",
                (0.0, 1.0),
                "Drawn evenly from 0 to 1: where a share of the estimates are wrong, those below it are.",
            ),
            (
                "estimate_error",
                "u_err",
                (-1.0, 1.0),
                "Drawn: how wrong an estimate is then, as a multiple of the largest error.",
            ),
        )
    ),
    JobFact(
        "queuing_delay_s",
        Kind.NUMBER,
        "First start - submission.",
        "s",
        bounds=(0.0, _TEN_YEARS_S),
        columns={"helios": "queue", "swf": "wait", "acme": "queue"},
    ),
    JobFact(
        "time_limit_s",
        Kind.NUMBER,
        "Run time that the user asked for; null: no limit or unknown.",
        "s",
        known=KnownFrom.SUBMITTED,
        bounds=(0.0, 100 * _TEN_YEARS_S),
        columns={
            "sacct": "timelimitraw|timelimit",
            "swf": "req_time",
            "queue": "time_limit_sec|time_limit_s",
        },
    ),
    JobFact(
        "estimated_duration_s",
        Kind.NUMBER,
        "An estimate of duration_s that came with the source.",
        "s",
        bounds=(0.0, 100 * _TEN_YEARS_S),
        columns={"reference-csv": "estimated_duration_s"},
    ),
    JobFact(
        "order_in_vc",
        Kind.SERIAL,
        "The source's order of jobs in a virtual cluster (breaks ties).",
        columns={"reference-csv": "order_in_vc"},
    ),
    JobFact(
        "job_type",
        Kind.TEXT,
        "model/dataset/batch_size/amp, e.g. ResNet50/ImageNet/64/1.",
        known=KnownFrom.SUBMITTED,
    ),
    JobFact(
        "gpu_util_pct",
        Kind.NUMBER,
        "Profiled GPU utilisation.",
        "%",
        label="GPU utilisation (%)",
        known=KnownFrom.PROFILED,
        bounds=(0.0, 100.0),
    ),
    JobFact(
        "gpu_mem_util_pct",
        Kind.NUMBER,
        "Profiled GPU memory utilisation (time share).",
        "%",
        label="GPU memory utilisation (%)",
        known=KnownFrom.PROFILED,
        bounds=(0.0, 100.0),
    ),
    JobFact(
        "gpu_mem_mib",
        Kind.NUMBER,
        "Profiled GPU memory footprint.",
        "MiB",
        label="GPU memory (MiB)",
        known=KnownFrom.PROFILED,
        bounds=(0.0, 4_194_304.0),
    ),
    JobFact("source_file", Kind.TEXT, "Base name of the input file.", required=True),
    JobFact(
        "source_row", Kind.SERIAL, "1-based data row (or array index + 1) in the input file.", required=True
    ),
)

_TIMES = frozenset({"state", "start_time", "end_time", "duration_s", "single_gpu_s"})
_OF_WORKERS = frozenset({"gpus_per_worker", "workers_min", "workers_max"})
# Without these a row is no job and is refused: its identity, its size, and its times, of which the state says
# what is final. A value of another fact that cannot be used is unknown, and its job is kept.
DECISIVE_FACTS = frozenset(fact.name for fact in JOB_FACTS if fact.required) | _TIMES | _OF_WORKERS

# A job's owner is the first of these facts that it has.
OWNERS = ("user", "account", "group")


def owner_of(job: Mapping[str, Any]) -> str:
    """A job's owner by its facts: its user, else its account or group; "" where none is known."""
    owners = (job.get(name) for name in OWNERS)
    return next((str(owner) for owner in owners if owner and owner == owner), "")


def source_columns(source_format: str) -> dict[str, str]:
    """Fact -> the column that holds it in logs of this format, for the facts that it has."""
    return {fact.name: fact.columns[source_format] for fact in JOB_FACTS if source_format in fact.columns}
