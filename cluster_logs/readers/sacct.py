"""Slurm accounting: the output of `sacct` with columns separated for programs, with or without its header.

The command that exports it is `slurm_words.EXPORT_COMMAND`; what else an export is like: `sacct_layout`.
Times without an offset are read in the reader's time zone (UTC); with SLURM_TIME_FORMAT=%s they are seconds
since 1970, which is understood as well.

The job id is JobIDRaw where there is one: with Submit it tells the runs of a requeued job apart (`-D` lists
each). The records of a run of several sizes are one job (`sacct_layout.Resizes`). Steps (`.batch`,
`.extern`, `.0`) are skipped. Of a file with several clusters the one named by the caller is read. GPUs come
from `gres/gpu=N` in AllocTRES, or ReqTRES for a job that was never allocated; `gres/gpu:TYPE=N` repeats the
same GPUs and counts only where the plain entry is missing (needs
`AccountingStorageTRES=gres/gpu,gres/shard`).

What a job asked for stands in ReqTRES: its memory, and the type of its GPUs where a site accounts for types
(`gres/gpu:TYPE=N`). AllocTRES holds what it was given, which was unknown when it was submitted: types and
memory are not read there. Of a log without ReqTRES ReqMem is read (all of a job's since Slurm 21.08; before,
`4Gn` is of each node and `4Gc` of each core; 0 is all that a node has: unknown), and ReqGRES. An amount
that cannot be read leaves the job without it, as every fact but its identity, times and size.

A job that holds shares of GPUs (`gres/shard`, `gres/mps`) and no whole one counts a GPU of each of its nodes;
slices of GPUs (MIG), where types name them, count as the GPUs that they make up (`slurm_words.gpus_held`).

With a Comment or AdminComment column and the key of the cluster's live scheduler its marks are read
(`cluster_logs.slurm_mark`): such a job belongs to its home and was submitted when its user did so; its run
that the profiler cut is skipped. What looks like a mark and was not sealed with that key, for that job, is
its user's text: it is counted, and the source's own columns hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_logs import quarantine as q
from cluster_logs.host_lists import expand_hosts
from cluster_logs.job_table import WHOLE_CLUSTER, JobState
from cluster_logs.readers.base import EVERY_CLUSTER, Context, Reader, ReadOptions, build_jobs
from cluster_logs.readers.delimited import Layout
from cluster_logs.readers.row_checker import FloatArray, IntArray, Mask, RowChecker, as_mask, is_missing
from cluster_logs.readers.sacct_layout import COLUMNS, Resizes, find_resizes, layout_of
from cluster_logs.readers.source import NOT_A_TIME, RawChunk, TextSource
from cluster_logs.slurm_mark import MARK_PREFIX, MarkKey, MarkStage, SlurmMark
from cluster_logs.slurm_words import (
    EXPORT_COMMAND,
    OF_EACH_CORE_MIB,
    elapsed_s,
    gpu_type_of_tres,
    gpus_of_tres,
    held_by_tres,
    home_partition,
    memory_mib,
    memory_mib_of_tres,
    minutes_s,
    slurm_state,
)
from foundation.errors import BadInputError

_HOUR_US = 3_600_000_000

_STEP = r"\."
# A run that ended so is not the job's last: it waits again, and its next run has a row of its own.
_CUT = frozenset({"REQUEUED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL"})
# A run ends in these states only after a while.
_TAKES_TIME = frozenset({"BOOT_FAIL", "CANCELLED", "CANCELED", "DEADLINE", "REVOKED", "TIMEOUT"})
_NO_NODE = "None assigned"
# What slurmctld sets where neither the job nor its partition has a limit.
_A_YEAR_S = 365 * 86_400.0
_UNKNOWN_MEMORY = ("?",)  # so older versions of sacct said it
_WHAT_HAS_SO_MUCH = {"n": "nodes", "c": "cpus"}
_PARTITION_LIMIT = "PARTITION_LIMIT"
_UNLIMITED = ("UNLIMITED", _PARTITION_LIMIT)
# What is noted of jobs with parts of GPUs that count as whole ones, by the kind of part.
_NOTES = {"mps": q.SHARED_BY_MPS, "shard": q.SHARED_BY_SHARD, "mig": q.SLICED_BY_MIG}


def gpus_in_tres(checker: RowChecker, column: str) -> FloatArray:
    """GPUs of each row, shape (rows,): 0 of an empty list, NaN where the amount is no number."""
    gpus, unreadable = checker.parsed(column, gpus_of_tres, fact="gpus")
    return np.where(unreadable, np.nan, np.nan_to_num(gpus))


def shared_by(checker: RowChecker, column: str) -> pa.Array:
    """What each row has of its GPUs: shares (mps, shard), slices (mig), or whole ones ("")."""
    return checker.mapped(column, lambda tres: held_by_tres(tres).shared_by, pa.string(), fact="gpus")


def note_shared(checker: RowChecker, kinds: pa.Array) -> None:
    """Note the rows (by `shared_by`) with parts of GPUs that are counted as whole ones."""
    for kind, note in _NOTES.items():
        checker.note(as_mask(pc.equal(kinds, kind)), note)


def _chunks(source: TextSource, options: ReadOptions) -> Iterator[RawChunk]:
    return layout_of(source).read(source)


@dataclass(frozen=True)
class _LogFacts:
    """What is known of a file before its rows are read."""

    cluster: str | None
    resizes: Resizes


def _prepare(source: TextSource, options: ReadOptions) -> _LogFacts:
    layout = layout_of(source)
    return _LogFacts(_clusters(source, layout, options), find_resizes(source, layout))


def _clusters(source: TextSource, layout: Layout, options: ReadOptions) -> str | None:
    """The one cluster of the file's Cluster column to read; None: all rows.

    Raises BadInputError when the file holds several clusters and none has the name that the caller gave.
    """
    if options.cluster == EVERY_CLUSTER:
        return None
    names: dict[str, None] = {}
    for chunk in layout.read(source, only=("cluster", "jobidraw", "jobid")):
        if "cluster" not in chunk.columns:
            return None
        words = RowChecker(chunk, source.name, "UTC").text("cluster")
        names.update(dict.fromkeys(word for word in pc.unique(words).to_pylist() if word))
        if options.cluster in names:
            return options.cluster
    if len(names) > 1:
        raise BadInputError(
            f"{source.place} holds jobs of several clusters, and none is called {options.cluster!r}.",
            remedy=f"Choose one of: {', '.join(sorted(names))}.",
        )
    return None


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    facts = cast("_LogFacts", context.facts)
    checker.chunk = facts.resizes.of_last_records(checker.chunk)
    checker.skip(facts.resizes.earlier_in(checker.chunk), q.RESIZED)
    id_column = "jobidraw" if "jobidraw" in checker else "jobid"
    shown_id = checker.text("jobid" if "jobid" in checker else "jobidraw")
    checker.skip(as_mask(pc.match_substring_regex(shown_id, _STEP)), q.STEP_ROW)
    if facts.cluster is not None:
        checker.skip(as_mask(pc.not_equal(checker.text("cluster"), facts.cluster)), q.OTHER_CLUSTER)
    state = checker.mapped("state", slurm_state, pa.string())
    start, end, submit = (checker.instant_or_seconds(name) for name in ("start", "end", "submit"))
    ran_s = _run_time_s(checker)
    start = np.where(_never_started(checker, start, end, ran_s), NOT_A_TIME, start)
    ran_s = np.where(start != NOT_A_TIME, ran_s, np.nan)
    start, end = _in_the_second_hour(submit, start, end, ran_s)
    # A requeued run without an end is one that waits to begin again.
    waits = as_mask(pc.equal(checker.mapped("state", _bare_state, pa.string()), "REQUEUED")) & (
        (end == NOT_A_TIME) | (start == NOT_A_TIME)
    )
    state = pc.if_else(pa.array(waits), JobState.PENDING.value, state)
    home = checker.optional_text("partition")
    if home is not None:
        homes = checker.mapped("partition", home_partition, pa.string())
        home = pc.if_else(pc.is_valid(home), homes, None)
    logged = submit
    home, submit = _as_marked(checker, context.options.mark_key, checker.text(id_column), home, submit)
    return build_jobs(
        checker,
        COLUMNS,
        {
            "virtual_cluster": None if home is None else pc.fill_null(home, WHOLE_CLUSTER),
            "queue": home,
            "gpus": _gpus(checker),
            "gpu_type": _gpu_type(checker),
            "requested_memory_mib": _requested_memory_mib(checker),
            "state": state,
            "submit_time": submit,
            "start_time": start,
            "end_time": end,
            "eligible_time": _eligible(checker, submit, moved=submit < logged),
            "duration_s": ran_s,
            "service_s": ran_s,
            "time_limit_s": _time_limit_s(checker),
        },
    )


def _as_marked(
    checker: RowChecker, key: MarkKey | None, job_ids: pa.Array, partition: pa.Array | None, submit: IntArray
) -> tuple[pa.Array | None, IntArray]:
    """Home and submission of each run as the mark on it says; the run that the profiler cut is skipped.

    Only a job's first run is a profiler's: one that was submitted when its user did so. A marked run that was
    cut at home keeps its own submission, and with it a key of its own beside the job's last run.
    """
    marks: dict[int, SlurmMark] = {}
    looks = np.zeros(len(checker), dtype=bool)
    for comments in (
        checker.text(column, fact="comment") for column in ("comment", "admincomment") if column in checker
    ):
        candidates = as_mask(pc.match_substring(comments, MARK_PREFIX))
        looks |= candidates
        for at in map(int, np.flatnonzero(candidates) if key is not None else ()):
            mark = key and key.read(comments[at].as_py(), str(job_ids[at].as_py()))
            if mark:
                marks[at] = mark
    read = np.zeros(len(checker), dtype=bool)
    read[list(marks)] = True
    checker.note(looks & ~read, q.UNVERIFIED_MARK)
    if not marks:
        return partition, submit
    submitted_us = np.full(len(checker), NOT_A_TIME)
    profiled = np.zeros(len(checker), dtype=bool)
    homes: list[str | None] = [None] * len(checker)
    for at, mark in marks.items():
        submitted_us[at], homes[at] = mark.submitted_s * 1_000_000, mark.home
        profiled[at] = mark.stage is MarkStage.PROFILING
    cut = as_mask(pc.is_in(checker.mapped("state", _bare_state, pa.string()), pa.array(sorted(_CUT))))
    checker.skip(profiled & cut & (submit == submitted_us), q.PROFILING_RUN)
    marked_homes = pa.array(homes, pa.string())
    return (
        marked_homes if partition is None else pc.coalesce(marked_homes, partition),
        np.where(~read | cut, submit, np.minimum(submitted_us, submit)),
    )


def _bare_state(word: str) -> str:
    return word.split()[0].rstrip("+").upper() if word.strip() else ""


def _never_started(checker: RowChecker, start: IntArray, end: IntArray, ran_s: FloatArray) -> Mask:
    """Rows of jobs that ended without a run, whatever their state: cancelled or past their deadline while
    they waited, refused when they were submitted.

    Some versions write the end as their start, and the request as what they were given (AllocTRES). Their
    nodes tell (NodeList, AllocNodes). In a log that does not name those, an empty AllocTRES does, a state
    that no run reaches in no time, and the limit Partition_Limit, which the start replaces by a number.
    """
    took_no_time: Mask = np.where(np.isnan(ran_s), start == end, ran_s == 0).astype(bool)
    given = ~is_missing(checker.text("alloctres")) if "alloctres" in checker else None
    if "nodelist" in checker:
        listed = checker.text("nodelist", fact="nodes")
        says_none = as_mask(pc.equal(listed, _NO_NODE))
        nowhere = says_none | is_missing(listed)
    elif "allocnodes" in checker:
        says_none = nowhere = np.equal(checker.number("allocnodes", fact="nodes"), 0)
    else:
        words = checker.mapped("state", _bare_state, pa.string())
        nowhere = as_mask(pc.is_in(words, pa.array(sorted(_TAKES_TIME)))) | _has_no_limit_yet(checker)
        nowhere = nowhere if given is None else nowhere | ~given
        says_none = np.zeros(len(checker), dtype=bool)
    # An export may leave a job's nodes empty; Slurm's own words for no node are no gap.
    never: Mask = nowhere & (took_no_time | (says_none if given is None else says_none & ~given))
    return never


def _has_no_limit_yet(checker: RowChecker) -> Mask:
    column = checker.first_of("timelimitraw|timelimit")
    if column not in checker:
        return np.zeros(len(checker), dtype=bool)
    return as_mask(pc.equal(pc.utf8_upper(checker.text(column, fact="time_limit_s")), _PARTITION_LIMIT))


def _in_the_second_hour(
    submit: IntArray, start: IntArray, end: IntArray, ran_s: FloatArray
) -> tuple[IntArray, IntArray]:
    """Starts and ends, in the second of the two equal hours of an autumn night where the run time decides it.

    A job that ran for an hour more than its times show ended in it. One that ran for an hour less started in
    it if it would have started before its submission; any other was suspended.
    """
    both = (start != NOT_A_TIME) & (end != NOT_A_TIME)
    shown_s = np.where(both, (np.where(both, end, 0) - np.where(both, start, 0)) / 1e6, np.nan)
    ended_in_it = np.abs(ran_s - shown_s - 3_600.0) <= 1.0
    less = np.abs(shown_s - ran_s - 3_600.0) <= 1.0
    started_in_it = less & (submit != NOT_A_TIME) & (start < submit) & (start + _HOUR_US >= submit)
    return np.where(started_in_it, start + _HOUR_US, start), np.where(ended_in_it, end + _HOUR_US, end)


def _gpus(checker: RowChecker) -> FloatArray:
    """GPUs of each row; those of which the job has a part count whole, and it is noted."""
    column = "alloctres" if "alloctres" in checker else "reqtres"
    gpus, kinds = gpus_in_tres(checker, column), shared_by(checker, column)
    if column == "alloctres" and "reqtres" in checker:
        waits = is_missing(checker.text(column))
        gpus = np.where(waits, gpus_in_tres(checker, "reqtres"), gpus)
        kinds = pc.if_else(pa.array(waits), shared_by(checker, "reqtres"), kinds)
    note_shared(checker, kinds)
    shares = as_mask(pc.is_in(kinds, pa.array(["mps", "shard"])))
    return np.where(shares, np.fmax(_count(checker, "nodes"), gpus), gpus)


def _gpu_type(checker: RowChecker) -> pa.Array | None:
    columns = [column for column in ("reqtres", "reqgres") if column in checker]
    types = [checker.mapped(column, gpu_type_of_tres, pa.string(), fact="gpu_type") for column in columns]
    return pc.coalesce(*types) if types else None


def _requested_memory_mib(checker: RowChecker) -> FloatArray:
    """Memory of the whole job; 0, which is all that its nodes have, is none that was asked for."""
    fact, size = "requested_memory_mib", len(checker)
    memory, lost = np.zeros(size), np.zeros(size, dtype=bool)
    if "reqmem" in checker:
        memory, lost = checker.parsed("reqmem", memory_mib, fact=fact, missing=_UNKNOWN_MEMORY)
        for ending, counted in _WHAT_HAS_SO_MUCH.items():
            each = as_mask(pc.ends_with(checker.text("reqmem", fact=fact), ending))
            if each.any():
                of_cores = each & (memory >= OF_EACH_CORE_MIB)
                memory = np.where(of_cores, memory - OF_EACH_CORE_MIB, memory)
                count = np.where(of_cores, _count(checker, "cpus"), _count(checker, counted))
                memory = np.where(each, memory * count, memory)
                lost |= each & np.isnan(memory)
    if "reqtres" in checker:
        of_job, unreadable = checker.parsed("reqtres", memory_mib_of_tres, fact=fact)
        memory, lost = np.where(of_job > 0, of_job, memory), (lost | unreadable) & ~(of_job > 0)
    checker.cannot_use(lost, q.UNREADABLE_NUMBER, None, fact)
    return np.where(memory == 0, np.nan, memory)


def _eligible(checker: RowChecker, submit: IntArray, *, moved: Mask) -> IntArray | None:
    """From when on Slurm might have started each run (`Unknown`: never yet), never before its submission.

    Not believed where the live scheduler sets begin times itself: for jobs that it `moved`, and those of
    shares of GPUs.
    """
    if "eligible" not in checker:
        return None
    eligible, ours = checker.instant_or_seconds("eligible", fact="eligible_time"), moved.copy()
    for column in ("alloctres", "reqtres"):
        if column in checker:
            ours |= as_mask(pc.match_substring(checker.text(column), "gres/shard"))
    believed = (eligible != NOT_A_TIME) & ~ours
    return np.where(believed, np.maximum(eligible, submit), NOT_A_TIME)


def _run_time_s(checker: RowChecker) -> FloatArray:
    """What accounting states beside starts and ends, which are used without it."""
    if "elapsedraw" in checker:
        return checker.number("elapsedraw", fact="service_s")
    if "elapsed" in checker:
        return checker.translated_number("elapsed", elapsed_s, fact="service_s")
    return np.full(len(checker), np.nan)


def _time_limit_s(checker: RowChecker) -> FloatArray | None:
    """Minutes, or `[DD-]HH:MM:SS`, or a word for no limit (unknown here)."""
    column = checker.first_of("timelimitraw|timelimit")
    if column not in checker:
        return None

    def seconds(text: str) -> float | None:
        minutes = minutes_s(text) if column == "timelimitraw" else None
        return elapsed_s(text) if minutes is None else minutes

    limits = checker.translated_number(column, seconds, fact="time_limit_s", missing=_UNLIMITED)
    return np.where(limits == _A_YEAR_S, np.nan, limits)


def _count(checker: RowChecker, fact: str) -> FloatArray:
    """Nodes or cores of each row; NaN where accounting does not say."""
    column = checker.first_of(COLUMNS[fact])
    return checker.number(column, fact=fact) if column in checker else np.full(len(checker), np.nan)


def _machines(chunk: RawChunk) -> Iterator[tuple[str, str, int]]:
    """The machines of NodeList (`sacct -o ...,NodeList`), where that is there."""
    checker = RowChecker(chunk, "", "UTC")
    if "nodelist" not in checker or "partition" not in checker:
        return
    gpus = np.nan_to_num(_gpus(checker), posinf=0.0, neginf=0.0)
    rows = zip(checker.text("partition").to_pylist(), checker.text("nodelist").to_pylist(), gpus, strict=True)
    for partition, listed, held in rows:
        hosts = expand_hosts(listed) if partition and listed and "assigned" not in listed else []
        for host in hosts:
            yield partition, host, int(held // len(hosts))


READER = Reader(
    name="sacct",
    summary="Slurm accounting (sacct --parsable2)",
    table="jobs",
    time_zone="UTC",
    chunks=_chunks,
    normalise=_normalise,
    prepare=_prepare,
    machines=_machines,
    export=EXPORT_COMMAND,
)
