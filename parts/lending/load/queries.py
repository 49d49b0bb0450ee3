"""The load of inference servers from a Prometheus: PromQL that the operator gives.

`usage` is a share of the servers (0 to 1), or `requests_per_s` a rate; `servers` counts them, where a query
does. A value at a moment is of the step before it, and its bin starts a step earlier.
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
from cluster_logs.metrics.series_queries import (
    MeasuredRows,
    as_times,
    ask_server,
    nothing_measured,
    parse_queries,
)
from cluster_logs.metrics.source_account import SourceAccount
from cluster_logs.node_states import MAX_NODES
from foundation.environment import read_json_object
from foundation.errors import BadInputError, UnknownNameError
from foundation.progress import Progress, silent
from parts.lending.load.table import (
    INFERENCE_LOAD_ROWS_SCHEMA,
    MAX_RATE,
    MOST_USAGE,
    PROMETHEUS,
    LoadReading,
)

MEASURED = ("usage", "requests_per_s", "servers")


@dataclass(frozen=True)
class InferenceLoadQuery:
    """What to ask a server for: values in (start, end], one a step (`server`), by the queries of `promql`.

    `load` says what the queries leave open.
    """

    server: PrometheusQuery
    promql: Mapping[str, str]
    load: LoadReading = field(default_factory=LoadReading)

    def __post_init__(self) -> None:
        for name in self.promql:
            if name not in MEASURED:
                raise UnknownNameError("query of a load", name, MEASURED)
        if ("usage" in self.promql) == ("requests_per_s" in self.promql):
            raise BadInputError(
                "The load is asked for by one query of usage or of requests_per_s.",
                remedy='Give one: --query usage="PROMQL".',
            )
        if "requests_per_s" in self.promql and self.load.full_load_per_s is None:
            raise BadInputError(
                "Requests a second say nothing of the servers without their full load.",
                remedy="Say how many occupy all servers: --full-load RATE.",
            )


def parse_load_queries(texts: Iterable[str]) -> dict[str, str]:
    """Return the queries of `NAME=PROMQL` texts."""
    return parse_queries(texts, "a load", "usage")


def configured_queries() -> list[str]:
    """Return `NAME=PROMQL` of each query of LUCID_INFERENCE_QUERIES; none: Prometheus is not asked.

    Raises BadInputError where it is no JSON object of texts.
    """
    document = read_json_object("LUCID_INFERENCE_QUERIES", example='{"usage": "PROMQL", "servers": "PROMQL"}')
    return [f"{name}={asked}" for name, asked in document.items()]


def read_inference_load(query: InferenceLoadQuery, progress: Progress = silent) -> MeasuredRows:
    """Return one bin a step (INFERENCE_LOAD_ROWS_SCHEMA); a step without a value is skipped.

    Raises NotFoundError when there is no value at all, BadInputError for a query of several series,
    ServiceUnavailableError as `prometheus` does.
    """
    columns: dict[str, list[pd.Series[float]]] = {name: [] for name in query.promql}
    for name, asked, answer in ask_server(query.server, query.promql, "reading the load", progress):
        if len(answer) > 1:
            raise BadInputError(
                f"The query of {name} gives {len(answer)} series: {asked}.",
                remedy="Sum or average them: sum(...), avg(...).",
            )
        columns[name] += [pd.Series(one.values, index=one.time_s - query.server.step_s) for one in answer]
    values = pd.DataFrame({name: pd.concat(parts) for name, parts in columns.items() if parts})
    if values.empty or not set(values.columns) & {"usage", "requests_per_s"}:
        raise nothing_measured(query.server, query.promql, "has no load", "Check the range and the queries.")
    return _measured_load(values.sort_index(), query)


def _measured_load(values: pd.DataFrame, query: InferenceLoadQuery) -> MeasuredRows:
    """Check the values by the start of their bin; what is not there is skipped."""
    is_usage = "usage" in values
    stated = values["usage" if is_usage else "requests_per_s"].to_numpy(np.float64)
    counts = values.get("servers", pd.Series(np.nan, index=values.index)).to_numpy(np.float64)
    wrong_count = (counts < 0) | (counts > MAX_NODES) | (counts % 1 > 0)
    wrong = (stated < 0) | (stated > (1 if is_usage else MAX_RATE)) | np.isinf(stated)
    unknown = np.isnan(stated)
    refused = ~unknown & (wrong | wrong_count)
    kept = ~unknown & ~refused
    account = SourceAccount(
        rows_in=len(values),
        kept=int(kept.sum()),
        source_format=PROMETHEUS,
        source_file=urlsplit(query.server.url).netloc,
    )
    account.skipped[q.NO_VALUE] = int(unknown.sum())
    for row in np.flatnonzero(refused).tolist():
        reason, column = (
            (q.IMPLAUSIBLE_USAGE, "usage" if is_usage else "requests_per_s")
            if wrong[row]
            else (q.IMPLAUSIBLE_COUNT, "servers")
        )
        raw = json.dumps({"time_s": float(values.index[row]), **values.iloc[row].to_dict()})
        account.refuse(reason, row + 1, raw, column=column, value=f"{values[column].iloc[row]:g}")
    account.check("bins of load")
    full_load = 1.0 if is_usage else query.load.full_load_per_s or 1.0
    usage = np.minimum(stated[kept] / full_load, 1.0 if is_usage else MOST_USAGE)
    servers = np.where(
        np.isnan(counts[kept]) & (query.load.servers is not None), query.load.servers or 0, counts[kept]
    )
    columns = {
        "time": as_times(values.index.to_numpy(np.float64)[kept]),
        "usage": pa.array(usage),
        "servers": pa.array(servers, pa.float64(), from_pandas=True).cast(pa.int32()),
        "gap": pa.array((usage == 0) & query.load.zeros_are_gaps),
        "origin": pa.repeat(pa.scalar(PROMETHEUS, pa.string()), int(kept.sum())),
    }
    rows = pa.table(columns, schema=INFERENCE_LOAD_ROWS_SCHEMA)
    return MeasuredRows(rows, account.refused(), account)
