"""Prometheus metrics of nodes on loan; the counters start with the daemon."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from live_scheduler.service.metrics import counters, gauges
from parts.lending.live.loan_status import LoanStatus


def loan_metrics(seen: LoanStatus) -> Iterator[Metric]:
    """Yield what the last look at nodes on loan says."""
    returning = sum(each.returning for each in seen.on_loan)
    yield from gauges(
        (
            ("inference_servers", "Nodes of inference that are up, those on loan included.", seen.servers),
            ("inference_servers_needed", "Nodes that inference needs.", seen.needed),
            ("inference_headroom_servers", "Further nodes that are never lent.", seen.headroom),
            ("loan_target_servers", "Nodes that should be on loan.", seen.target),
            ("loaned_servers", "Nodes on loan.", len(seen.on_loan) - returning),
            ("returning_servers", "Nodes on their way back to inference.", returning),
            ("loan_short_servers", "Nodes that should go back and cannot: their jobs must stay.", seen.short),
            ("loan_problem", "1 when nodes stay as they are for a reason.", seen.problem is not None),
            ("inference_usage_ratio", "Share of its nodes that inference uses.", seen.usage),
            ("inference_usage_forecast_ratio", "The forecast of that share that counts.", seen.forecast),
        )
    )
    yield from counters(
        (
            ("servers_lent", "Nodes that were lent.", seen.lent),
            ("servers_taken_back", "Nodes that were taken back.", seen.taken_back),
            (
                "loan_preemptions",
                "Jobs that were requeued since their node was taken back.",
                seen.preempted,
            ),
        )
    )
