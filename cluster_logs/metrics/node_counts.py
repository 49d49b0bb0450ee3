"""Counts of nodes from a Prometheus: one PromQL query a state, given by the operator or of a known exporter.

A query says how many nodes are in a state (`busy`, `idle`, `down`, `asleep`, `booting`), or are there
(`total`; default: the sum of the states). Series may differ by one label, the virtual cluster's.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pyarrow as pa

from cluster_logs import quarantine as q
from cluster_logs.metrics.prometheus import PrometheusQuery
from cluster_logs.metrics.prometheus_api import Series
from cluster_logs.metrics.series_queries import (
    MeasuredRows,
    as_times,
    ask_server,
    nothing_measured,
    parse_queries,
)
from cluster_logs.metrics.source_account import SourceAccount
from cluster_logs.node_states import NODE_STATE_ROWS_SCHEMA, OTHER_STATES, PROMETHEUS
from foundation.errors import BadInputError, UnknownNameError
from foundation.progress import Progress, silent

COUNTED = ("busy", "total", *OTHER_STATES)


def _sum_of(*states: str) -> str:
    return " + ".join(f"sum(last_over_time(slurm_nodes_{state}[$step]))" for state in states)


# Metrics of prometheus-slurm-exporter (vpenso); a completing node still runs its job's end.
SLURM_EXPORTER: Mapping[str, str] = {
    "busy": _sum_of("alloc", "mix", "comp"),
    "idle": _sum_of("idle", "resv"),
    "down": _sum_of("down", "drain", "err", "fail", "maint"),
}


@dataclass(frozen=True)
class NodeCountQuery:
    """What to ask a server for: counts in (start, end], one a step (`server`), by the queries of `promql`.

    `label` names the virtual cluster of a series; without it each query must give one series.
    """

    server: PrometheusQuery
    promql: Mapping[str, str] = field(default_factory=lambda: dict(SLURM_EXPORTER))
    label: str | None = None

    def __post_init__(self) -> None:
        for state in self.promql:
            if state not in COUNTED:
                raise UnknownNameError("state of nodes", state, COUNTED)
        if "busy" not in self.promql:
            raise BadInputError(
                "No query counts the busy nodes.", remedy='Give it: --query busy="count(...)".'
            )
        if len(self.promql) == 1:
            raise BadInputError(
                "The queries count busy nodes alone.",
                remedy='Say how many there are, too: --query total="...", or idle="...".',
            )


def parse_node_queries(texts: Iterable[str]) -> dict[str, str]:
    """Return the queries of `STATE=PROMQL` texts; without any those of prometheus-slurm-exporter."""
    return parse_queries(texts, "a state", "busy") or dict(SLURM_EXPORTER)


def read_node_counts(query: NodeCountQuery, progress: Progress = silent) -> MeasuredRows:
    """Return one count a moment and virtual cluster (NODE_STATE_ROWS_SCHEMA).

    A moment at which the busy nodes or all nodes are not known is skipped. Raises NotFoundError when there is
    no count at all, BadInputError for a count that is none, ServiceUnavailableError as `prometheus` does.
    """
    parts: list[pd.DataFrame] = []
    for state, asked, answer in ask_server(query.server, query.promql, "counting nodes", progress):
        parts += _counts(answer, state, asked, query.label)
    if not parts:
        remedy = 'Check the range and the names of the metrics: --query busy="PROMQL".'
        raise nothing_measured(query.server, query.promql, "counts no nodes", remedy)
    return _node_counts(pd.concat(parts), tuple(query.promql), urlsplit(query.server.url).netloc)


def _counts(series: list[Series], state: str, asked: str, label: str | None) -> list[pd.DataFrame]:
    owners = [one.labels.get(label, "") if label else "" for one in series]
    if len(set(owners)) < len(owners):
        raise BadInputError(
            f"The query of {state} nodes gives {len(series)} series: {asked}.",
            remedy="Sum them up: sum(...), or sum by (LABEL) (...) with the label of virtual clusters.",
        )
    frames = []
    for one, owner in zip(series, owners, strict=True):
        wrong = np.flatnonzero(~(np.isnan(one.values) | ((one.values >= 0) & (one.values % 1 == 0))))
        if len(wrong):
            raise BadInputError(
                f"The query of {state} nodes gives {one.values[wrong[0]]:g}, which is no count: {asked}.",
                remedy="A query counts nodes: whole numbers from 0 on.",
            )
        frames.append(
            pd.DataFrame({"time_s": one.time_s, "owner": owner, "state": state, "nodes": one.values})
        )
    return frames


def _node_counts(counts: pd.DataFrame, states: tuple[str, ...], source: str) -> MeasuredRows:
    """Sort the counts of single states by moment and virtual cluster; a count that is not there is no row."""
    wide = counts.dropna(subset="nodes").set_index(["time_s", "owner", "state"])["nodes"].unstack("state")
    wide = wide.reindex(columns=list(states)).reset_index()
    if "total" not in wide:
        wide["total"] = wide[list(states)].sum(axis=1, skipna=False)
    stated = wide[[name for name in ("busy", *OTHER_STATES) if name in wide]].sum(axis=1)
    unknown = wide["busy"].isna() | wide["total"].isna()
    wrong = ~unknown & (stated > wide["total"])
    account = SourceAccount(
        rows_in=len(wide),
        kept=int((~unknown & ~wrong).sum()),
        source_format=PROMETHEUS,
        source_file=source,
    )
    account.skipped[q.NO_VALUE] = int(unknown.sum())
    refused = wide[wrong]
    for row, count in zip(refused.index.tolist(), refused.to_dict("records"), strict=True):
        value = f"{count['total']:g}"
        account.refuse(q.MORE_NODES_THAN_TOTAL, row + 1, json.dumps(count), column="total", value=value)
    account.check("counts of nodes")
    return MeasuredRows(_rows(wide[~unknown & ~wrong]), account.refused(), account)


def _rows(rows: pd.DataFrame) -> pa.Table:
    owners = [owner or None for owner in rows["owner"]]
    columns = {
        "virtual_cluster": pa.array(owners, pa.string()),
        "time": as_times(rows["time_s"]),
        "held": pa.repeat(pa.scalar(False), len(rows)),
        "origin": pa.repeat(pa.scalar(PROMETHEUS, pa.string()), len(rows)),
    }
    for name in COUNTED:
        if name in rows:
            columns[name] = pa.array(rows[name], pa.float64(), from_pandas=True).cast(pa.int32())
    arrays = [columns.get(column.name, pa.nulls(len(rows), column.type)) for column in NODE_STATE_ROWS_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=NODE_STATE_ROWS_SCHEMA)
