"""How long jobs wait (Helios, tables 3 and 4), and behind whose jobs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from cluster_logs.characterisation.observed_log import FloatArray, ObservedLog
from cluster_logs.characterisation.shares import share_pct
from cluster_logs.characterisation.sizes import size_class
from cluster_logs.characterisation.utilisation import gpus_in_use, held_by_minute, minutes_of

SHORT_S, LONG_S = 15 * 60.0, 6 * 3_600.0
DURATION_CLASSES = ("< 15 min", "15 min to 6 h", "> 6 h")
AS_LOGGED = "as logged"
OTHERS, NOBODY = "all others", "nobody (GPUs idle)"
_LARGEST_GROUPS = 8
_ROWS = 100


def schedule_table(log: ObservedLog) -> pd.DataFrame:
    """Table 3 for the schedule that the log holds."""
    return schedule_row(AS_LOGGED, log.gpu_jobs)


def schedule_row(scheme: str, jobs: pd.DataFrame) -> pd.DataFrame:
    """A row of table 3: mean JCT, mean queuing delay and queuing jobs, of jobs with duration_s, queue_s."""
    known = jobs.dropna(subset=["duration_s", "queue_s"])
    row = {
        "jobs": len(known),
        "mean_jct_s": (known["duration_s"] + known["queue_s"]).mean(),
        "mean_queuing_delay_s": known["queue_s"].mean(),
        "queuing_jobs": int((known["queue_s"] > 0).sum()),
    }
    return pd.DataFrame([row], index=pd.Index([scheme], name="scheme"))


def queuing_by_duration(log: ObservedLog) -> pd.DataFrame:
    """Table 4's groups of jobs: how long short, middle and long ones queue in the log's own schedule."""
    return queuing_of_duration_classes(log.gpu_jobs)


def queuing_of_duration_classes(jobs: pd.DataFrame) -> pd.DataFrame:
    """Jobs, mean queuing delay and share of all queuing: below 15 min, 15 min to 6 h, above 6 h."""
    known = jobs.dropna(subset=["duration_s", "queue_s"])
    run_s = known["duration_s"].to_numpy()
    codes = (run_s >= SHORT_S).astype(int) + (run_s > LONG_S)
    grouped = known["queue_s"].groupby(codes)
    table = pd.DataFrame({"jobs": grouped.size(), "mean_queuing_delay_s": grouped.mean()})
    table["queuing_pct"] = 100 * grouped.sum() / (known["queue_s"].sum() or np.nan)
    table = table.reindex(range(3))
    table["jobs"] = table["jobs"].fillna(0).astype(int)
    table.index = pd.Index(DURATION_CLASSES, name="duration")
    return table


def waiting_statistics(log: ObservedLog) -> dict[str, float]:
    """Queuing delays of GPU jobs."""
    queue_s = log.gpu_jobs["queue_s"].dropna().to_numpy()
    return {
        "mean_s": float(queue_s.mean()),
        "median_s": float(np.median(queue_s)),
        "p90_s": float(np.quantile(queue_s, 0.9)),
        "p99_s": float(np.quantile(queue_s, 0.99)),
        "max_s": float(queue_s.max()),
        "queued_jobs_pct": float(100 * (queue_s > 0).mean()),
        "total_hours": float(queue_s.sum() / 3_600),
    }


def waits_behind_users(log: ObservedLog) -> pd.DataFrame:
    """Whose jobs waited while whose held the GPUs of the same virtual cluster.

    At each full minute the waiting jobs of a user are charged to those that hold GPUs, by their GPUs' share;
    to nobody while no GPU is held. Users beyond the eight that wait (hold) most in a virtual cluster are
    taken together. The pairs with most waiting, at most 100.
    """
    return _who_waits(log, log.running["user"].astype("category"), "user")


def waits_behind_sizes(log: ObservedLog) -> pd.DataFrame:
    """The same by the size of jobs."""
    pairs = _who_waits(log, size_class(log.running["gpus"]), "size")
    together = pairs.groupby(["waiting_size", "holding_size"], sort=False)["waited_h"].sum().reset_index()
    return _shares_of_waiting(together.sort_values("waited_h", ascending=False), "waiting_size").set_index(
        "waiting_size"
    )


def behind_others_statistics(log: ObservedLog) -> dict[str, float]:
    """The share of all waiting that is spent behind other users' jobs, one's own, and idle GPUs."""
    pairs = waits_behind_users(log).reset_index()
    total = float(pairs["waited_h"].sum())
    own = pairs["waiting_user"] == pairs["holding_user"]
    nobody = pairs["holding_user"] == NOBODY
    hours = pairs["waited_h"]
    return {
        "behind_others_pct": share_pct(hours[~own & ~nobody].sum(), total),
        "behind_own_pct": share_pct(hours[own].sum(), total),
        "behind_idle_gpus_pct": share_pct(hours[nobody].sum(), total),
    }


def _who_waits(log: ObservedLog, groups: "pd.Series[Any]", what: str) -> pd.DataFrame:
    minutes_s = minutes_of(log.window)
    rows = [
        (name, *row)
        for name, jobs in log.running.groupby("virtual_cluster", observed=True)
        for row in _pairs(log, jobs.assign(group=groups.loc[jobs.index].astype(str)), minutes_s)
    ]
    columns = ["virtual_cluster", f"waiting_{what}", f"holding_{what}", "waited_h"]
    pairs = pd.DataFrame(rows, columns=columns).astype({"waited_h": float})
    pairs = pairs.sort_values("waited_h", ascending=False, kind="stable")
    return _shares_of_waiting(pairs, None).head(_ROWS).set_index("virtual_cluster")


def _shares_of_waiting(pairs: pd.DataFrame, within: str | None) -> pd.DataFrame:
    whole = pairs["waited_h"].sum() if within is None else pairs.groupby(within)["waited_h"].transform("sum")
    return pairs.assign(waited_pct=100 * pairs["waited_h"] / whole)


def _pairs(log: ObservedLog, jobs: pd.DataFrame, minutes_s: FloatArray) -> Iterator[tuple[str, str, float]]:
    """(waiting group, holding group, hours) within one virtual cluster."""
    delayed = jobs[jobs["start_s"] > jobs["submit_s"]]
    if delayed.empty:
        return
    held = gpus_in_use(jobs, minutes_s, log.rule)
    waited_s = delayed["start_s"] - delayed["submit_s"]
    gpu_s = jobs["gpus"] * (jobs["end_s"] - jobs["start_s"])
    holders = [(name, gpus_in_use(part, minutes_s, log.rule)) for name, part in _largest_first(jobs, gpu_s)]
    shares = [
        (name, np.divide(gpus, held, out=np.zeros_like(held), where=held > 0)) for name, gpus in holders
    ]
    shares.append((NOBODY, (held <= 0).astype(np.float64)))
    for name, part in _largest_first(delayed, waited_s):
        submit_s, start_s = (part[column].to_numpy() for column in ("submit_s", "start_s"))
        waiting = held_by_minute(submit_s, start_s, np.ones(len(part)), minutes_s)
        for holder, share in shares:
            hours = float(waiting @ share) / 60
            if hours > 0:
                yield name, holder, hours


def _largest_first(jobs: pd.DataFrame, amounts: "pd.Series[float]") -> Iterator[tuple[str, pd.DataFrame]]:
    """The groups with most, and the others together."""
    order = amounts.groupby(jobs["group"]).sum().sort_values(ascending=False, kind="stable").index
    largest = list(order[:_LARGEST_GROUPS])
    for name in largest:
        yield str(name), jobs[jobs["group"] == name]
    if len(order) > _LARGEST_GROUPS:
        yield OTHERS, jobs[~jobs["group"].isin(largest)]
