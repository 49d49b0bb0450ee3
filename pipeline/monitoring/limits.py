"""What shorter time limits would have saved in the window, by advice of what had ended before each job."""

from dataclasses import dataclass

from foundation.errors import BadInputError
from lucid_models.evaluation.limits import advised_limits, measured_by_group
from lucid_models.limits.advisor import LimitSettings
from lucid_models.limits.limit_table import LimitTable
from pipeline.monitoring.data import MonitoredTables


@dataclass(frozen=True)
class LimitSavings:
    """Of a group of jobs of the window that ended: the median of limit / run time as asked and as advised,
    and in percent the jobs that advice would have killed, those with a shorter limit, and the advised limits
    summed, of those asked for.
    """

    group: str
    jobs: int
    ratio_before: float
    ratio_after: float
    killed_pct: float
    lowered_pct: float
    limit_time_pct: float


def limit_savings(tables: MonitoredTables) -> tuple[LimitSavings, ...]:
    """Of all jobs and of those with GPUs; nothing of a log without time limits."""
    try:
        table = LimitTable.of_jobs(tables.later)
    except BadInputError:
        return ()
    judged = table.submit_s >= tables.window.start.timestamp()
    advised_s = advised_limits(table, "start", LimitSettings())
    return tuple(
        LimitSavings(**{name: row[name] for name in LimitSavings.__dataclass_fields__})
        for row in measured_by_group(table, advised_s, judged)
    )
