"""Which process, and which try of which task, writes a run of MLflow: so that another sees when it is dead.

Where both run on one machine the process itself tells. A worker's container that was made anew has another
name and other process numbers: there a later try of the same task tells, which Airflow starts only once the
one before has ended.
"""

import os
from collections.abc import Mapping, MutableMapping

from foundation.process_identity import is_alive, is_gone, own_process

PROCESS_TAG = "lucid.process"
TASK_TAG, TRY_TAG = "lucid.task", "lucid.task_try"
_TASK_VARIABLE, _TRY_VARIABLE = "LUCID_TASK", "LUCID_TASK_TRY"
_LONGEST_RUN_S = 30 * 86_400.0  # of a process that cannot be seen from here


def name_task(task: str, number: int, environment: MutableMapping[str, str] = os.environ) -> None:
    """Say that this process, and what it starts, is try `number` of a task, named as no other is."""
    environment[_TASK_VARIABLE], environment[_TRY_VARIABLE] = task, str(number)


def owner_tags(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the tags that say by which process, and for which task, a run is written."""
    tags = {PROCESS_TAG: own_process()}
    if environment.get(_TASK_VARIABLE):
        tags |= {TASK_TAG: environment[_TASK_VARIABLE], TRY_TAG: environment.get(_TRY_VARIABLE, "")}
    return tags


def why_dead(tags: Mapping[str, str], age_s: float, own: Mapping[str, str]) -> str | None:
    """Return why a run with these tags, begun so long ago, is surely no longer written; None: it may be.

    `own` are the tags of the run that is about to begin.
    """
    process = tags.get(PROCESS_TAG, "")
    if is_alive(process):
        return None
    if is_gone(process):
        return f"its process ended without saying so ({process})"
    task, number = tags.get(TASK_TAG), tags.get(TRY_TAG, "")
    later = own.get(TRY_TAG, "")
    if (
        task
        and task == own.get(TASK_TAG)
        and number.isdigit()
        and later.isdigit()
        and int(number) < int(later)
    ):
        return f"try {later} of its task began ({task})"
    if age_s > _LONGEST_RUN_S:
        return "it began more than 30 days ago, and nothing is seen of its process"
    return None
