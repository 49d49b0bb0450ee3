"""A queue at one moment as a plain table, one row a job: waiting ones, and those that started lately."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster_logs.queue_log import SITE_NAMES, QueueLog
from foundation.errors import BadInputError
from lucid_models.serving_frames import ServingFrame
from parts.waits.model.queue_moment import QueueMoment
from parts.waits.model.scorer import WaitScorer

_TEXTS = ("partition", "account")
_NUMBERS = ("start_s", "end_s", "eligible_s", "priority", "cpus", "mem_mib", "gpus", "limit_s")
_FACTS = ("submit_s", *_NUMBERS, *_TEXTS)
# Column -> (type in MLflow's words, whether it must be there).
QUEUE_COLUMNS: Mapping[str, tuple[str, bool]] = {
    "moment_s": ("double", True),
    "submit_s": ("double", True),
    **dict.fromkeys((*_NUMBERS, *SITE_NAMES), ("double", False)),
    **dict.fromkeys(_TEXTS, ("string", False)),
}


def read_queue_frame(table: pd.DataFrame) -> tuple[QueueMoment, list[str], NDArray[np.intp]]:
    """The queue of a table with the columns of QUEUE_COLUMNS; of its waiting jobs (those without a `start_s`
    by the moment) the names of the partitions and the rows of the table.

    Raises BadInputError unless all rows are of one moment.
    """
    moments = table["moment_s"].unique()
    if len(moments) != 1 or not np.isfinite(moments[0]):
        raise BadInputError(
            f"The table is of {len(moments)} moments.", remedy="Give the queue of one moment_s at a time."
        )
    now = float(moments[0])
    facts: dict[str, NDArray[Any]] = {name: _numbers(table, name) for name in ("submit_s", *_NUMBERS)}
    facts |= {name: _texts(table, name) for name in _TEXTS}
    is_waiting = ~(facts["start_s"] <= now)
    # Of equal priorities the job that came first stands first, as in a log.
    rows = np.flatnonzero(is_waiting)
    rows = rows[np.argsort(facts["submit_s"][rows], kind="stable")]
    waiting = {name: facts[name][rows] for name in _FACTS if name not in ("start_s", "end_s")}
    waiting["job"] = rows
    waiting["eligible_s"] = _by(waiting["eligible_s"], now)
    waiting |= {name: _numbers(table, name)[rows] for name in SITE_NAMES if name in table}
    started = {name: facts[name][~is_waiting] for name in _FACTS}
    started["end_s"] = _by(started["end_s"], now)
    return QueueMoment(now, waiting, started), waiting["partition"].tolist(), rows


def write_queue_frame(queue: QueueMoment, log: QueueLog, most: int) -> pd.DataFrame:
    """The first `most` waiting and started jobs each, as `read_queue_frame` takes them."""
    parts = [
        pd.DataFrame({name: values[:most] for name, values in jobs.items() if name in QUEUE_COLUMNS})
        for jobs in (queue.waiting, queue.started)
    ]
    columns = [name for name in QUEUE_COLUMNS if any(name in part for part in parts)]
    table = pd.concat([part for part in parts if len(part)], ignore_index=True).reindex(columns=columns)
    for name in _TEXTS:
        table[name] = [log.names[name][int(code)] for code in table[name]]
    numbers = [name for name in columns if name not in _TEXTS]
    return table.astype(dict.fromkeys(numbers, "float64")).assign(moment_s=float(queue.moment_s))


def _by(times: NDArray[np.float64], now: float) -> NDArray[np.float64]:
    return np.where(times <= now, times, np.nan)


def _numbers(table: pd.DataFrame, name: str) -> NDArray[np.float64]:
    if name not in table:
        return np.full(len(table), np.nan)
    return table[name].to_numpy(dtype=np.float64)


def _texts(table: pd.DataFrame, name: str) -> NDArray[np.str_]:
    if name not in table:
        return np.full(len(table), "", dtype=np.str_)
    return table[name].fillna("").astype(str).to_numpy(dtype=np.str_)


def _score(scorer: WaitScorer, table: pd.DataFrame) -> pd.DataFrame:
    queue, partitions, rows = read_queue_frame(table)
    waits_s = np.zeros((len(table), 2))
    waits_s[rows] = scorer.forecast(queue, partitions)
    return pd.DataFrame(waits_s, columns=list(FRAME.outputs), index=table.index)


FRAME = ServingFrame(QUEUE_COLUMNS, dict.fromkeys(("p50_s", "p90_s"), ("double", True)), _score)
