"""Orders a queue by a release: the job that will hold the fewest GPU-seconds goes first (Lucid section
3.5.3). Without a release, first in, first out.

The queue comes as CSV or JSON, and every value is checked; needs the standard library only. Columns: job_id,
gpus, submit_time (ISO time, UTC unless it names a zone, or Unix seconds), and where known all other facts of
a waiting job (`job_facts.JOB_FACTS`: user, virtual_cluster, name, time_limit_s, ...). An unknown value is an
empty field, or null in JSON; NaN is refused, because it hides a fault of the program that wrote the file.
JSON is a list of objects, or an object with such a list under `jobs`.
"""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cluster_logs.job_facts import JOB_FACTS, KnownFrom
from foundation import strict_json
from foundation.errors import BadInputError
from foundation.outside_names import open_regular, read_regular
from live_scheduler.release import FallbackRelease, Release

__all__ = ["RankedJob", "rank_queue", "read_queue"]
Job = dict[str, Any]
REQUIRED = ("job_id", "gpus", "submit_time")
_OPTIONAL = [fact for fact in JOB_FACTS if fact.known is not KnownFrom.LOGGED and fact.name not in REQUIRED]
TEXTS = tuple(fact.name for fact in _OPTIONAL if not fact.is_number)
# Column -> (least, most).
NUMBERS: Mapping[str, tuple[float, float]] = {
    fact.name: fact.bounds or (0, math.inf) for fact in _OPTIONAL if fact.is_number
}
MAX_GPUS = 1_000_000
MAX_QUEUE_BYTES = 512 * 1024 * 1024
_YEAR_9999_S = 253_402_300_799.0


@dataclass(frozen=True)
class RankedJob:
    """One waiting job; the lowest `priority` starts first.

    `priority` is GPUs x estimated run time in GPU-seconds (a job without GPUs counts as one), or by the
    fallback the submission in Unix seconds. `estimated_duration_s` is None by the fallback, which knows no
    run times.
    """

    job_id: str
    priority: float
    estimated_duration_s: float | None
    reason: str


def rank_queue(queue: Sequence[Mapping[str, Any]], release: Release) -> list[RankedJob]:
    """The queue in the order in which its jobs should start; ties by submission, then by place in the queue.

    Raises BadInputError that names the row and column of a value that cannot be used. A release that fails
    on a queue is not used for it: the queue is then served first in, first out, and every reason says why.
    """
    jobs = check_queue(queue)
    if not jobs:
        return []
    if isinstance(release, FallbackRelease):
        return _first_in_first_out(jobs, release.why)
    try:
        estimates = release.scorers.duration.estimate(jobs)
    except Exception as error:  # a scheduler must go on whatever a model does
        return _first_in_first_out(jobs, f"{release.describe()} failed on this queue: {error!r}")
    ranked = [
        RankedJob(str(job["job_id"]), max(job["gpus"], 1) * estimate.p50_s, estimate.p50_s, estimate.reason)
        for job, estimate in zip(jobs, estimates, strict=True)
    ]
    order = sorted(range(len(jobs)), key=lambda i: (ranked[i].priority, jobs[i]["submit_time_s"], i))
    return [ranked[position] for position in order]


def _first_in_first_out(jobs: Sequence[Mapping[str, Any]], why: str) -> list[RankedJob]:
    reason = f"First in, first out: {why}"
    return [
        RankedJob(str(jobs[i]["job_id"]), float(jobs[i]["submit_time_s"]), None, reason)
        for i in fifo_order(jobs)
    ]


def fifo_order(jobs: Sequence[Mapping[str, Any]]) -> list[int]:
    """Positions of the jobs (with submit_time_s) by submission; equal times stay in the queue's order.

    Without a model and without history nothing is known of run times, so no order by size or run time can be
    defended. FIFO is what a cluster does by default, starves no job, and cannot make matters worse.
    """
    return sorted(range(len(jobs)), key=lambda position: float(jobs[position]["submit_time_s"]))


def read_queue(path: str | Path) -> list[Job]:
    """The waiting jobs of a file, in its order, as `check_queue` returns them; `.gz` is understood.

    Raises BadInputError that names the file, and the row and column of a value that cannot be used.
    """
    source = Path(path)
    text = _read_text(source)
    if not text.strip():
        raise BadInputError(
            f"The queue {source} is empty.", remedy="An empty queue is a header line, or [] in JSON."
        )
    rows = _json_rows(text, source) if text.lstrip()[0] in "[{" else _csv_rows(text, source)
    return check_queue(rows, place=f"The queue {source}")


def check_queue(rows: Iterable[Mapping[str, Any]], *, place: str = "The queue") -> list[Job]:
    """Each row with checked values: job_id, gpus (int), submit_time_s (Unix time), the rest or None.

    Raises BadInputError that names the row (1-based) and column of the first value that cannot be used.
    """
    jobs: list[Job] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        job = _check_row(row, f"{place}, row {number}")
        if job["job_id"] in seen:
            raise BadInputError(
                f"{place}, row {number}, column job_id: {job['job_id']!r} stands in row "
                f"{seen[job['job_id']]} too.",
                remedy="Give each waiting job once.",
            )
        seen[job["job_id"]] = number
        jobs.append(job)
    return jobs


