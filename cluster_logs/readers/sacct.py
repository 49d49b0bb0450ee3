"""Slurm accounting: the output of `sacct --parsable2`, with or without its header line.

    TZ=UTC SLURM_TIME_FORMAT='%Y-%m-%dT%H:%M:%S%z' sacct -a -D -X -P -n --noconvert -S DAY -E NEXT_DAY -o
    FIELDS

with FIELDS = `DEFAULT_FIELDS` (a file without header is read in that order). Ask for one day at a time: a
tight loop overloads slurmdbd. Times without an offset are read in the reader's time zone (UTC, as asked for
above).

The job id is JobIDRaw where there is one: with Submit it tells the runs of a requeued job apart (`-D` lists
each). Steps (`.batch`, `.extern`, `.0`) are skipped. Of a file with several clusters the one named by the
caller is read. GPUs come from `gres/gpu=N` in AllocTRES, or ReqTRES for a job that was never allocated;
`gres/gpu:TYPE=N` repeats the same GPUs and counts only where the plain entry is missing (needs
`AccountingStorageTRES=gres/gpu`).
"""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.errors import BadInputError
from cluster_logs.job_table import WHOLE_CLUSTER
from cluster_logs.readers.base import Context, Reader, ReadOptions
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.job_rows import JobColumns, build_jobs, slurm_state
from cluster_logs.readers.sieve import Sieve
from cluster_logs.readers.text_source import TextSource
from cluster_logs.readers.time_zones import NOT_A_TIME
from cluster_logs.readers.values import FloatArray, as_mask, is_missing

DEFAULT_FIELDS = (
    "Cluster",
    "JobIDRaw",
    "JobID",
    "User",
    "Partition",
    "JobName",
    "State",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "AllocTRES",
    "ReqTRES",
    "NCPUS",
    "NNodes",
)

_LAYOUT = Layout(
    required=("jobidraw|jobid", "state", "submit", "start", "end", "alloctres|reqtres"),
    optional=(
        "cluster",
        "user",
        "partition",
        "jobname",
        "elapsedraw",
        "elapsed",
        "timelimitraw",
        "timelimit",
        "ncpus",
        "nnodes",
        "alloccpus",
        "allocnodes",
    ),
    delimiter="|",
    quotes=False,
    fixed_header=DEFAULT_FIELDS,
    header_words=frozenset({"jobid", "jobidraw"}),
)

_STEP = r"\."
_ELAPSED = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_UNLIMITED = ("UNLIMITED", "PARTITION_LIMIT", "")


def gpus_of_tres(tres: str) -> float:
    """GPUs in a TRES list such as `cpu=64,gres/gpu:a100=8,gres/gpu=8,node=1`; 0 when it names none.

    NaN when an amount is not a number.
    """
    plain, typed = None, 0.0
    for entry in tres.split(","):
        key, _, amount = entry.partition("=")
        if key == "gres/gpu":
            plain = _amount(amount)
        elif key.startswith("gres/gpu:"):
            typed += _amount(amount)
    return typed if plain is None else plain


