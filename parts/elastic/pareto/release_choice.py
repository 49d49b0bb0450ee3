"""A configuration of PCS that was picked from a Pareto front becomes a release: the challenger.

Its models are those of the cluster's current release, since only the policy is new. The release says in its
manifest which point of which search it is, what was preferred and what was expected, and what the gate is to
judge it by: the predictability that was preferred, at the price in mean JCT that the point was picked at.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from foundation.site import Site
from lucid_models.amounts import amount
from lucid_models.registry import Registry
from lucid_models.releases.building import SettingsOrigin
from lucid_models.releases.lifecycle import ReleaseInfo, build_release
from lucid_models.releases.manifest import orders_only
from lucid_models.releases.store import ALLOW_SIMULATED
from parts.elastic.configurations import FIELDS, configuration_to_json
from parts.elastic.pareto.objectives import AVERAGE, Objective
from parts.elastic.pareto.presented import Front, FrontPoint
from pipeline.release.current_release import find_current_release
from pipeline.release.release_settings import allowing_simulated, pinned_settings
from pipeline.training.windows import training_window_end
from pipeline.validation.held_out_days import USUAL_DAYS, HeldOutDays, record_held_out
from simulator.gate.rules import GateRules

POLICY = "pcs"
MEAN_JCT = "JCT:avg"
SEARCH_DATASET = "search"  # in a manifest's training.datasets: the search that chose the settings
PRICE_MARGIN_PCT = 10.0  # the gate replays other jobs than the search did


def build_picked_release(
    site: Site,
    *,
    front: Front,
    front_id: str,
    held_out: HeldOutDays = USUAL_DAYS,
    run_id: str | None = None,
    jct_price_pct: float | None = None,
) -> ReleaseInfo:
    """Build the release of a point of a front; the same point again is the same release.

    `run_id` is the search's run in MLflow. `jct_price_pct` is what predictability may cost at the gate
    (default: what the point costs beside the front's shortest mean JCT, and a margin).

    Raises UnknownNameError for a point that the front does not have, NotFoundError when the cluster has no
    release with models for it, BadInputError when these learned from the held-out days.
    """
    choice = choice_of(front, front_id, run_id, jct_price_pct)
    base = find_current_release(site, purpose="with models for the picked one")
    configuration = configuration_to_json(front.point(front_id).config)
    release = build_release(
        tracking_uri=site.registry,
        cluster=site.cluster,
        versions={kind: int(pin["version"]) for kind, pin in base.models.items()},
        policy=POLICY,
        settings=allowing_simulated(
            pinned_settings({name: configuration[name] for name in FIELDS}, POLICY),
            # Its jobs share no GPUs, so that simulated profiles decide as little as in an order-only base.
            allow=base.settings.get(ALLOW_SIMULATED) is True or orders_only(base.settings),
        ),
        training_until=training_window_end(site, held_out.days, held_out.as_of),
        origin=SettingsOrigin(choice, {SEARCH_DATASET: front.study}),
        parts=base.parts,
    )
    record_held_out(site, release, held_out.days)
    registry = Registry(site.registry)
    tags = {
        "picked_point": front_id,
        "picked_search": front.study,
        "picked_run_id": run_id or "",
        "picked_from_release": str(base.version),
        "picked_says": describe_choice(choice),
    }
    for key, value in tags.items():
        registry.set_version_tag(release.name, release.version, key, value)
    return release


def choice_of(
    front: Front, front_id: str, run_id: str | None = None, jct_price_pct: float | None = None
) -> dict[str, Any]:
    """What a release says of its choice; `objective` and `jct_price_pct` are rules of the gate.

    Raises UnknownNameError for a point that the front does not have, BadInputError for a price that is none.
    """
    point = front.point(front_id)
    objective = gate_objective([Objective.parse(stated) for stated in front.preference])
    price_pct = price_of(front, point) if jct_price_pct is None else float(jct_price_pct)
    GateRules(objective=objective, jct_price_pct=price_pct)
    return {
        "search": front.study,
        "run_id": run_id,
        "point": front_id,
        "preference": list(front.preference),
        "expected": {name: point.figures[name] for name in dict.fromkeys((*front.preference, MEAN_JCT))},
        "objective": objective,
        "jct_price_pct": price_pct,
    }


def gate_objective(preference: Sequence[Objective]) -> str:
    """The gate's objective for a preference: its first measure of Pred_err, else mean JCT.

    The gate knows the mean and P50, P90 and P99; another percentile counts as the nearest of them.
    """
    stated = next((objective for objective in preference if objective.metric == "Pred_err"), None)
    if stated is None:
        return "mean_jct_s"
    if stated.measure == AVERAGE:
        return "mean_pred_err_pct"
    share = float(stated.measure[1:])
    return f"p{min((50, 90, 99), key=lambda percentile: (abs(percentile - share), -percentile))}_pred_err_pct"


def price_of(front: Front, point: FrontPoint) -> float:
    """What a point costs in mean JCT beside the shortest of its front, and a margin (%, whole)."""
    shortest_s = min(other_point.figures[MEAN_JCT] for other_point in front.points)
    costs = point.figures[MEAN_JCT] / shortest_s - 1.0 if shortest_s > 0 else 0.0
    return float(math.ceil(round(100.0 * costs + PRICE_MARGIN_PCT, 6)))


def describe_choice(choice: Mapping[str, Any]) -> str:
    """Return one sentence for people."""
    expected = ", ".join(f"{name} {amount(value)}" for name, value in choice["expected"].items())
    return (
        f"Point {choice['point']} of the front for {' and '.join(choice['preference'])}: expected "
        f"{expected}. The gate judges by {choice['objective']}, at a price of up to "
        f"{choice['jct_price_pct']:g} % in mean JCT."
    )
