"""Philly's official `cluster_job_log`: a JSON array of jobs with their scheduling attempts.

Times are naive US Pacific, or null, or the text "None". GPUs appear only in an attempt's `detail`; a job
without attempts, or with attempts that name no GPU, is refused (`missing_gpus`): it is unknown how large it
was. A null end of the last attempt means that the job was still running when the log was written, whatever
its status says. Wall time (`duration_s` = last end - first start) includes the gaps between attempts;
`service_s` sums the attempts alone. The array is read element by element, so memory does not grow with the
file; an element that is no JSON, or no job, is refused by itself.
"""

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.job_facts import source_columns
from cluster_logs.job_table import JobState
from cluster_logs.readers.base import Context, Reader, ReadOptions, build_jobs
from cluster_logs.readers.philly_csv import TIME_ZONE
from cluster_logs.readers.row_checker import RowChecker, parse_instants
from cluster_logs.readers.source import NOT_A_TIME, MalformedRow, RawChunk, TextSource
from foundation.errors import BadInputError

JOBS_PER_CHUNK = 10_000
MAX_JOB_CHARACTERS = 16 * 1024 * 1024

_STATES: Mapping[str, JobState] = {
    "Pass": JobState.COMPLETED,
    "Killed": JobState.CANCELLED,
    "Failed": JobState.FAILED,
    "Running": JobState.RUNNING,
    "Queued": JobState.PENDING,
}
_NEEDED = {"jobid", "submitted_time", "status", "attempts"}
_ATTEMPT_TIMES = ("start_time", "end_time")
_FIELDS = ("jobid", "vc", "user", "status", "submitted_time")


def _elements(source: TextSource) -> Iterator[tuple[Any, str]]:
    """Each element of the top-level array with its text; BadInputError where the file is not such an array.

    An element that cannot be parsed is None. Bytes that are not UTF-8 are kept as surrogates, so that only
    the job that holds them is refused.
    """
    decoder = json.JSONDecoder()
    to_text = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
    text, at, opened, count = "", 0, False, 0
    for block in source.blocks(1 << 20):
        text, at = text[at:] + to_text.decode(block), 0
        while True:
            at = _skip_blanks(text, at, "," if opened and count else "")
            if at == len(text):
                break
            if not opened:
                if text[at] != "[":
                    raise BadInputError(
                        f"{source.place} is not a JSON array of jobs.", remedy="Check the format."
                    )
                at, opened = at + 1, True
                continue
            if text[at] == "]":
                return
            element, end = _parse(decoder, text, at)
            if end is None:
                if len(text) - at > MAX_JOB_CHARACTERS:
                    raise BadInputError(
                        f"{source.place} is no longer JSON at job {count + 1}: it does not end within "
                        f"{MAX_JOB_CHARACTERS // 2**20} MiB.",
                        remedy="Repair the file.",
                    )
                break  # the element goes on in the next block
            count += 1
            yield element, text[at:end]
            at = end
    if source.most_bytes is not None:
        return
    raise BadInputError(
        f"{source.place} ends in the middle of job {count + 1}.",
        remedy="The file is truncated; copy it again.",
    )


def _parse(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int | None]:
    """The element that begins here (None if it is no JSON) and its end; no end: it goes on after the text."""
    try:
        element, end = decoder.raw_decode(text, at)
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, thousands of brackets
        return None, _end_by_brackets(text, at)
    # A number may go on in the next block.
    return element, None if end == len(text) and text[at] not in '{["' else end


_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[\[\]{},]')
_CLOSES = {"}": "{", "]": "["}


def _end_by_brackets(text: str, at: int) -> int | None:
    """Where an element ends that cannot be parsed: at its last bracket, or at a comma; None: not in the text.

    A bracket also closes those inside it that were left open; a string ends at the line's end at the latest.
    """
    open_brackets: list[str] = []
    for match in _TOKEN.finditer(text, at):
        mark = match.group()
        if mark in "{[":
            open_brackets.append(mark)
        elif mark in "}]":
            if not open_brackets:
                return (
                    match.start() if mark == "]" else match.end()
                )  # the array's own end, or a stray bracket
            while open_brackets and open_brackets.pop() != _CLOSES[mark]:
                pass
            if not open_brackets:
                return match.end()
        elif mark == "," and not open_brackets:
            return match.start()
    return None


def _skip_blanks(text: str, at: int, also: str) -> int:
    while at < len(text) and text[at] in " \t\r\n" + also:
        at += 1
    return at


def _chunks(source: TextSource, options: ReadOptions) -> Iterator[RawChunk]:
    elements = enumerate(_elements(source), start=1)
    while part := list(islice(elements, JOBS_PER_CHUNK)):
        yield _raw_chunk(part)


def _fault(element: Any) -> tuple[str | None, str | None] | None:
    """Why an element is no job: the field that has another shape and its value; None: it is one."""
    if not isinstance(element, dict) or not element.keys() >= _NEEDED:
        return None, None
    for name in _FIELDS:
        if not _is_scalar(element.get(name)):
            return name, json.dumps(element[name])
    attempts = element["attempts"] or []
    whole = isinstance(attempts, list) and all(map(_is_attempt, attempts))
    return None if whole else ("attempts", json.dumps(attempts))


