"""Options of the commands that read measurements from a Prometheus."""

from typing import TYPE_CHECKING, Annotated

import typer

from foundation.errors import BadInputError
from lucid_cli.options import parse_time

if TYPE_CHECKING:
    from cluster_logs.metrics.prometheus import PrometheusQuery

SECRETS = "Secrets come from LUCID_PROMETHEUS_TOKEN, or LUCID_PROMETHEUS_USER and LUCID_PROMETHEUS_PASSWORD."
FromOption = Annotated[str | None, typer.Option("--start", metavar="TIME", help="From when on (UTC).")]
UntilOption = Annotated[str | None, typer.Option("--end", metavar="TIME", help="Until when (UTC).")]


def prometheus_query(
    url: str, start: str | None, end: str | None, step_s: float, match: str = ""
) -> "PrometheusQuery":
    """Return what is asked of the Prometheus at `url`; raises BadInputError without --start and --end."""
    from cluster_logs.metrics.prometheus import PrometheusQuery

    first, last = parse_time(start, "--start"), parse_time(end, "--end")
    if first is None or last is None:
        raise BadInputError(f"Which part of {url} is to be read?", remedy="Give --start and --end (UTC).")
    return PrometheusQuery(url, first, last, step_s, matchers=match)
