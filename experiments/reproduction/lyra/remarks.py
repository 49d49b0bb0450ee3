"""What must be said of a number of ours."""

from experiments.reproduction.lyra.published import RowKey

PHILLY = (
    "Philly's jobs, mostly of one GPU, in the place of ByteDance's: ratios compare, absolute times do not"
)
_BY_SCHEME = {
    "SJF alone": "not in the paper: shortest job first without loans and scaling",
    "Lyra+TunedJobs": (
        "measured speed-ups at a fixed batch size, below linear: no public data says what tuning gains"
    ),
    "Pollux": (
        "our genetic search; throughput by measured speed-ups, statistical efficiency not modelled; compare "
        "with Lyra+TunedJobs, which has the same jobs"
    ),
    "Opportunistic": "a job that was preempted ten times may run on training servers",
}
_BY_METRIC = {
    "flexible servers satisfy of reclaiming demand, Basic %": "of the servers handed back that were in use",
    "same, Ideal %": "of the servers handed back that were in use",
    "usage of on-loan servers % at least": (
        "lent on demand, loaning only; the mean by way of lending stands below"
    ),
    "gain of heterogeneous share levels off at %": (
        "least share of jobs that saves 95 % of the queuing that the largest share saves"
    ),
    "scaling operations Pollux / Lyra+TunedJobs": "all jobs elastic, no loans",
    "80 % with checkpoint: preemption ratio %": "loaning only",
}


def remark_on(key: RowKey, windows: int) -> str:
    """Return the remark on a measured number; `windows` is how many it is the mean of."""
    table, _, scheme, metric = key
    parts = [_BY_METRIC.get(metric, ""), _BY_SCHEME.get(scheme, "")]
    if table == "Fig 12":
        parts.append(f"mean of {windows} traces of ten days")
    elif windows > 1:
        parts.append(f"mean of {windows} windows")
    else:
        parts.append("one window")
    if metric.endswith(" s"):
        parts.append(PHILLY)
    return "; ".join(part for part in parts if part)
