"""What a challenger must show: the gate's objective, margins and limits, with names, units and defaults.

A limit on a figure that should be low is `max(reference * (1 + margin_pct / 100), reference + floor)`: the
relative margin counts on a busy cluster, the absolute floor on a nearly idle one, where three seconds more
would otherwise look like a catastrophe.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, Self

from foundation.checked_settings import Between, CheckedSettings, OneOf
from foundation.errors import UnknownNameError
from foundation.parts import hooks, lacking
from simulator.wait_fidelity.grades import GRADES

# name -> the quantile of the job table's column, or None for the mean
OBJECTIVES: dict[str, tuple[str, float | None]] = {
    "mean_jct_s": ("jct_s", None),
    "mean_queuing_delay_s": ("queuing_delay_s", None),
    "p99_queuing_delay_s": ("queuing_delay_s", 0.99),
    "p999_queuing_delay_s": ("queuing_delay_s", 0.999),
}
# The same of prediction errors (per cent), for policies that predict completion times at submission.
PREDICTABILITY: dict[str, tuple[str, float | None]] = {
    "mean_pred_err_pct": ("pred_err_pct", None),
    "p50_pred_err_pct": ("pred_err_pct", 0.5),
    "p90_pred_err_pct": ("pred_err_pct", 0.9),
    "p99_pred_err_pct": ("pred_err_pct", 0.99),
}
FIGURES = {**OBJECTIVES, **PREDICTABILITY}
# What the cluster does today: reference of a first release, lower bar of every later one. A replay of it, by
# this name among the results (`simulator.site_order`).
SITE_ORDER = "site_order"


@dataclass(frozen=True, kw_only=True)
class PartRules(CheckedSettings):
    """Rules that a part adds to the gate's: a class derived from this, at the place `gate_rules` of a `Part`.

    Their names are no others', as all rules are one flat table.
    """

    noun = "gate setting"
    subject = "The gate's "

    @classmethod
    def of(cls, rules: "GateRules") -> Self:
        """Return the part's own among the gate's rules."""
        names = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in rules.of_parts.items() if name in names})


def _rules_of_parts() -> list[type[PartRules]]:
    return [rules for _, rules in hooks("gate_rules")]


@dataclass(frozen=True, kw_only=True)
class GateRules(CheckedSettings):
    """Settings of the gate, as docs/gate.md lists them."""

    noun = "gate setting"
    subject = "The gate's "

    objective: Annotated[str, OneOf("objective", tuple(FIGURES))] = "mean_jct_s"
    """What is compared: mean JCT, or a measure of the prediction error."""
    margin_pct: Annotated[float, Between(0, 100)] = 2.0
    """Non-inferiority: the upper bound of the objective's change may be this much of the champion's."""
    margin_floor_s: Annotated[float, Between(0, 1e9)] = 10.0
    """At most this many seconds, where that is more."""
    site_margin_pct: Annotated[float, Between(0, 100)] = 5.0
    """The same against the site's order. It is wider: two releases of one policy schedule much alike, so that
    their difference is known to a per cent; a release and the site's order do not, and a week's interval
    reaches 5 % to each side of what was found."""
    site_margin_floor_s: Annotated[float, Between(0, 1e9)] = 10.0
    """At most this many seconds, where that is more."""
    margin_points: Annotated[float, Between(0, 100)] = 1.0
    """In place of the seconds where the objective is a prediction error, in percentage points."""
    jct_price_pct: Annotated[float, Between(0, 10_000)] = 0.0
    """What a clear gain in predictability may cost, as the upper bound of the change of mean JCT. The
    operator's preference; 0: no more than the margin."""
    foretold_jobs: Annotated[int, Between(1, 1_000_000)] = 1_000
    """So many jobs of the window, drawn at random, have their ends predicted: a simulation each."""
    foretold_by: Annotated[
        Literal["estimated", "true"], OneOf("run times to predict by", ("estimated", "true"))
    ] = "estimated"
    """By the release's estimates of run times, as its users see them, or by the true ones: what is uncertain
    then is only when a job gets its GPUs."""
    confidence_pct: Annotated[float, Between(50, 99.99)] = 95.0
    """Of the paired block-bootstrap intervals."""
    resamples: Annotated[int, Between(100, 1_000_000)] = 2_000
    """How often blocks are drawn."""
    seed: Annotated[int, Between(0, 2**32 - 1)] = 0
    """Of these draws."""
    interval: Annotated[Literal["bca", "percentile"], OneOf("interval", ("bca", "percentile"))] = "bca"
    """How the interval is made of the draws."""
    min_blocks: Annotated[int, Between(2, 1_000)] = 2
    """Fewer blocks (day x virtual cluster) give no interval, and without one nothing is approved."""

    worst_grade: Annotated[str, OneOf("grade", GRADES)] = "C"
    """The worst grade of the replayed waits beside those of the log with which a release may go live; D: any
    (`simulator.wait_fidelity.grade`)."""

    unproven: Annotated[
        str, OneOf("answer to a window that proves nothing", ("refuse", "publish_harmless"))
    ] = "refuse"
    """What follows where the window proves nothing, because next to nothing queues in it: "refuse" waits for
    a window that does, "publish_harmless" lets a release go live that is shown to do no harm."""
    unproven_queuing_pct: Annotated[float, Between(0, 100)] = 0.1
    """A window proves nothing when the mean queuing delay under the site's order is at most this share of its
    mean JCT. No order of the queue can gain more than that: a twentieth of the margin."""

    p999_margin_pct: Annotated[float, Between(0, 1_000)] = 50.0
    """Any order by size trades the tail for the mean: on a loaded week of Philly, QSSF's P99.9 is 24 % above
    FIFO's while its mean JCT is 85 % below."""
    p999_floor_s: Annotated[float, Between(0, 1e9)] = 1_800.0
    """A rise by less blocks nothing; so with the further floors."""
    starvation_wait_s: Annotated[float, Between(1, 1e9)] = 86_400.0
    """A job that waits longer than this is counted as starved."""
    starved_margin_pct: Annotated[float, Between(0, 1_000)] = 25.0
    """By how much the number of starved jobs may rise."""
    starved_floor_pct: Annotated[float, Between(0, 100)] = 0.1
    """Of all jobs (at least one job)."""
    longest_wait_margin_pct: Annotated[float, Between(0, 1_000)] = 100.0
    """Wide, because it hangs on one job; P99.9 and the number of starved jobs are the finer measures."""
    longest_wait_floor_s: Annotated[float, Between(0, 1e9)] = 86_400.0
    """Seconds."""
    fairness_margin_pct: Annotated[float, Between(0, 1_000)] = 25.0
    """By how much the worst group's mean slowdown may rise above the reference's worst group's."""
    fairness_floor: Annotated[float, Between(0, 1e6)] = 1.0
    """In units of slowdown (JCT over run time)."""
    fairness_min_jobs: Annotated[int, Between(1, 1_000_000)] = 20
    """Users and virtual clusters with fewer jobs in the window say too little to be judged."""
    slowdown_bound_s: Annotated[float, Between(1, 1e6)] = 600.0
    """Run times below this count as this much in a slowdown (bounded slowdown, Feitelson et al. 1997)."""
    utilisation_margin_pct: Annotated[float, Between(0, 100)] = 5.0
    """Of the reference's delivered work; less depends on what happens to run when the window ends."""
    naive_margin_pct: Annotated[float, Between(0, 1_000)] = 5.0
    """A model's error may be this much above a naive baseline's, and not clearly above it at all."""
    coverage_margin_points: Annotated[float, Between(0, 100)] = 10.0
    """By how much fewer bins than it says a quantile of the forecast may hold in."""
    decision_latency_limit_ms: Annotated[float, Between(0.001, 1e6)] = 10.0
    """The paper's 3 ms (Lucid section 4.7), and room for a machine a third as fast."""
    decision_jobs: Annotated[int, Between(1, 1_000_000)] = 2_048
    """Queued jobs that are ranked to measure it."""
    of_parts: Mapping[str, Any] = field(default_factory=dict)
    """Rules that parts add, by name, where they are not their defaults (`PartRules.of`)."""

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all rules, those of installed parts last."""
        of_parts = (each.name for rules in _rules_of_parts() for each in fields(rules))
        return [*(each.name for each in fields(cls) if each.name != "of_parts"), *of_parts]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the rules of a flat table; what it lacks stays as it is by default.

        Raises UnknownNameError for a name that is no rule, NotFoundError for one of a part that is not
        installed, BadInputError for a value that cannot be used.
        """
        names = cls.names()
        for name in data:
            if name not in names:
                raise lacking().get(f"gate rule {name}") or UnknownNameError(cls.noun, name, names)
        others = dict(data)
        of_parts: dict[str, Any] = {}
        for rules in _rules_of_parts():
            own = {each.name: others.pop(each.name) for each in fields(rules) if each.name in others}
            checked, default = rules.from_data(own).to_data(), rules().to_data()
            of_parts |= {name: checked[name] for name in own if checked[name] != default[name]}
        return cls(**others, of_parts=of_parts)

    def to_data(self) -> dict[str, Any]:
        """Return all rules as a flat table, those of installed parts last."""
        own = super().to_data()
        del own["of_parts"]
        for rules in _rules_of_parts():
            own |= rules.of(self).to_data()
        return own

    @property
    def judges_predictions(self) -> bool:
        """Whether completion times have to be predicted to judge."""
        return self.objective in PREDICTABILITY

    def objective_against(self, reference: str) -> str:
        """The figure that counts against a policy: ends are predicted of releases alone."""
        return "mean_jct_s" if reference == SITE_ORDER and self.judges_predictions else self.objective

    def margin(self, reference: str, name: str) -> tuple[float, float]:
        """A figure's margin against a policy: per cent, and seconds or percentage points."""
        if name in PREDICTABILITY:
            return self.margin_pct, self.margin_points
        if reference == SITE_ORDER:
            return self.site_margin_pct, self.site_margin_floor_s
        return self.margin_pct, self.margin_floor_s
