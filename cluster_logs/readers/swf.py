"""The Standard Workload Format 2.2 of the Parallel Workloads Archive: 18 columns, `;` comments, -1 for
unknown.

Times count seconds from the header's `UnixStartTime`, or from the start that is given; without either from
1970-01-01. `TimeZoneString` names the cluster's clock: windows without a zone and hours of the day are those
of it. `TimeZone`, which it replaced, knows no summer time and is not read (NASA's is an hour behind until 31
October). A processor is the unit that SWF schedules, so it is read as one GPU (and as one CPU core). The
partition is the virtual cluster; queues share nodes and are none. Requested memory is KB a processor, of as
many as were asked for. Status 0 failed, 1 completed, 5 cancelled (while it waited, where it has no run time
or no processors: its wait, if given, is that until it left), -1 unknown (null); lines with status 2, 3,
4 are partial runs of a job that has a summary line, and are skipped.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.job_facts import source_columns
from cluster_logs.job_table import WHOLE_CLUSTER, JobState
from cluster_logs.node_states import MAX_NODES
from cluster_logs.readers.base import UNIX_EPOCH, Context, Reader, ReadOptions, StatedSize, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import FloatArray, RowChecker, as_mask, instants_of_seconds
from cluster_logs.readers.source import NOT_A_TIME, TextSource, load_zone
from foundation.errors import BadInputError

COLUMNS = (
    "job",
    "submit",
    "wait",
    "run",
    "procs",
    "avg_cpu",
    "used_mem_kb",
    "req_procs",
    "req_time",
    "req_mem",
    "status",
    "user",
    "group",
    "app",
    "queue",
    "partition",
    "preceding",
    "think_time",
)
_STATES = {"0": JobState.FAILED, "1": JobState.COMPLETED, "5": JobState.CANCELLED}
_PARTIAL = ("2", "3", "4")

_COMMENT = re.compile(rb"(?m)^[ ]*;.*\n")
_SIZE = re.compile(rb"(?m)^;[ \t]*(MaxNodes|MaxProcs):[ \t]*([0-9]{1,9})(?![0-9])")
_ZONE = re.compile(rb"(?m)^;[ \t]*TimeZoneString:[ \t]*([A-Za-z0-9_+/-]+)")
_START = re.compile(rb"(?m)^;[ \t]*UnixStartTime:[ \t]*([0-9]{1,12})")


def _squeeze(block: bytes) -> bytes:
    """The block without comments, with one blank between columns."""
    block = block.replace(b"\t", b" ").replace(b"\r\n", b"\n")
    if b";" in block:
        block = _COMMENT.sub(b"", block)
    while b"  " in block:
        block = block.replace(b"  ", b" ")
    block = block.replace(b" \n", b"\n").replace(b"\n ", b"\n")
    return block.removeprefix(b" ")


_LAYOUT = Layout(required=COLUMNS, delimiter=" ", quotes=False, fixed_header=COLUMNS, clean=_squeeze)


def _stated_size(source: TextSource) -> StatedSize | None:
    """The header's MaxNodes and MaxProcs, where whole nodes are made of them."""
    first = next(source.blocks())
    sizes = {name.decode(): int(count) for name, count in _SIZE.findall(first)}
    nodes, processors = sizes.get("MaxNodes", 0), sizes.get("MaxProcs", 0)
    if not nodes or not processors or processors % nodes or nodes > MAX_NODES:
        return None
    return StatedSize(nodes, processors // nodes, f"MaxNodes: {nodes}, MaxProcs: {processors}")


def _stated_zone(source: TextSource) -> str | None:
    """The header's TimeZoneString; None without one, and for a name that no time zone has."""
    match = _ZONE.search(next(source.blocks()))
    try:
        return None if match is None else load_zone(match[1].decode()).key
    except BadInputError:
        return None


def _start_of_log_s(source: TextSource, options: ReadOptions) -> int | None:
    """The header's UnixStartTime, None without one; the header lies in the first block."""
    match = _START.search(next(source.blocks()))
    return int(match.group(1)) if match else None


def _known(values: FloatArray) -> FloatArray:
    return np.where(values == -1, np.nan, values)


def _word(text: str) -> str | None:
    return None if text == "-1" else text


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    checker.skip(as_mask(pc.is_in(checker.text("status"), pa.array(_PARTIAL))), q.PARTIAL_EXECUTION)
    stated = context.facts if context.options.trace_start is None else None
    origin_s = float(stated) if isinstance(stated, int) else context.second_0_s
    submit = checker.seconds("submit", since_s=origin_s)
    submit_s = np.where(submit == NOT_A_TIME, np.nan, submit / 1e6)
    wait_s, run_s = _known(checker.number("wait")), _known(checker.number("run"))
    bad = (np.abs(np.nan_to_num(wait_s)) > 1e10) | (np.abs(np.nan_to_num(run_s)) > 1e10)
    checker.reject(bad, q.IMPLAUSIBLE_DURATION, "run")
    checker.reject(run_s < 0, q.NEGATIVE_DURATION, "run")
    checker.reject(wait_s < 0, q.NEGATIVE_DURATION, "wait")
    wait_s, run_s = np.where(bad, np.nan, wait_s), np.where(bad, np.nan, run_s)
    processors, asked = _known(checker.number("procs")), _known(checker.number("req_procs"))
    status = checker.text("status")
    # What was cancelled before it ran has a run time of 0 or none, or held no processor.
    cancelled = as_mask(pc.equal(status, "5"))
    never = np.isnan(run_s) | (cancelled & ((run_s == 0) | ~(processors > 0)))
    run_s = np.where(never & cancelled, np.nan, run_s)
    start_s = np.where(never, np.nan, submit_s + wait_s)
    end_s = np.where(never & cancelled, submit_s + wait_s, start_s + run_s)
    start, end = instants_of_seconds(start_s), instants_of_seconds(end_s)
    checker.reject(start.implausible | end.implausible, q.IMPLAUSIBLE_TIME, "run")
    processors = np.where((processors > 0) | ~(asked > 0), processors, asked)
    memory_kib = _known(checker.number("req_mem", fact="requested_memory_mib"))
    memory_kib = np.where(memory_kib == 0, np.nan, memory_kib) * np.where(asked > 0, asked, processors)
    state = checker.mapped("status", _STATES.get, pa.string())
    unknown = pc.and_(pc.is_null(state), pc.invert(pc.is_in(status, pa.array(["-1", *_PARTIAL]))))
    checker.reject(as_mask(unknown), q.UNKNOWN_STATE, "status")
    return build_jobs(
        checker,
        source_columns("swf"),
        {
            "virtual_cluster": pc.fill_null(checker.mapped("partition", _word, pa.string()), WHOLE_CLUSTER),
            "gpus": processors,
            "cpus": processors,
            "requested_memory_mib": memory_kib / 1024,
            "state": state,
            "submit_time": submit,
            "start_time": start.values,
            "end_time": end.values,
            "duration_s": run_s,
            "queuing_delay_s": np.where(never, np.nan, wait_s),
        },
        unknown=-1,
    )


READER = Reader(
    name="swf",
    summary="Standard Workload Format 2.2 (Parallel Workloads Archive)",
    table="jobs",
    time_zone="UTC",
    chunks=_LAYOUT,
    normalise=_normalise,
    prepare=_start_of_log_s,
    stated_size=_stated_size,
    trace_start=UNIX_EPOCH,
    stated_zone=_stated_zone,
)
