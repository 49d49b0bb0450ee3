"""Slurm's running jobs and their GPUs: `scontrol show job -d`, as text or (`--json`) as JSON.

Slurm names GPUs by index on a node, `GRES=gpu:a100:2(IDX:0,2-3)`: a map says which UUID that is. What it
calls the end of a running job is when its limit runs out, so a running job has no end here. Sharded GPUs
(`shard`, `mps`) are not whole ones and are not read.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from cluster_logs import quarantine as q
from cluster_logs.host_lists import expand_hosts
from cluster_logs.metrics.allocations import AllocationBatch, check_allocations
from cluster_logs.metrics.source_account import SourceAccount
from foundation import strict_json
from foundation.errors import BadInputError

_FIELD = re.compile(r"(?<!\S)([A-Za-z/:]+)=(\S*)")
_INDEX = re.compile(r"[0-9]{1,4}")
_GPUS = re.compile(r"(?<![a-z/])gpu(?::[^:(,]+)?(?::\d+)?\(IDX:([0-9,-]+)\)")
_NODES_LINE = re.compile(r"(?<!\S)Nodes=(\S+) CPU_IDs=\S* .*?GRES=(\S*)")
_RUNNING = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "RESIZING"})
_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED"})
# One job that holds these GPUs of these nodes: id, state, start, end, [(node, index)], its text.
_Held = tuple[str, str, Any, Any, list[tuple[str, int]], str]


def read_scontrol(text: str, gpus: Mapping[tuple[str, int], str], *, source_file: str) -> AllocationBatch:
    """Read what `scontrol show job -d` (or `--json`) wrote; `TZ=UTC` is taken for the times in its text.

    A row is a GPU that a job holds, or a job that holds none or has not started. Raises BadInputError for a
    text that holds no job.
    """
    held = list(_of_json(text, source_file) if text.lstrip().startswith("{") else _of_text(text))
    if not held and "JobId=" not in text and "No jobs in the system" not in text and '"jobs"' not in text:
        raise BadInputError(
            f"{source_file} holds no job of Slurm.",
            remedy="Save the output of `TZ=UTC scontrol show job -d` (or with --json).",
        )
    account = SourceAccount(source_format="scontrol", source_file=source_file)
    rows = []
    for number, (job_id, state, start, end, devices, raw) in enumerate(held, start=1):
        if not devices or state in _WAITING:
            account.rows_in += 1
            account.skipped[q.NOT_STARTED if state in _WAITING else q.NO_GPU] += 1
            continue
        for node, index in devices:
            uuid = gpus.get((node, index)) or gpus.get((node.split(".")[0], index))
            if uuid is None:
                account.rows_in += 1
                account.refuse(q.UNKNOWN_GPU_INDEX, number, raw, column="GRES", value=f"{node}:{index}")
                continue
            finish = None if state in _RUNNING else end
            rows.append({"job_id": job_id, "gpu_uuid": uuid, "start_time": start, "end_time": finish})
    frame = pd.DataFrame(rows, columns=["job_id", "gpu_uuid", "start_time", "end_time"], dtype=object)
    return check_allocations(frame, account)


def _of_text(text: str) -> Iterator[_Held]:
    for record in re.split(r"\n(?=JobId=)|\n\s*\n(?=\s*JobId=)", text.strip()):
        fields: dict[str, str] = {}
        for key, value in _FIELD.findall(record):
            fields.setdefault(key, value)  # the first stands: `Command=` may hold anything
        if "JobId" not in fields:
            continue
        devices = [
            (node, index)
            for nodes, gres in _NODES_LINE.findall(record)
            for node in expand_hosts(nodes)
            for index in _indices(gres)
        ]
        state = fields.get("JobState", "")
        start, end = (_known(fields.get(key)) for key in ("StartTime", "EndTime"))
        yield fields["JobId"], state, start, end, devices, record.strip()


def _of_json(text: str, source_file: str) -> Iterator[_Held]:
    try:
        document = strict_json.loads(text, constants=True)
        jobs = document["jobs"]
        for job in jobs:
            resources = job.get("job_resources") or {}
            nodes = resources.get("nodes") or job.get("nodes") or ""
            # Before 24.05 the list of nodes is a text, since then it stands under `nodes.list`.
            listed = nodes.get("list", "") if isinstance(nodes, dict) else nodes
            hosts = expand_hosts(str(listed))
            devices = [
                (host, index)
                for host, gres in zip(hosts, job.get("gres_detail") or [], strict=False)
                for index in _indices(str(gres))
            ]
            state = job.get("job_state") or ""
            state = str(state[0] if isinstance(state, list) and state else state)
            start, end = (_of_number(job.get(key)) for key in ("start_time", "end_time"))
            yield str(job["job_id"]), state, start, end, devices, json.dumps(job)[:2_000]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInputError(
            f"{source_file} is not what `scontrol show job -d --json` writes: "
            f"{type(error).__name__}: {error}."
        ) from error


def _of_number(value: Any) -> str | None:
    """A time of Slurm's JSON: seconds since 1970, or {set, infinite, number}; 0 is none."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return datetime.fromtimestamp(int(value), UTC).isoformat() if value else None


def _known(text: str | None) -> str | None:
    return None if text in (None, "", "Unknown", "None", "N/A", "(null)") else text


def _indices(gres: str) -> list[int]:
    indices: list[int] = []
    for listed in _GPUS.findall(gres):
        for part in listed.split(","):
            first, _, last = part.partition("-")
            if _INDEX.fullmatch(first) and _INDEX.fullmatch(last or first):
                indices += range(int(first), int(last or first) + 1)
    return sorted(set(indices))
