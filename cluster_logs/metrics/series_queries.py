"""PromQL that an operator gives, a query a column: asked of a server, and what became of its answers.

`$step` in a query stands for the time between two values, so that `rate(COUNTER[$step])` is of a whole
step, and `last_over_time(metric[$step])` is nothing where the exporter was silent; a bare metric repeats its
last value for five minutes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cluster_logs.metrics.prometheus_api import RangeQuery, Series, open_client, range_series
from cluster_logs.quarantine import Accounting
from foundation.errors import BadInputError, NotFoundError
from foundation.progress import Progress, Work


@dataclass(frozen=True)
class MeasuredRows:
    """Rows of a table of the lake, refused ones (REFUSED_SCHEMA), and the account of both."""

    rows: pa.Table
    refused: pa.Table
    accounting: Accounting


def parse_queries(texts: Iterable[str], of: str, example: str) -> dict[str, str]:
    """Return the queries of `NAME=PROMQL` texts; raises BadInputError for what is none, or of one name."""
    queries: dict[str, str] = {}
    for text in texts:
        name, equals, asked = (part.strip() for part in text.partition("="))
        if not equals or not asked:
            raise BadInputError(f"{text!r} is no query of {of}.", remedy=f'Write {example}="PROMQL".')
        if name in queries:
            raise BadInputError(f"{name!r} has two queries.", remedy="Keep one.")
        queries[name] = asked
    return queries


def ask_server(
    server: RangeQuery, promql: Mapping[str, str], what: str, progress: Progress
) -> Iterator[tuple[str, str, list[Series]]]:
    """Ask each query for each piece of the range: its name, the query as it was asked, and the answer."""
    pieces = list(server.pieces())
    total, work = len(promql) * len(pieces), Work(what, "queries")
    with open_client(server) as client:
        for number, (name, text) in enumerate(promql.items()):
            asked = text.replace("$step", server.window)
            for index, piece in enumerate(pieces):
                progress(number * len(pieces) + index, total, work)
                yield name, asked, range_series(client, server, asked, piece)
    progress(total, total, work)


def nothing_measured(
    server: RangeQuery, promql: Mapping[str, str], answer: str, remedy: str
) -> NotFoundError:
    """The error of a server that has no value in the range; `answer`: what it then does."""
    return NotFoundError(
        f"{server.url} {answer} from {server.start.isoformat()} to {server.end.isoformat()}: "
        f"{'; '.join(promql.values())}.",
        remedy=remedy,
    )


def as_times(times_s: npt.ArrayLike) -> pa.Array:
    """Seconds since 1970 as the lake keeps times."""
    times_us = np.round(np.asarray(times_s, dtype=np.float64) * 1e6).astype(np.int64)
    return pa.array(times_us).cast(pa.timestamp("us", tz="UTC"))
