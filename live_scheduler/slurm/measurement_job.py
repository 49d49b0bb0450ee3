"""A batch of measurements as a Slurm job: what is submitted, and what it came to.

The job is the bare command, `python3 -m profiler_jobs`, which goes on after the last measurement in its
table. So the same job may be submitted again after whatever ended it, and a requeued one loses at most the
measurement in progress.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from foundation.errors import BadInputError, NotFoundError, ServiceUnavailableError
from live_scheduler.slurm.commands import JobRequest, JobStatus
from live_scheduler.slurm.job_states import Phase
from profiler_jobs.measurement_table import FAILED, MEASURED, OUT_OF_MEMORY, read_measurements
from profiler_jobs.plan_file import read_plan

_LOG_TAIL_BYTES = 8_192
# What `python3 -m profiler_jobs` says of itself after a SIGTERM: all that it measured is in its table.
_EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class SlurmSite:
    """How this installation measures on its cluster; paths are those that nodes see.

    - `partition`: where jobs are submitted (LUCID_SLURM_PARTITION).
    - `log_dir`: the jobs' logs, in a folder that Airflow's workers read too; by default in the state folder.
    - `gres`: what a job asks of its node.
    - `whole_node`: it keeps all other jobs off the node, since neighbours share processors, bus and power.
    - `time_limit_min`: of a job; a batch that needs longer goes on in the next.
    - `python`: the interpreter with PyTorch.
    - `folder`: a checkout to run in, where the product is not installed.
    - `export`: variables of the worker that the job gets, such as `["AWS_ENDPOINT_URL"]`; of itself it gets
      PATH, HOME, USER, language and time zone, and none of Airflow's secrets.
    - `options`: further options of sbatch: `["--account=ml", "--qos=low"]`.
    - `poll_s`: how often a waiting task asks for the job's state, one `squeue` each.
    """

    partition: str
    log_dir: str
    gres: str = "gpu:1"
    whole_node: bool = True
    time_limit_min: int = 60
    python: str = "python3"
    folder: str | None = None
    export: Sequence[str] = ()
    options: Sequence[str] = ()
    poll_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.poll_s > 0:
            raise BadInputError(f"poll_s is {self.poll_s!r}.", remedy="Give a number of seconds above 0.")
        for name in ("export", "options"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(word, str) for word in value):
                raise BadInputError(
                    f"{name} is {value!r}.", remedy='Give a list of words, such as ["--account=ml"].'
                )


def read_site(partition: str, log_dir: str, settings: Mapping[str, Any]) -> SlurmSite:
    """Return the site that settings by name describe. Raises BadInputError for a setting that is none."""
    setting_names = {field.name for field in fields(SlurmSite)} - {"partition"}
    if unknown := sorted(set(settings) - setting_names):
        raise BadInputError(
            f"Slurm has no setting {', '.join(unknown)}.",
            remedy=f"It has {', '.join(sorted(setting_names))}.",
        )
    try:
        return SlurmSite(**{"partition": partition, "log_dir": log_dir, **settings})
    except TypeError as error:
        raise BadInputError(f"Slurm's settings cannot be read: {error}.") from error


def measurement_job(
    site: SlurmSite,
    *,
    identity: str,
    plan_uri: str,
    table_uri: str,
    device: str,
    budget_s: float | None = None,
) -> JobRequest:
    """Return the job that measures a plan into a table.

    `identity` names what is asked for, the same at every try: it is the job's comment, and with the command
    line it makes the job's name, by which a later try finds the job. A GPU's number or UUID stands for the
    GPU that Slurm gives the job.
    """
    simulated_or_cpu = device == "cpu" or device.startswith("simulated")
    argv = [site.python, "-m", "profiler_jobs", "pairs", f"--plan={plan_uri}", f"--out={table_uri}"]
    # CUDA_VISIBLE_DEVICES is Slurm's; the first of what it lets the job see is the job's GPU.
    argv.append(f"--device={device if simulated_or_cpu else '0'}")
    if budget_s is not None:
        argv.append(f"--budget-s={budget_s:g}")
    comment = " ".join(identity.split())
    digest = hashlib.sha256("\0".join([comment, *argv]).encode()).hexdigest()[:12]
    name = f"lucid-measure-{digest}"
    return JobRequest(
        name=name,
        argv=argv,
        partition=site.partition,
        time_limit_min=site.time_limit_min,
        log_path=str(Path(site.log_dir).absolute() / f"{name}.%j.log"),
        gres=site.gres,
        whole_node=site.whole_node,
        folder=site.folder,
        comment=comment,
        environment={key: os.environ[key] for key in site.export if key in os.environ},
        options=site.options,
    )


def goes_on_when_repeated(status: JobStatus) -> bool:
    """Return whether a job that ended did so by no fault of its own, and would go on if submitted again."""
    return status.phase is Phase.INTERRUPTED or (
        status.phase is Phase.FAILED and status.exit_code == _EXIT_INTERRUPTED
    )


def measured_batch(plan_uri: str, table_uri: str) -> dict[str, Any]:
    """Return what became of a plan, from its table: counts, and the failed tasks with their reasons.

    Raises NotFoundError when the job ended well and left no table, ServiceUnavailableError when nothing but
    failures came of it: a device that does not work is worth another try later.
    """
    planned = {each.task.name for each in read_plan(plan_uri).plan.planned}
    rows = read_measurements(table_uri)
    if rows.empty and planned:
        raise NotFoundError(
            f"The job left nothing in {table_uri}.", remedy="Name a folder that workers and nodes share."
        )
    tasks = rows[rows["task"].isin(planned)].drop_duplicates("task")
    outcomes = tasks["outcome"].value_counts()
    failures = tasks[tasks["outcome"] == FAILED]
    failed = {str(task): str(why) for task, why in zip(failures["task"], failures["detail"], strict=True)}
    if failed and len(failed) == len(tasks):
        task, reason = next(iter(failed.items()))
        device = tasks["device"].iloc[0]
        raise ServiceUnavailableError(
            f"All {len(failed)} measurements on {device} failed, the first, {task}: {reason}",
            remedy="Look at the node: `nvidia-smi`.",
        )
    return {
        "table_uri": table_uri,
        "device": str(tasks["device"].iloc[0]) if len(tasks) else None,
        "measured": int(outcomes.get(MEASURED, 0)),
        "out_of_memory": int(outcomes.get(OUT_OF_MEMORY, 0)),
        "failed": failed,
        "left": len(planned) - len(tasks),
    }


def log_tail(path: str, lines: int = 15) -> str:
    """Return the last lines of a job's log, or why there are none to be read."""
    try:
        with Path(path).open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _LOG_TAIL_BYTES))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(its log {path} cannot be read here: {error.strerror})"
    return "\n".join(text.splitlines()[-lines:]) or f"(its log {path} is empty)"