def _amount(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def elapsed_s(text: str) -> float | None:
    """Seconds of `[DD-[HH:]]MM:SS`; None for anything else."""
    match = _ELAPSED.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _clusters(source: TextSource, options: ReadOptions) -> str | None:
    """The one cluster of the file's Cluster column to read; None: all rows.

    Raises BadInputError when the file holds several clusters and none has the name that the caller gave.
    """
    found: dict[str, None] = {}
    for chunk in _LAYOUT.read(source, only=("cluster", "jobidraw", "jobid")):
        if "cluster" not in chunk.columns:
            return None
        words = Sieve(chunk, source.name, "UTC").text("cluster")
        found.update(dict.fromkeys(word for word in pc.unique(words).to_pylist() if word))
        if options.cluster in found:
            return options.cluster
    if len(found) > 1:
        raise BadInputError(
            f"{source.uri} holds jobs of several clusters, and none is called {options.cluster!r}.",
            remedy=f"Choose one of: {', '.join(sorted(found))}.",
        )
    return None


def _normalise(sieve: Sieve, context: Context) -> pa.Table:
    id_column = "jobidraw" if "jobidraw" in sieve else "jobid"
    shown_id = sieve.text("jobid" if "jobid" in sieve else "jobidraw")
    sieve.skip(as_mask(pc.match_substring_regex(shown_id, _STEP)), q.STEP_ROW)
    if context.facts is not None:
        sieve.skip(as_mask(pc.not_equal(sieve.text("cluster"), str(context.facts))), q.OTHER_CLUSTER)
    start = sieve.instant("start")
    started = start != NOT_A_TIME
    ran_s = np.where(started, _run_time_s(sieve), np.nan)
    partition = sieve.optional_text("partition")
    return build_jobs(
        sieve,
        JobColumns(
            job_id=sieve.text(id_column),
            virtual_cluster=None if partition is None else pc.fill_null(partition, WHOLE_CLUSTER),
            user=sieve.optional_text("user"),
            name=sieve.optional_text("jobname"),
            gpus=_gpus(sieve),
            cpus=_first_number(sieve, "ncpus", "alloccpus"),
            nodes=_first_number(sieve, "nnodes", "allocnodes"),
            state=sieve.mapped("state", slurm_state, pa.string()),
            source_state=sieve.text("state"),
            submit=sieve.instant("submit"),
            start=start,
            end=sieve.instant("end"),
            duration_s=ran_s,
            service_s=ran_s,
            time_limit_s=_time_limit_s(sieve),
            sources={
                "job_id": id_column,
                "gpus": "alloctres",
                "submit_time": "submit",
                "start_time": "start",
                "end_time": "end",
                "duration_s": "elapsedraw" if "elapsedraw" in sieve else "elapsed",
                "time_limit_s": "timelimitraw" if "timelimitraw" in sieve else "timelimit",
                "cpus": "ncpus",
                "nodes": "nnodes",
            },
        ),
    )


def _gpus(sieve: Sieve) -> FloatArray:
    allocated = sieve.text("alloctres") if "alloctres" in sieve else None
    asked = sieve.text("reqtres") if "reqtres" in sieve else allocated
    if allocated is None:
        return _numbers(sieve, "reqtres", gpus_of_tres)
    gpus = _numbers(sieve, "alloctres", gpus_of_tres)
    if asked is allocated:
        return gpus
    return np.where(is_missing(allocated), _numbers(sieve, "reqtres", gpus_of_tres), gpus)


def _run_time_s(sieve: Sieve) -> FloatArray:
    if "elapsedraw" in sieve:
        return sieve.number("elapsedraw")
    if "elapsed" in sieve:
        seconds = _numbers(sieve, "elapsed", elapsed_s)
        sieve.reject(np.isnan(seconds) & ~is_missing(sieve.text("elapsed")), q.UNREADABLE_NUMBER, "elapsed")
        return seconds
    return np.full(len(sieve), np.nan)


def _time_limit_s(sieve: Sieve) -> FloatArray | None:
    """Minutes, or `[DD-]HH:MM:SS`, or a word for no limit (unknown here)."""
    column = "timelimitraw" if "timelimitraw" in sieve else "timelimit"
    if column not in sieve:
        return None

    def seconds(text: str) -> float | None:
        if column == "timelimitraw" and text.strip().isdigit():
            return float(text) * 60
        return elapsed_s(text)

    limits = _numbers(sieve, column, seconds)
    unlimited = as_mask(pc.is_in(pc.utf8_upper(sieve.text(column)), pa.array(_UNLIMITED)))
    unreadable = np.isnan(limits) & ~unlimited & ~is_missing(sieve.text(column))
    sieve.reject(unreadable, q.UNREADABLE_NUMBER, column)
    return limits


def _numbers(sieve: Sieve, column: str, translate: Callable[[str], float | None]) -> FloatArray:
    values = sieve.mapped(column, translate, pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _first_number(sieve: Sieve, *columns: str) -> FloatArray | None:
    return next((sieve.number(column) for column in columns if column in sieve), None)


READER = Reader(
    name="sacct",
    summary="Slurm accounting (sacct --parsable2)",
    table="jobs",
    time_zone="UTC",
    chunks=_LAYOUT,
    normalise=_normalise,
    prepare=_clusters,
)
