"""Why a job waited, in plain language."""

from collections.abc import Mapping
from typing import Any

from foundation.errors import UnknownNameError
from simulator.job_view import RunState
from simulator.recorders.wait_clocks import CAUSE_COLUMNS, CAUSE_NAMES, WaitCause

SENTENCES = {
    WaitCause.GPUS: "too few {unit} were free in its virtual cluster",
    WaitCause.PLACEMENT: "enough {unit} were free, but scattered: not on as few nodes as it needs",
    WaitCause.TURN: "it would have fitted, but others were ahead of it in the policy's order",
    WaitCause.ROUND: "it would have fitted, and waited for the policy's next round",
    WaitCause.POLICY: "it was first and would have fitted, but the policy held it back",
    WaitCause.PROFILER: "it waited for a place on the profiler",
}
ENDED = {
    "completed": "ended",
    "preempted": "was preempted",
    "evicted": "was evicted",
    "resized": "gave up GPUs",
    "limit": "ended its profiling run",
    "failed": "was killed by a node's failure",
    "cancelled": "was cancelled",
}


def in_words(seconds: float) -> str:
    """Return a duration with its two largest units: `3 d 4 h`, `12 min 5 s`, `0.4 s`."""
    if seconds < 1:
        return f"{seconds:.2g} s" if seconds else "0 s"
    remaining_s = round(seconds)
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, remaining_s = divmod(remaining_s, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def in_words_by_cause(mean_waits_s: Mapping[str, float]) -> dict[str, str]:
    """Return durations in words by the cause's short name."""
    return {CAUSE_NAMES[cause]: in_words(mean_waits_s[column]) for cause, column in CAUSE_COLUMNS.items()}


def explain_wait(row: Mapping[str, Any]) -> list[str]:
    """Say in sentences what a row of `WaitRecorder.table` says; the first line is the whole."""
    gpus = int(row["gpus"])
    unit = "GPUs" if gpus else "CPU cores"
    size = f"{gpus} GPU{'s' if gpus != 1 else ''}" if gpus else "a CPU job"
    job = f"{row['job_id']} ({size}, virtual cluster {row['virtual_cluster']})"
    ran = row["first_start_time_s"] == row["first_start_time_s"]
    waited_s = float(row["queuing_delay_s"])
    if row["state"] == RunState.PENDING.value:
        return [f"{job} still waits: its virtual cluster has become too small for it."]
    if not row["waits"]:
        return [f"{job} was withdrawn at its submission."]
    if not waited_s:
        return [f"{job} did not wait."]
    lines = [
        f"{job} waited {in_words(waited_s)}"
        + (f", in {row['waits']} spells" if row["waits"] > 1 else "")
        + ("." if ran else ", and was withdrawn before it started.")
    ]
    spent = [(float(row[column]), cause) for cause, column in CAUSE_COLUMNS.items()]
    for seconds, cause in sorted(spent, key=lambda each: -each[0]):
        if round(seconds, 6) > 0:
            share = 100 * seconds / waited_s
            sentence = SENTENCES[cause].format(unit=unit)
            lines.append(f"  {in_words(seconds)} ({share:.0f} %): {sentence}")
    lines.append(_arrival(row, unit))
    if row["overtaken_by"]:
        lines.append(f"  {_jobs(int(row['overtaken_by']))} submitted later started before it.")
    if isinstance(row["released_by"], str):
        lines.append(f"  It could start when {row['released_by']} {ENDED[row['released_reason']]}.")
    return lines


def _arrival(row: Mapping[str, Any], unit: str) -> str:
    free = f"{int(row['free_gpus']):,} {unit} were free"
    ahead = int(row["jobs_ahead"])
    if not ahead:
        return f"  When it joined the queue no job was ahead of it; {free}."
    verb = "was" if ahead == 1 else "were"
    return (
        f"  When it joined the queue {_jobs(ahead)} for {int(row['gpus_ahead']):,} {unit} {verb} ahead of "
        f"it; {free}."
    )


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def rows_of_job(waits: Any, job_id: str) -> list[dict[str, Any]]:
    """Return the rows of a job in a table of waits; raises UnknownNameError when it was not replayed."""
    rows = waits[waits["job_id"] == job_id]
    if rows.empty:
        some = [str(name) for name in waits["job_id"].head(3)]
        raise UnknownNameError("job, among the replayed", job_id, some or ["none"])
    return [dict(row) for row in rows.to_dict("records")]
