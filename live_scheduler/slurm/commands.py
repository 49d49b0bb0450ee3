"""Slurm's own commands as functions: submit, look, cancel, on the cluster that SLURM_CONF and PATH name.

No shell is involved; what users write travels as arguments or on standard input. A command that cannot
reach slurmctld or slurmdbd raises ServiceUnavailableError (try again later); anything else that Slurm refuses
raises BadInputError with Slurm's own words.
"""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from foundation.errors import (
    BadInputError,
    LucidError,
    NotFoundError,
    ServiceUnavailableError,
    UnknownNameError,
)
from live_scheduler.slurm.job_states import PHASE_OF_STATE, Phase, parse_state
from live_scheduler.write_lease import LeaseLostError, present_lease

CALL_LIMIT_S = 60.0

# What a job sees of the submitting process besides what its request names: never an Airflow worker's secrets.
_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "SHELL")
# How the commands find their cluster; all other variables of Slurm's would change what they do or print.
_CONNECTION = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_UNREACHABLE = re.compile(
    r"unable to contact slurm controller|connection (refused|timed out|reset)|socket timed out"
    r"|zero bytes were transmitted|unexpected message received|transport endpoint|backup controller"
    r"|persistent connection"
    r"|(connection|authentication|communication) (failure|error)|temporarily un|try again later"
    r"|munge.* failed|controller not responding|slurm_persist_conn",
    re.IGNORECASE,
)
# Of one job. Where slurmctld answers even so, it is about to ask accounting for the job's number, and changes
# nothing of the job until slurmdbd has answered. Slurm 22.05 says the former, after two seconds; and one that
# was killed meanwhile waits for that number for good. A slurmctld that is away makes scontrol say it too.
_NOT_YET = re.compile(r"unexpected message received for job|db index is being set", re.IGNORECASE)
NO_SUCH_JOB = "Invalid job id specified"
NO_ACCOUNTING = "accounting storage is disabled"

_QUEUE_FIELDS = ("JobID", "State", "exit_code", "RestartCnt", "NodeList", "Reason", "Name", "Comment")
_ACCOUNTING_FIELDS = ("JobIDRaw", "State", "ExitCode", "NodeList", "Reason", "JobName", "Comment")


@dataclass(frozen=True)
class JobRequest:
    """A batch job: a command line, and what it needs.

    `gres` is what it asks of its node (`gpu:1`, `gpu:a100:1`; empty: nothing); `whole_node` keeps all others
    off that node. `log_path` is written by the node, `%j` stands for the job id. `environment` adds to the
    few variables that a job gets (PATH, HOME, USER, language, time zone). `options` are further options of
    sbatch, such as `--account=ml`.
    """

    name: str
    argv: Sequence[str]
    partition: str
    time_limit_min: int
    log_path: str
    gres: str = "gpu:1"
    whole_node: bool = False
    folder: str | None = None
    comment: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadInputError(
                f"A Slurm job cannot be called {self.name!r}.",
                remedy="Use letters, digits, dots, dashes and underscores, 200 at most.",
            )
        if not self.argv or any("\0" in word or "\r" in word for word in self.argv):
            raise BadInputError(
                f"The command {list(self.argv)!r} of job {self.name} cannot be submitted.",
                remedy="Give a program and its arguments, without NUL and carriage return.",
            )
        if self.time_limit_min < 1:
            raise BadInputError(
                f"Job {self.name} has a time limit of {self.time_limit_min} min.", remedy="Give 1 or more."
            )
        if not PurePosixPath(self.log_path).is_absolute() or "\\" in self.log_path or "\n" in self.comment:
            raise BadInputError(
                f"Job {self.name} cannot write the log {self.log_path!r} (comment {self.comment!r}).",
                remedy="Give an absolute path without backslashes, and a comment of one line.",
            )

    def log_of(self, job_id: int) -> str:
        """Return the path of a job's log."""
        return self.log_path.replace("%j", str(job_id))


@dataclass(frozen=True)
class JobStatus:
    """What Slurm says of a job; `exit_code` and `signal` are of its script, None until it ended."""

    job_id: int
    name: str
    state: str
    reason: str = ""
    nodes: str = ""
    comment: str = ""
    restarts: int = 0
    exit_code: int | None = None
    signal: int | None = None

    @property
    def phase(self) -> Phase:
        """Return what the state means for the wait for the job."""
        return PHASE_OF_STATE[self.state]

    def describe(self) -> str:
        """Return one line for people: `job 17 TIMEOUT (TimeLimit) on n1`."""
        how = [self.reason] if self.reason else []
        if self.exit_code:
            how.append(f"exit code {self.exit_code}")
        if self.signal:
            how.append(f"signal {self.signal}")
        where = f" on {self.nodes}" if self.nodes else ""
        return f"job {self.job_id} {self.state}{' (' + ', '.join(how) + ')' if how else ''}{where}"


