"""What one run of the DAG `profile_workloads` is asked to measure: its form, checked."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from foundation.errors import BadInputError, check_names
from foundation.site import Site
from profiler_jobs.devices.device import DeviceKind
from profiler_jobs.devices.opening import kind_of_device
from profiler_jobs.method import Method
from profiler_jobs.workload_choice import choose_job_types
from profiler_jobs.workloads import JobType, all_job_types

NOTHING, REJECTED, EVERYTHING = "nothing", "rejected", "everything"  # what is measured again
AGAIN = (NOTHING, REJECTED, EVERYTHING)
METHOD_SETTINGS = ("window_s", "repeats", "warmup_s")


@dataclass(frozen=True)
class Request:
    """What one run of the DAG is asked to measure, and where.

    All `devices` are of one `kind`. `budget_s` is what each device may measure in this run, by the expected
    times (None: no bound); `batch_s` is the expected time of a batch. `again`: what is measured although it
    has a result; with `everything`, measurements of another kind of GPU give way.
    """

    site: Site
    run: str
    devices: tuple[str, ...]
    kind: DeviceKind
    job_types: tuple[JobType, ...]
    method: Method
    budget_s: float | None
    batch_s: float
    again: str


@dataclass(frozen=True)
class ProfilingForm:
    """What a person asks for. `method` holds settings of `profiler_jobs.method.Method`; None: a default."""

    devices: Sequence[str]
    workloads: str | None = None
    method: Mapping[str, Any] | None = None
    budget_minutes: float | None = None  # in all; None: no bound
    batch_minutes: float = 10.0
    again: str = NOTHING


def read_request(site: Site, form: ProfilingForm, *, run_id: str) -> Request:
    """Read a form.

    Raises BadInputError for devices that cannot be measured together, for a setting that is none and for a
    value out of its range; UnknownNameError for an unknown workload or choice.
    """
    names = tuple(dict.fromkeys(str(device).strip() for device in form.devices))
    kinds = {kind_of_device(name) for name in names}
    if len(kinds) != 1:
        raise BadInputError(
            f"The devices are {', '.join(names) or 'none'}: all of a run must be of one kind.",
            remedy="Name GPUs (0, 1), simulated ones (simulated:0), or cpu.",
        )
    check_names("choice of what is measured again", [form.again], AGAIN)
    settings = {name: value for name, value in (form.method or {}).items() if value is not None}
    unknown = sorted(set(settings) - {each.name for each in fields(Method)})
    if unknown:
        raise BadInputError(
            f"The method has no setting {', '.join(unknown)}.", remedy=f"It has {', '.join(METHOD_SETTINGS)}."
        )
    return Request(
        site,
        hashlib.sha256(run_id.encode()).hexdigest()[:12],
        names,
        kinds.pop(),
        choose_job_types(form.workloads or None, all_job_types()),
        Method(**settings),
        None if form.budget_minutes is None else 60.0 * form.budget_minutes,
        60.0 * form.batch_minutes,
        form.again,
    )