def _check_row(row: Mapping[str, Any], place: str) -> Job:
    if not isinstance(row, Mapping):
        raise BadInputError(f"{place} is {row!r}, not a job.", remedy="Give one object a job.")
    gpus = _number(row.get("gpus"), f"{place}, column gpus", 0, MAX_GPUS)
    if gpus is None or gpus != int(gpus):
        raise _wrong(f"{place}, column gpus", row.get("gpus"), "a whole number of GPUs")
    job_id = _text(row.get("job_id"), f"{place}, column job_id")
    if job_id is None:
        raise _wrong(f"{place}, column job_id", row.get("job_id"), "the job's id")
    job: Job = {"job_id": job_id, "gpus": int(gpus), "submit_time_s": _submit_time(row, place)}
    for name in TEXTS:
        job[name] = _text(row.get(name), f"{place}, column {name}")
    for name, (least, most) in NUMBERS.items():
        job[name] = _number(row.get(name), f"{place}, column {name}", least, most)
    return job


def _submit_time(row: Mapping[str, Any], place: str) -> float:
    name = "submit_time" if "submit_time" in row else "submit_time_s"
    value, where = row.get(name), f"{place}, column {name}"
    if isinstance(value, datetime):
        moment: datetime | None = value
    elif isinstance(value, str) and not _looks_like_number(value):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise _wrong(where, value, "a time such as 2020-09-01T08:00:00") from None
    else:
        moment = None
    if moment is not None:
        return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()
    seconds = _number(value, where, 0, _YEAR_9999_S)
    if seconds is None:
        raise _wrong(where, value, "a time such as 2020-09-01T08:00:00")
    return seconds


def _looks_like_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(value: Any, where: str, least: float, most: float) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool):
        raise _wrong(where, value, "a number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(where, value, "a number") from None
    if not math.isfinite(number) or not least <= number <= most:
        raise _wrong(where, value, f"a number between {least:g} and {most:g}")
    return number


def _text(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(where, value, "a text")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _wrong(where, value, "a text")
    text = str(value).strip()
    if len(text) > 4_096:
        raise _wrong(where, text[:40] + "...", "a text of at most 4,096 characters")
    return text or None


def _wrong(where: str, value: Any, expected: str) -> BadInputError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    if value is None or value == "":
        return BadInputError(f"{where} is missing.", remedy=f"Give {expected}.")
    return BadInputError(f"{where} is {shown}.", remedy=f"Give {expected}; leave an unknown value empty.")


def _read_text(source: Path) -> str:
    try:
        if source.suffix == ".gz":
            with open_regular(source) as packed, gzip.open(packed) as stream:
                payload = stream.read(MAX_QUEUE_BYTES + 1)
        else:
            payload = read_regular(source, MAX_QUEUE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInputError(
            f"The queue {source} cannot be read: {error}.", remedy="Check the path and that it is complete."
        ) from error
    if len(payload) > MAX_QUEUE_BYTES:
        raise BadInputError(f"The queue {source} holds more than {MAX_QUEUE_BYTES} bytes.")
    try:
        return payload.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = payload[: error.start].count(b"\n") + 1
        raise BadInputError(
            f"The queue {source}, line {line}, is not UTF-8 (byte 0x{payload[error.start]:02x}).",
            remedy="Save the file as UTF-8.",
        ) from error


def _json_rows(text: str, source: Path) -> Sequence[Mapping[str, Any]]:
    try:
        document = strict_json.loads(text, constants=True)  # the value is refused below, by its column
    except (ValueError, RecursionError) as error:
        raise BadInputError(
            f"The queue {source} is not JSON: {error}.", remedy="Give a list of jobs."
        ) from error
    rows = document.get("jobs") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise BadInputError(f"The queue {source} holds no list of jobs.", remedy="Give a list of objects.")
    return rows


def _csv_rows(text: str, source: Path) -> list[Mapping[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows: list[Mapping[str, Any]] = []
    try:
        header = [name.strip() for name in reader.fieldnames or []]
        missing = [name for name in REQUIRED if name not in header]
        if missing:
            raise BadInputError(
                f"The queue {source} lacks the columns {', '.join(missing)}; it has {', '.join(header)}.",
                remedy="Give a comma-separated file with a header line.",
            )
        if len(set(header)) != len(header):
            raise BadInputError(f"The queue {source} names a column twice.", remedy="Name each column once.")
        reader.fieldnames = header
        for number, row in enumerate(reader, start=1):
            if None in row or None in row.values():
                raise BadInputError(
                    f"The queue {source}, row {number}, has not the {len(header)} fields of its header.",
                    remedy="Quote fields that hold commas.",
                )
            rows.append(row)
    except csv.Error as error:
        raise BadInputError(
            f"The queue {source}, line {reader.line_num}, is not CSV: {error}.", remedy="Check its quotes."
        ) from error
    return rows