def submit(request: JobRequest) -> int:
    """Submit the job and return its id.

    The job waits until no other job of its name and user runs (`singleton`), may be requeued after its node
    failed, and then appends to its log. Raises UnknownNameError for a partition that is not there,
    BadInputError for what Slurm refuses, ServiceUnavailableError when slurmctld does not answer (the job may
    have been submitted even so: see `submit_once`).
    """
    command = [
        "sbatch",
        "--parsable",
        f"--job-name={request.name}",
        f"--partition={request.partition}",
        f"--time={request.time_limit_min}",
        f"--output={_literal_path(request.log_path)}",
        "--open-mode=append",
        "--nodes=1",
        "--requeue",
        "--dependency=singleton",
        "--export=ALL",  # of the small environment that this call gives
        *([f"--gres={request.gres}"] if request.gres else []),
        *(["--exclusive"] if request.whole_node else []),
        *([f"--chdir={request.folder}"] if request.folder else []),
        *([f"--comment={request.comment}"] if request.comment else []),
        *request.options,
    ]
    inherited = {key: os.environ[key] for key in _INHERITED if key in os.environ}
    # Slurm reads #SBATCH lines up to the first command only, so an argument cannot smuggle one in.
    script = f"#!/bin/sh\nset -eu\nexec {shlex.join(request.argv)}\n"
    try:
        text = call(command, stdin=script, environment=inherited | dict(request.environment))
    except BadInputError as error:
        if "invalid partition" not in str(error).lower():
            raise
        raise UnknownNameError("Slurm partition", request.partition, partitions()) from error
    job_id = text.strip().partition(";")[0]
    if not job_id.isdigit():
        raise ServiceUnavailableError(f"sbatch answered {text!r} instead of a job id.")
    return int(job_id)


def submit_once(request: JobRequest) -> int:
    """Submit the job unless one of its name lives already; return the id of the one that lives.

    Two callers at the same time end up with one job: after submitting each looks again, and the younger job
    is cancelled by its own submitter. Slurm numbers jobs in the order of submission, so one of two always
    sees the other; should its submitter die before that, `singleton` still keeps both from running at once.
    """
    if living := living_jobs(request.name):
        return living[0]
    job_id = submit(request)
    oldest = min([job_id, *living_jobs(request.name)])
    if oldest != job_id:
        cancel(job_id)
    return oldest


def living_jobs(name: str) -> list[int]:
    """Return the ids of this user's jobs of a name that wait or run, the oldest first."""
    text = call([*_QUEUE_COMMAND, "--me", f"--name={name}"])
    return sorted(status.job_id for status in _queue_rows(text) if not status.phase.ended)


def job_status(job_id: int) -> JobStatus:
    """Return what became of a job: from slurmctld while it remembers the job, then from accounting.

    Raises NotFoundError when neither knows it, ServiceUnavailableError when one did not answer.
    """
    try:
        rows = _queue_rows(call([*_QUEUE_COMMAND, f"--jobs={job_id}"]))
    except BadInputError as error:
        if NO_SUCH_JOB not in str(error):
            raise
        rows = []
    rows = rows or _accounted(job_id)
    if not rows:
        raise NotFoundError(
            f"Slurm knows no job {job_id}.",
            remedy="Without accounting it forgets a job minutes after its end.",
        )
    return rows[0]


def cancel(job_id: int) -> None:
    """Cancel a job; one that has ended, or never was, is none to cancel and no error."""
    try:
        call(["scancel", str(job_id)])
    except BadInputError as error:
        if not any(words in str(error) for words in (NO_SUCH_JOB, "already complet")):
            raise


def partitions() -> list[str]:
    """Return the names of the partitions that this user can see, sorted."""
    return sorted(set(call(["sinfo", "--noheader", "--format=%R"]).split()))


_QUEUE_COMMAND = (
    "squeue",
    "--noheader",
    "--states=all",
    "--Format=" + ",".join(f"{name}:0|" for name in _QUEUE_FIELDS),
)


def _queue_rows(text: str) -> list[JobStatus]:
    rows = []
    for line in text.splitlines():
        # Only the name and the comment may hold the separator, and they come last.
        job_id, state, status, restarts, nodes, reason, name, comment = line.split(
            "|", len(_QUEUE_FIELDS) - 1
        )
        seen = JobStatus(
            job_id=int(job_id),
            name=name,
            state=parse_state(state),
            reason=_said(reason),
            nodes=nodes,
            comment=_said(comment.rstrip("|")),
            restarts=int(restarts),
        )
        # As wait(2) gives it.
        exit_code, killed_by = os.WEXITSTATUS(int(status)), os.WTERMSIG(int(status))
        rows.append(_with_exit(seen, exit_code, killed_by))
    return rows


