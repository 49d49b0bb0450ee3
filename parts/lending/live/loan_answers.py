"""Answers about servers on loan: what a release's rules say of a pushed state."""

from math import inf

import numpy as np

from foundation.errors import BadInputError
from live_scheduler.release import LiveRelease, Pinned, Release
from parts.lending.live.loan_messages import LoanAnswer, LoanQuery, LoanServer, ScaledInJob
from parts.lending.live.loan_plan import InferenceNeed, LoanLimits, PlannedServer, plan_loans
from parts.lending.live.usage import ForecastInUse
from parts.lending.replay.forecast import UsageForecaster
from parts.lending.replay.released_loans import ReleasedLoans

_LIMITS = ("least_kept", "most_lent")


def plan_loans_once(query: LoanQuery, release: Release) -> LoanAnswer:
    """Return which servers to lend and to take back, by a release's rules with the query's in their place.

    Without a release, or where it says nothing of loans, the product's own rules hold. Raises BadInputError
    and UnknownNameError for a value.
    """
    given = {} if query.rules is None else query.rules.model_dump(exclude_none=True)
    limits = LoanLimits(**{name: given.pop(name) for name in _LIMITS if name in given})
    pinned: Pinned[UsageForecaster] = Pinned()
    if isinstance(release, LiveRelease):
        pinned = release.pinned("inference_load", "loaning")
    rules = ReleasedLoans.from_data({**(pinned.settings or {}), **given})
    need = _need(query, ForecastInUse.of(rules, pinned.forecaster))
    plan = plan_loans(
        [_planned(server, frozenset(query.untouchable_jobs)) for server in query.servers],
        need,
        rules.loans,
        limits,
        wanted_gpus=query.wanted_gpus,
        since_reclaim_s=inf if query.since_reclaim_s is None else query.since_reclaim_s,
    )
    scales_in = tuple(
        ScaledInJob(job_id=job, server=server, gpus=gpus) for (job, server), gpus in plan.scales_in.items()
    )
    origin = {
        "release": release.describe() if pinned.settings is not None else "the product's own rules",
        "rule": rules.loans.reclaim,
        "forecast": need.forecast,
    }
    return LoanAnswer(**vars(plan) | origin | {"scales_in": scales_in})


def _need(query: LoanQuery, forecast: ForecastInUse) -> InferenceNeed:
    ahead = query.forecast
    if ahead is None and query.recent_usage:
        if query.last_bin_start_s is None:
            raise BadInputError(
                "recent_usage is given without last_bin_start_s.",
                remedy="Say when the last of these bins of five minutes began (Unix seconds).",
            )
        value = forecast.value(np.array(query.recent_usage), query.last_bin_start_s)
        ahead = float(np.clip(value, 0.0, 1.0)) if np.isfinite(value) else None
    # Of what was used in the last finished bin nothing newer may be known.
    usage = query.usage if query.usage is not None or not query.recent_usage else query.recent_usage[-1]
    return InferenceNeed(usage, ahead, query.needed)


def _planned(server: LoanServer, untouchable: frozenset[str]) -> PlannedServer:
    movable = (
        not server.busy if not server.on_loan else untouchable.isdisjoint({*server.base, *server.flexible})
    )
    return PlannedServer(
        server.name,
        server.gpus,
        server.on_loan,
        {job: gpus for job, gpus in server.base.items() if gpus},
        {job: gpus for job, gpus in server.flexible.items() if gpus},
        counts=not server.away,
        may_move=movable,
    )
