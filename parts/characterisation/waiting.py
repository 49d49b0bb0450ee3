"""How long jobs wait (Helios, tables 3 and 4), and behind whose jobs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.log_statistics.capacity import FloatArray
from cluster_logs.log_statistics.observed_log import ObservedLog, measured_once
from cluster_logs.log_statistics.occupancy import held_by_group, minutes_of
from cluster_logs.log_statistics.statistics import share_pct
from parts.characterisation.figures import size_class

SHORT_S, LONG_S = 15 * 60.0, 6 * 3_600.0
DURATION_CLASSES = ("< 15 min", "15 min to 6 h", "> 6 h")
AS_LOGGED = "as logged"
OTHERS, NOBODY = "all others", "nobody (GPUs idle)"
_LARGEST_GROUPS = 8
_ROWS = 100


def schedule_table(log: ObservedLog) -> pd.DataFrame:
    """Table 3 for the schedule that the log holds: mean JCT, mean queuing delay and queuing jobs."""
    jobs = log.gpu_jobs.dropna(subset=["duration_s", "queue_s"])
    row = {
        "jobs": len(jobs),
        "mean_jct_s": (jobs["duration_s"] + jobs["queue_s"]).mean(),
        "mean_queuing_delay_s": jobs["queue_s"].mean(),
        "queuing_jobs": int((jobs["queue_s"] > 0).sum()),
    }
    return pd.DataFrame([row], index=pd.Index([AS_LOGGED], name="scheme"))


def queuing_by_duration(log: ObservedLog) -> pd.DataFrame:
    """Table 4's groups of jobs: how long short, middle and long ones queue in the log's own schedule.

    Jobs, mean queuing delay and share of all queuing: below 15 min, 15 min to 6 h, above 6 h.
    """
    jobs = log.gpu_jobs.dropna(subset=["duration_s", "queue_s"])
    run_s = jobs["duration_s"].to_numpy()
    codes = (run_s >= SHORT_S).astype(int) + (run_s > LONG_S)
    grouped = jobs["queue_s"].groupby(codes)
    table = pd.DataFrame({"jobs": grouped.size(), "mean_queuing_delay_s": grouped.mean()})
    table["queuing_pct"] = 100 * grouped.sum() / (jobs["queue_s"].sum() or np.nan)
    table = table.reindex(range(3))
    table["jobs"] = table["jobs"].fillna(0).astype(int)
    table.index = pd.Index(DURATION_CLASSES, name="duration")
    return table


def waits_behind_users(log: ObservedLog) -> pd.DataFrame:
    """Whose jobs waited while whose held the GPUs of the same virtual cluster.

    What jobs spent before they might have started (`ObservedLog.jobs`: barred) is charged to none. At each
    full minute the waiting jobs of a user are charged to those that hold GPUs, by their GPUs' share; to none
    while no GPU is held. Users beyond the eight that hold and wait most in a virtual cluster are
    taken together. The pairs with most waiting, at most 100.
    """
    return _waits_behind_users(log).head(_ROWS).set_index("virtual_cluster")


def waits_behind_sizes(log: ObservedLog) -> pd.DataFrame:
    """The same by the size of jobs, over all virtual clusters."""
    pairs = _who_waits(log, size_class(log.running["gpus"]), "size")
    together = pairs.groupby(["waiting_size", "holding_size"], sort=False)["waited_h"].sum().reset_index()
    whole = together.groupby("waiting_size")["waited_h"].transform("sum")
    together["waited_pct"] = 100 * together["waited_h"] / whole
    return together.sort_values("waited_h", ascending=False).set_index("waiting_size")


def behind_others_statistics(log: ObservedLog) -> dict[str, float]:
    """The share of all waiting that is spent behind other users' jobs, one's own, and idle GPUs.

    Users that are taken together count as others.
    """
    pairs = _waits_behind_users(log)
    hours, total = pairs["waited_h"], float(pairs["waited_h"].sum())
    own = (pairs["waiting_user"] == pairs["holding_user"]) & (pairs["holding_user"] != OTHERS)
    idle = pairs["holding_user"] == NOBODY
    return {
        "behind_others_pct": share_pct(hours[~own & ~idle].sum(), total),
        "behind_own_pct": share_pct(hours[own].sum(), total),
        "behind_idle_gpus_pct": share_pct(hours[idle].sum(), total),
    }


@measured_once
def _waits_behind_users(log: ObservedLog) -> pd.DataFrame:
    return _who_waits(log, log.running["user"], "user")


def _who_waits(log: ObservedLog, groups: "pd.Series[Any]", what: str) -> pd.DataFrame:
    """Pairs of groups within a virtual cluster, those with most waiting first."""
    minutes_s = minutes_of(log.window)
    names = [str(name) for name in groups.cat.categories]
    codes = groups.cat.codes.to_numpy()
    rows = [
        (str(name), *row)
        for name, places in log.running.groupby("virtual_cluster", observed=True).indices.items()
        for row in _pairs(log, log.running.iloc[places], codes[places], names, minutes_s)
    ]
    columns = ["virtual_cluster", f"waiting_{what}", f"holding_{what}", "waited_h"]
    pairs = pd.DataFrame(rows, columns=columns).astype({"waited_h": float})
    pairs["waited_pct"] = 100 * pairs["waited_h"] / pairs["waited_h"].sum()
    return pairs.sort_values("waited_h", ascending=False, kind="stable")


def _pairs(
    log: ObservedLog, jobs: pd.DataFrame, codes: "NDArray[Any]", names: list[str], minutes_s: FloatArray
) -> Iterator[tuple[str, str, float]]:
    """(waiting group, holding group, hours) within one virtual cluster."""
    ready_s, start_s, end_s, gpus = (
        jobs[name].to_numpy(dtype=np.float64) for name in ("ready_s", "start_s", "end_s", "gpus")
    )
    delayed = start_s > ready_s
    if not delayed.any():
        return
    weight = gpus * (end_s - start_s) / max(1.0, float((gpus * (end_s - start_s)).sum()))
    weight += (start_s - ready_s) / float((start_s - ready_s).sum())
    named = codes >= 0
    totals = np.bincount(codes[named], weight[named], len(names))
    largest = np.argsort(-totals, kind="stable")[: min(_LARGEST_GROUPS, int((totals > 0).sum()))]
    slot_of = np.full(len(names) + 1, len(largest))  # the last: all others, and jobs of no known user
    slot_of[largest] = np.arange(len(largest))
    slots, group_names = slot_of[codes], [*(names[code] for code in largest), OTHERS]
    held = held_by_group(start_s, end_s, gpus, slots, minutes_s, log.rule)
    in_use = held.sum(axis=0)
    idle = in_use <= 0
    held /= np.where(idle, 1.0, in_use)
    waiting = held_by_group(
        ready_s[delayed], start_s[delayed], np.ones(int(delayed.sum())), slots[delayed], minutes_s
    )
    hours = np.hstack([waiting @ held.T, waiting[:, idle].sum(axis=1, keepdims=True)]) / 60
    holders = [*group_names[: len(held)], NOBODY]
    for row, column in zip(*np.nonzero(hours > 0), strict=True):
        yield group_names[row], holders[column], float(hours[row, column])