def _accounted(job_id: int) -> list[JobStatus]:
    command = ["sacct", "--allocations", "--parsable2", "--noheader", f"--jobs={job_id}"]
    try:
        text = call([*command, f"--format={','.join(_ACCOUNTING_FIELDS)}"])
    except BadInputError as error:
        if NO_ACCOUNTING in str(error):
            return []
        raise
    rows = []
    for line in text.splitlines():
        number, state, codes, nodes, reason, name, comment = line.split("|", len(_ACCOUNTING_FIELDS) - 1)
        exit_code, _, killed_by = codes.partition(":")
        seen = JobStatus(int(number), name, parse_state(state), _said(reason), _said(nodes), _said(comment))
        rows.append(_with_exit(seen, int(exit_code or 0), int(killed_by or 0)))
    return rows


def _with_exit(status: JobStatus, exit_code: int, killed_by: int) -> JobStatus:
    return replace(status, exit_code=exit_code, signal=killed_by or None) if status.phase.ended else status


def _said(text: str) -> str:
    return "" if text in ("None", "(null)", "None assigned") else text


def _literal_path(path: str) -> str:
    """Return the path as sbatch's filename pattern, in which `%j` alone has a meaning."""
    return "%j".join(part.replace("%", "%%") for part in path.split("%j"))


def sinfo_by_node(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the command for a line a partition of each node: these fields, `|` after each."""
    return (
        "sinfo",
        "--all",
        "--Node",
        "--noheader",
        "--Format=" + ",".join(f"{name}:0|" for name in fields),
    )


def config_values(text: str) -> dict[str, str]:
    """Return the settings that `scontrol show config` shows, by name."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def call(
    command: Sequence[str],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    limit_s: float = CALL_LIMIT_S,
    program: str = "",
) -> str:
    """Run one of Slurm's commands and return its standard output.

    Its variables are `environment` (default: this process', without those that steer Slurm's programs) and
    `settings` on top; `program` is its name for people (default: the first word). Errors as the module says.
    """
    if environment is None:
        environment = plain_environment()
    connection = {key: os.environ[key] for key in _CONNECTION if key in os.environ}
    program = program or command[0]
    try:
        result = subprocess.run(
            list(command),
            input=(stdin or "").encode(),
            env={**environment, **connection, **(settings or {})},
            capture_output=True,
            check=False,
            timeout=limit_s,
            restore_signals=True,
        )
    except FileNotFoundError as error:
        raise BadInputError(
            f"{program} is not on this machine's PATH.",
            remedy="Install Slurm's client programs (Debian: slurm-client), or add their folder to PATH.",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ServiceUnavailableError(f"{program} did not answer within {limit_s:g} s.") from error
    # What users call their jobs need not be text, and its line ends stay as they are.
    stdout, stderr = (output.decode(errors="backslashreplace") for output in (result.stdout, result.stderr))
    if result.returncode == 0:
        return stdout
    output = " ".join((stderr.strip() or stdout.strip()).split())
    if result.returncode < 0:
        raise ServiceUnavailableError(
            f"{program} was ended by signal {signal.Signals(-result.returncode).name}."
        )
    if no_answer(output):
        raise ServiceUnavailableError(f"Slurm did not answer {program}: {output}.")
    raise BadInputError(f"Slurm refused {program}: {output or f'exit code {result.returncode}'}.")


def change_cluster(command: Sequence[str], *, limit_s: float = CALL_LIMIT_S) -> None:
    """Run a command that changes the cluster, under the present lease; raises as `call`, LeaseLostError."""
    lease = present_lease()
    if lease is None:
        call(command, limit_s=limit_s)
        return
    lease.check()
    try:
        call(lease.command(command), limit_s=limit_s, program=command[0])
    except LucidError as error:
        if lease.held:
            raise
        raise LeaseLostError(f"The lease on the cluster was taken by another process: {error}") from error


def plain_environment() -> dict[str, str]:
    """Return this process' variables, without those that would steer Slurm's programs."""
    return {key: value for key, value in os.environ.items() if key in _CONNECTION or not _steers_slurm(key)}


def no_answer(message: str) -> bool:
    """Return whether a program said that slurmctld or slurmdbd could not be reached.

    Where its message leaves that open, slurmctld is asked.
    """
    if not_yet(message):
        return not _controller_answers()
    return _UNREACHABLE.search(message) is not None


def not_yet(message: str) -> bool:
    """Return whether a program said that slurmctld, if it answers at all, cannot change that one job now."""
    return _NOT_YET.search(message) is not None


def _controller_answers() -> bool:
    try:
        return " is UP" in call(["scontrol", "ping"])
    except BadInputError as error:  # one of several is down
        return " is UP" in str(error)
    except ServiceUnavailableError:
        return False


def _steers_slurm(variable: str) -> bool:
    return variable.startswith(("SLURM_", "SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_"))
