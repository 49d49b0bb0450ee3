"""How far the replays of a what-if are like the log: the grade of the cluster as it is, on the asked days."""

from collections.abc import Mapping
from typing import Any

from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from pipeline.replay.site_grade import grade_cluster
from pipeline.training.windows import read_time
from simulator.wait_fidelity.grade import WaitGrade, not_graded


def grade_of_what_if(
    lake_uri: str, cluster: str, fields: Mapping[str, Any], progress: Progress = silent
) -> WaitGrade:
    """Grade the days of a form's `start` and `end`; where that cannot be done, the grade says why."""
    try:
        start, end = (read_time(fields.get(name) or None) for name in ("start", "end"))
        return grade_cluster(lake_uri, cluster, start, end, progress=progress)
    except (BadInputError, NotFoundError) as error:
        return not_graded(str(error))
