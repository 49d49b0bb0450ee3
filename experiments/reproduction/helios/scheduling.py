"""Table 3, Table 4 and Figures 11 to 13: QSSF beside FIFO, SJF and SRTF, on the jobs that public data has."""

from experiments.reproduction.helios.published import NO_JOB_LOG, OTHER_PHILLY, HeliosRow
from experiments.reproduction.helios.replays import BOUNDED, GROUPS, LOADED_SLICE, ReplayedSlice
from experiments.reproduction.helios.sleeping import Measured

NOISE = "estimates: true run times with Helios' errors, 15 % of them below 0 as in the artifact"
QSSF = "QSSF"
_MEASURES = {"mean JCT": "jct_s", "mean queuing": "queuing_delay_s"}


def philly_rows(philly: ReplayedSlice) -> tuple[Measured, list[HeliosRow]]:
    """Return what stands beside Philly's published numbers, and QSSF with estimates of at least 1 s."""
    measured: Measured = {}
    for scheme in ("FIFO", "SJF", "SRTF", QSSF):
        remark = OTHER_PHILLY + (f"; {NOISE}" if scheme == QSSF else "")
        for name, column in _MEASURES.items():
            measured["Table 3", scheme, f"{name}, Philly"] = (philly.mean(scheme, column), remark)
            for cluster in sorted(philly.by_scheme[scheme]["virtual_cluster"].unique()):
                mean = philly.mean(scheme, column, cluster)
                measured["Figure 13", scheme, f"{name} s, Philly {cluster}"] = (mean, remark)
            measured["Figure 13", scheme, f"{name} s, Philly all"] = (philly.mean(scheme, column), remark)
        measured["Table 3", scheme, "queuing jobs, Philly"] = (philly.queued(scheme), remark)
    for group in GROUPS:
        ratio = philly.queuing_ratio(QSSF, group)
        if ratio is not None:
            remark = f"{OTHER_PHILLY}; {NOISE}"
            measured["Table 4", f"FIFO / {QSSF}", f"queuing of jobs {group}, Philly"] = (ratio, remark)
    return measured, _unpublished(philly, "Philly", BOUNDED, "rules without the artifact's faults")


def loaded_week_rows(week: ReplayedSlice) -> list[HeliosRow]:
    """Return a loaded week of Philly, on which jobs wait as on SenseTime's clusters; not in the paper."""
    where = f"Philly {LOADED_SLICE}"
    stated = "the log's estimates: true run times x exp(N(0, 1)); 48 nodes, so that jobs wait"
    return [
        *_unpublished(week, where, "FIFO", "48 nodes, so that jobs wait"),
        *_unpublished(week, where, "SJF", "true run times"),
        *_unpublished(week, where, "SRTF", "true run times; a preemption costs 7, 30 or 60 s"),
        *_unpublished(week, where, QSSF, stated),
        *_unpublished(week, where, BOUNDED, f"rules without the artifact's faults; {NOISE.split(',')[0]}"),
    ]


def twin_rows(twin: ReplayedSlice) -> list[HeliosRow]:
    """Return every scheme on a synthetic log; it stands beside nothing that was published."""
    remark = "a synthetic log with users and names, not the cluster's: only the order of schemes counts"
    return [row for scheme in twin.by_scheme for row in _unpublished(twin, twin.title, scheme, remark)]


def absent_rows() -> list[HeliosRow]:
    """Return the figures of which there is neither data nor a printed number."""
    return [
        HeliosRow("Figure 11", "", "distribution of JCT, 4 clusters", None, None, f"curves; {NO_JOB_LOG}"),
        HeliosRow(
            "Figure 12", "", "queuing of ten virtual clusters, Saturn", None, None, f"bars; {NO_JOB_LOG}"
        ),
    ]


def _unpublished(replayed: ReplayedSlice, where: str, scheme: str, remark: str) -> list[HeliosRow]:
    rows = [
        HeliosRow("Table 3", scheme, f"{name}, {where}", None, replayed.mean(scheme, column), remark)
        for name, column in _MEASURES.items()
    ]
    queued = float(replayed.queued(scheme))
    rows.append(HeliosRow("Table 3", scheme, f"queuing jobs, {where}", None, queued, remark))
    if scheme != "FIFO":
        for group in GROUPS:
            ratio = replayed.queuing_ratio(scheme, group)
            metric = f"queuing of jobs {group}, {where}"
            rows.append(HeliosRow("Table 4", f"FIFO / {scheme}", metric, None, ratio, remark))
    return rows
