"""What the held-out days say of a release's wait model: its errors beside the partition's median, its P90."""

from datetime import datetime

from foundation.site import Site
from lucid_models.releases.manifest import ReleaseManifest
from parts.waits.model.scorer import WaitScorer
from parts.waits.steps.judged_waits import NAIVE, judge_waits
from pipeline.validation.part_checks import GateCheck, JudgedRelease, PartFindings
from simulator.gate.bootstrap import block_numbers
from simulator.gate.limits import forecast_coverage
from simulator.gate.model_errors import ModelErrors, not_worse_than_naive
from simulator.gate.rules import GateRules
from simulator.gate.verdict import Constraint


class WaitsCheck(GateCheck):
    """What a wait model's forecasts must be worth."""

    step = "judging forecasts of waits"

    def check(self, judged: JudgedRelease) -> PartFindings:
        """Judge the forecasts of the held-out days; nothing is replayed."""
        window, release = judged.inputs.window, judged.models
        days = (window.start, window.end)
        found = check_waits(release.forecasts.get("waits"), release.manifest, judged.site, days, judged.rules)
        return PartFindings(found)


GATE_CHECK = WaitsCheck()


def check_waits(
    scorer: WaitScorer | None,
    manifest: ReleaseManifest,
    site: Site,
    days: tuple[datetime, datetime],
    rules: GateRules,
) -> list[Constraint]:
    """Two constraints on the forecasts of the `days` (start, end); nothing of a release without a wait model.

    Where no job waited nothing is measured, and nothing is refused: answers change no order of a queue.
    """
    if scorer is None:
        return []
    judged = judge_waits(site.of(manifest.cluster), scorer, *days)
    errors = ModelErrors(
        "wait forecasts",
        "mean error",
        "powers of ten",
        NAIVE,
        judged.errors,
        judged.naive_errors,
        block_numbers(judged.moment_s, judged.partition.astype(str), origin_s=days[0].timestamp()),
    )
    constraints = [not_worse_than_naive(errors, rules)]
    if judged.coverage is not None:
        constraints.append(
            forecast_coverage(
                "wait_bounds_coverage",
                {0.9: judged.coverage},
                rules.coverage_margin_points,
                "how long jobs wait",
                of="waits",
            )
        )
    return constraints
