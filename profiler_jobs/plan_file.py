"""A plan as a file: JSON that people can read and change and that a machine without our models can follow."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from foundation import strict_json
from foundation.errors import BadInputError, NotFoundError
from foundation.storage import locate, write_atomically
from profiler_jobs.method import Method
from profiler_jobs.plan import Plan, PlannedTask
from profiler_jobs.tasks import parse_task

FORMAT_VERSION = 1
MAX_BYTES = 16 * 2**20
_REMEDY = "Write it with `python3 -m profiler_jobs plan --write FILE` or `lucid profile plan --write FILE`."


@dataclass(frozen=True)
class PlanFile:
    """Tasks in their order, the method to measure them by, and the device meant to measure them."""

    plan: Plan
    method: Method
    device: str


def plan_document(plan: Plan, method: Method, device: str) -> dict[str, Any]:
    """Return a plan as plain data: what the file holds."""
    return {
        "format_version": FORMAT_VERSION,
        "device": device,
        "method": asdict(method),
        "expected_s": plan.expected_s,
        "done": list(plan.done),
        "left_out": {rule: list(names) for rule, names in plan.left_out.items()},
        "tasks": [
            {"task": each.task.name, "expected_s": each.expected_s, "why": each.why} for each in plan.planned
        ],
    }


def write_plan(uri: str, plan: Plan, method: Method, device: str) -> None:
    """Create or replace the file."""
    fs, path = locate(uri)
    text = json.dumps(plan_document(plan, method, device), indent=1) + "\n"
    write_atomically(fs, path, partial(_write, text.encode()))


def read_plan(uri: str) -> PlanFile:
    """Read what `write_plan` wrote; raises NotFoundError, or BadInputError for anything else than a plan."""
    fs, path = locate(uri)
    info = fs.get_file_info(path)
    if info.type != pafs.FileType.File:
        raise NotFoundError(f"There is no plan {uri}.", remedy=_REMEDY)
    if info.size > MAX_BYTES:
        raise BadInputError(f"{uri} has {info.size:,} bytes, more than any plan.", remedy=_REMEDY)
    with fs.open_input_file(path) as source:
        content = source.read()
    try:
        document = strict_json.loads(content)
        version = document["format_version"]
        if version != FORMAT_VERSION:
            raise BadInputError(
                f"{uri} has the format version {version!r}, not {FORMAT_VERSION}.", remedy=_REMEDY
            )
        planned = tuple(
            PlannedTask(parse_task(each["task"]), float(each["expected_s"]), str(each["why"]))
            for each in document["tasks"]
        )
        left_out = {str(rule): tuple(map(str, names)) for rule, names in document["left_out"].items()}
        plan = Plan(planned, tuple(map(str, document["done"])), left_out)
        return PlanFile(plan, _method(document["method"]), str(document["device"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInputError(f"{uri} is no plan: {type(error).__name__}: {error}.", remedy=_REMEDY) from error


def _method(settings: Mapping[str, Any]) -> Method:
    unknown = sorted(set(settings) - {each.name for each in fields(Method)})
    if unknown:
        raise ValueError(f"the method has no setting {', '.join(unknown)}")
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} is {value!r}, not a number")
    return Method(**settings)


def _write(content: bytes, sink: pa.NativeFile) -> None:
    sink.write(content)
