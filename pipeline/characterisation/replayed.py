"""How far a replay of a characterised log would be like it: the grade of its last weeks."""

from datetime import UTC, datetime, timedelta

from cluster_logs.characterisation.observed_log import ObservedLog
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from pipeline.characterisation.inputs import LogFiles, View
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.site_grade import grade_cluster, grade_log
from simulator.wait_fidelity.grade import WaitGrade, not_graded

GRADED_DAYS = 28  # a replay of years would take longer than the characterisation


def grade_of_cluster(
    lake_uri: str, cluster: str, log: ObservedLog, progress: Progress = silent
) -> WaitGrade | None:
    """Grade the last GRADED_DAYS of what is looked at of a cluster in the lake; None without jobs."""
    if not len(log.jobs):
        return None
    start, end = _last_days(log)
    try:
        return grade_cluster(lake_uri, cluster, start, end, progress=progress)
    except (NotFoundError, BadInputError) as error:
        return not_graded(str(error))


def grade_of_files(
    files: LogFiles, view: View, log: ObservedLog, progress: Progress = silent
) -> WaitGrade | None:
    """Grade the same of a log file; None without jobs."""
    if files.jobs is None or files.source_format is None or not len(log.jobs):
        return None
    if files.nodes is None:
        return not_graded("the nodes are not given (`--nodes`).")
    start, end = _last_days(log)
    try:
        return grade_log(
            LogFile(files.jobs, files.source_format, start, end, view.time_zone),
            ClusterSize(files.nodes, gpus_per_node=files.gpus_per_node),
            progress=progress,
        )
    except BadInputError as error:
        return not_graded(str(error))


def _last_days(log: ObservedLog) -> tuple[datetime, datetime]:
    start, end = (datetime.fromtimestamp(at_s, UTC) for at_s in (log.window.start_s, log.window.end_s))
    return max(start, end - timedelta(days=GRADED_DAYS)), end