def _is_attempt(attempt: Any) -> bool:
    if not isinstance(attempt, dict) or not all(_is_scalar(attempt.get(name)) for name in _ATTEMPT_TIMES):
        return False
    detail = attempt.get("detail") or []
    return isinstance(detail, list) and all(
        isinstance(part, dict) and isinstance(part.get("gpus") or [], list) for part in detail
    )


def _is_scalar(value: Any) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def _raw_chunk(part: list[tuple[int, tuple[Any, str]]]) -> RawChunk:
    jobs, malformed = [], []
    for row, (element, text) in part:
        fault = _fault(element)
        if fault is None:
            jobs.append((row, element, text))
        else:
            malformed.append(MalformedRow(row, q.NOT_A_JOB, *fault, _shown(text)))
    columns = {
        name: pa.array([_as_bytes(job.get(name)) for _, job, _ in jobs], pa.binary()) for name in _FIELDS
    }
    return RawChunk(
        columns,
        rows=np.array([row for row, _, _ in jobs], dtype=np.int64),
        raw=lambda index: _shown(jobs[index][2]),
        malformed=malformed,
        rows_in=len(part),
        objects=[job["attempts"] or [] for _, job, _ in jobs],
    )


def _shown(text: str) -> str:
    return q.cut_evidence(text.encode(errors="surrogateescape"))


def _as_bytes(value: Any) -> bytes | None:
    # Half a surrogate pair and bytes that are not UTF-8 both become bytes that are not UTF-8.
    return None if value is None else str(value).encode(errors="surrogatepass")


def _gpus_and_nodes(attempts: list[dict[str, Any]]) -> tuple[float, float]:
    """GPUs and nodes of the largest attempt: the demand does not change, but an attempt may list less."""
    best = (float("nan"), float("nan"))
    for attempt in attempts:
        detail = attempt.get("detail") or []
        gpus = sum(len(part.get("gpus") or []) for part in detail)
        if gpus and not gpus <= best[0]:
            best = (float(gpus), float(len(detail)))
    return best


def _normalise(checker: RowChecker, context: Context) -> pa.Table:
    all_attempts = checker.chunk.objects
    size = len(checker)
    owner = np.repeat(np.arange(size), [len(attempts) for attempts in all_attempts])
    starts = _attempt_times(checker, all_attempts, owner, "start_time")
    ends = _attempt_times(checker, all_attempts, owner, "end_time")

    first_start = np.full(size, np.iinfo(np.int64).max)
    has_started = starts != NOT_A_TIME
    np.minimum.at(first_start, owner[has_started], starts[has_started])
    started = first_start != np.iinfo(np.int64).max
    first_start[~started] = NOT_A_TIME
    last_end = np.full(size, NOT_A_TIME)
    last_end[owner] = ends  # the last attempt is written last
    ran = has_started & (ends != NOT_A_TIME)
    bad_attempt = np.zeros(size, dtype=bool)
    bad_attempt[owner[ran & (ends < starts)]] = True
    service_s = np.zeros(size)
    np.add.at(service_s, owner[ran], (ends[ran] - starts[ran]) / 1e6)
    sizes = np.array([_gpus_and_nodes(attempts) for attempts in all_attempts]).reshape(size, 2)

    running = started & (last_end == NOT_A_TIME)
    states = checker.mapped("status", _STATES.get, pa.string()).to_pylist()
    words = [JobState.RUNNING.value if still else word for still, word in zip(running, states, strict=True)]
    checker.reject(np.array([word is None for word in states], dtype=bool), q.UNKNOWN_STATE, "status")
    checker.reject(bad_attempt, q.END_BEFORE_START, "attempts")
    return build_jobs(
        checker,
        source_columns("philly-json"),
        {
            "gpus": sizes[:, 0],
            "nodes": sizes[:, 1],
            "state": pa.array(words, pa.string()),
            "start_time": first_start,
            "end_time": last_end,
            "service_s": np.where(started, service_s, np.nan),
        },
    )


def _attempt_times(
    checker: RowChecker, all_attempts: Sequence[Any], owner: np.ndarray[Any, np.dtype[np.int64]], name: str
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """One instant an attempt; a job with an unreadable one is refused."""
    texts = [attempt.get(name) for attempts in all_attempts for attempt in attempts]
    shown = [None if text is None else str(text).encode(errors="replace").decode() for text in texts]
    instants = parse_instants(pa.array(shown, pa.string()), checker.time_zone)
    for bad, reason in ((instants.unreadable, q.UNREADABLE_TIME), (instants.implausible, q.IMPLAUSIBLE_TIME)):
        jobs = np.zeros(len(checker), dtype=bool)
        jobs[owner[bad]] = True
        checker.reject(jobs, reason, "attempts")
    return instants.values


def _machines(chunk: RawChunk) -> Iterator[tuple[str, str, int]]:
    for vc, attempts in zip(chunk.columns["vc"].to_pylist(), chunk.objects, strict=True):
        for attempt in attempts:
            for part in attempt.get("detail") or []:
                if vc is not None and part.get("ip") is not None:
                    yield vc.decode(errors="replace"), str(part["ip"]), len(part.get("gpus") or [])


READER = Reader(
    name="philly-json",
    summary="Philly, the official cluster_job_log (JSON with attempts)",
    table="jobs",
    time_zone=TIME_ZONE,
    chunks=_chunks,
    normalise=_normalise,
    machines=_machines,
)
