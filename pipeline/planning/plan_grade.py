"""How far replays of a planned log are like it: the grade of the cluster as it is, under its site's order."""

from pathlib import Path

from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, silent
from pipeline import settings as places
from pipeline.planning.log_request import LogRequest
from pipeline.replay.cluster_events import ClusterSize
from pipeline.replay.log_file import LogFile
from pipeline.replay.site_grade import grade_cluster, grade_log
from pipeline.training.windows import read_time
from simulator.wait_fidelity.grade import WaitGrade, not_graded


def grade_of_request(request: LogRequest, progress: Progress = silent) -> WaitGrade:
    """Grade the days that are planned for; where that cannot be done, the grade says why."""
    if request.rule_set != "default":
        return not_graded(f"the rules {request.rule_set} are those of another simulator.")
    start, end = read_time(request.start), read_time(request.end)
    progress(0, None, "laying a replay beside the log")
    try:
        if request.jobs is None:
            assert request.cluster is not None  # noqa: S101 - the request has looked
            lake_uri = request.lake_uri or places.lake_uri()
            return grade_cluster(lake_uri, request.cluster, start, end, progress=progress)
        path = request.jobs if "://" in request.jobs else str(Path(request.jobs).absolute())
        log = LogFile(path, str(request.source_format), start, end, request.time_zone)
        size = ClusterSize(request.nodes, request.gpus, request.gpus_per_node, request.training_servers)
        return grade_log(log, size, progress=progress)
    except (BadInputError, NotFoundError) as error:
        return not_graded(str(error))
