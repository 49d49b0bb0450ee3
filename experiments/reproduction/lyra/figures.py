"""Figures 8 to 16 and the numbers of the text that replays answer."""

from collections.abc import Mapping

import numpy as np

from experiments.reproduction.lyra.published import RowKey
from experiments.reproduction.lyra.schemes import (
    BASELINE,
    CHECKPOINT_SHARES,
    ELASTIC,
    ELASTIC_SHARES,
    HEADROOMS,
    HETEROGENEOUS_SHARES,
    LOSSES,
    SCALERS,
    SJF,
    elastic_scheme,
)
from experiments.reproduction.lyra.spreads import ByScheme, Measure, figure, jct, more_pct, queuing, ratio

LEVELLED = 0.95  # of what the largest share saves: from there on a curve counts as level
SCALER_NAMES: Mapping[str, str] = {
    "gandiva": "Gandiva",
    "afs": "AFS",
    "pollux": "Pollux",
    "lyra": "Lyra",
    "exponent": "Lyra, value exponent 1.5",
    "tuned": "Lyra+TunedJobs",
}
# The shares of heterogeneous jobs of Figure 11, by scheme; the log itself has 10 %.
HETEROGENEOUS_BY_SHARE = {
    0.1: "heterogeneous",
    **{share: f"heterogeneous{round(100 * share)}" for share in HETEROGENEOUS_SHARES},
}


def printed_measures() -> dict[RowKey, Measure]:
    """Return how the numbers that the paper prints of Figures 8 to 16 and in its text are measured."""
    q, j = queuing, jct
    exact = {
        ("7.2", "flexible servers satisfy of reclaiming demand, Basic %"): figure(
            "basic", "flexible_share", 100
        ),
        ("7.2", "same, Ideal %"): figure("ideal", "flexible_share", 100),
        ("7.2", "usage gain Basic over Baseline %"): more_pct(
            figure("basic", "overall"), figure(BASELINE, "overall")
        ),
        ("7.2", "usage gain Ideal %"): more_pct(figure("ideal", "overall"), figure(BASELINE, "overall")),
        ("7.2", "largest hourly usage gain %"): _largest_hourly_gain,
        ("Fig 8", "20 % loss per worker: queue higher %"): more_pct(q("basic_loss20"), q("basic")),
        ("Fig 8", "same: JCT higher %"): more_pct(j("basic_loss20"), j("basic")),
        ("Fig 8", "Ideal with loss: JCT higher %"): more_pct(j("ideal_loss20"), j("ideal")),
        ("Fig 8", "Ideal with loss: JCT s"): j("ideal_loss20"),
        ("Fig 11", "gain of heterogeneous share levels off at %"): _levels_off,
        ("Fig 9", "usage of on-loan servers % at least"): _least_daily_usage("loan_demand"),
        ("Fig 10", "Lyra vs SCF: preemption x"): _figure_ratio("loan_scf", "preemptions"),
        ("Fig 10", "Lyra vs SCF: collateral x"): _figure_ratio("loan_scf", "collateral"),
        ("Fig 10", "Lyra vs Random: preemption x"): _figure_ratio("loan_random", "preemptions"),
        ("Fig 10", "Lyra vs Random: collateral x"): _figure_ratio("loan_random", "collateral"),
        ("Fig 13", "80 % with checkpoint: preemption ratio %"): figure(
            "loan_checkpoint80", "preemption_ratio", 100
        ),
        ("Fig 13", "80 % with checkpoint: JCT x"): ratio(j("loan_lyra"), j("loan_checkpoint80")),
        ("7.3", "loaning alone: queue x"): ratio(q(BASELINE), q("loan_lyra")),
        ("7.3", "loaning alone: JCT x"): ratio(j(BASELINE), j("loan_lyra")),
        ("7", "scaling alone: queue x"): ratio(q(BASELINE), q("scale_lyra")),
        ("7", "scaling alone: JCT x"): ratio(j(BASELINE), j("scale_lyra")),
        ("7", "Basic: queue x"): ratio(q(BASELINE), q("basic")),
        ("7", "Basic: JCT x"): ratio(j(BASELINE), j("basic")),
        ("Fig 16", "all elastic, non-linear: JCT x"): ratio(j(BASELINE), j("elastic100_lyra_loss20")),
        ("7.4", "scaling operations Pollux / Lyra+TunedJobs"): ratio(
            figure("elastic100_pollux", "scalings"), figure("elastic100_tuned", "scalings")
        ),
    }
    return {(table, "", "Lyra", metric): measure for (table, metric), measure in exact.items()}


def resampled_measures() -> dict[RowKey, Measure]:
    """Return how Figure 12's gains are measured on the ten resampled traces, and SJF's alone."""
    measures = {}
    for scheme, name, key in (
        ("Lyra", "ten 10-day bootstraps Basic", "basic"),
        ("Lyra", "Ideal", "ideal"),
        ("SJF alone", "ten 10-day bootstraps", SJF),
    ):
        jct_name = "Basic" if key == "basic" else name
        measures["Fig 12", "", scheme, f"{name}: queue x"] = ratio(queuing(BASELINE), queuing(key))
        measures["Fig 12", "", scheme, f"{jct_name}: JCT x"] = ratio(jct(BASELINE), jct(key))
    return measures


def curve_measures() -> dict[RowKey, Measure]:
    """Return the curves that the paper draws without numbers, and studies that it does not have."""
    measures: dict[RowKey, Measure] = {}
    for (table, about, scheme), key in _curves().items():
        measures[table, about, scheme, "queue reduction x"] = ratio(queuing(BASELINE), queuing(key))
        measures[table, about, scheme, "JCT reduction x"] = ratio(jct(BASELINE), jct(key))
    for (about, scheme), key in _RECLAIMING.items():
        measures["Fig 10", about, scheme, "preemptions"] = figure(key, "preemptions")
        measures["Fig 10", about, scheme, "collateral %"] = figure(key, "collateral", 100)
    for key, about in _LENDING.items():
        measures["Fig 9", about, "Lyra", "mean usage of on-loan servers %"] = figure(key, "on_loan", 100)
    return measures


def _curves() -> dict[tuple[str, str, str], str]:
    """Return the schemes of each curve, by table, what is varied, and name."""
    curves = {
        ("Fig 14 and 15", f"{round(100 * share)} % of jobs elastic", SCALER_NAMES[scaler]): scheme.key
        for scaler in SCALERS
        for share in ELASTIC_SHARES
        if (scheme := elastic_scheme(scaler, share)) in ELASTIC
    }
    for share in ELASTIC_SHARES:
        about = f"{round(100 * share)} % of jobs elastic, loss 20 %"
        curves["Fig 16", about, "Lyra"] = elastic_scheme("lyra", share, 0.2).key
    for loss in LOSSES:
        curves["Fig 8", f"Basic, loss {round(100 * loss)} %", "Lyra"] = f"basic_loss{round(100 * loss)}"
    for share, key in HETEROGENEOUS_BY_SHARE.items():
        curves["Fig 11", f"{round(100 * share)} % of jobs heterogeneous", "Lyra"] = key
    for share in CHECKPOINT_SHARES:
        percent = round(100 * share)
        curves["Fig 13", f"{percent} % of jobs with checkpoints", "Lyra"] = f"loan_checkpoint{percent}"
    for headroom in (HEADROOMS[0], 0.02, *HEADROOMS[1:]):
        percent = round(100 * headroom)
        key = "basic" if percent == 2 else f"basic_headroom{percent}"
        curves["headroom", f"Basic, headroom {percent} %", "Lyra"] = key
    tables = ("Fig 8", "Fig 9", "Fig 10", "Fig 11", "Fig 13", "Fig 14 and 15", "Fig 16", "headroom")
    return curves | {(table, "", "SJF alone"): SJF for table in tables}


_RECLAIMING = {
    (about, f"reclaim={rule}"): key
    for about, keys in (
        ("loaning only", ("loan_lyra", "loan_exact", "loan_scf", "loan_random")),
        ("Basic", ("basic", "basic_exact", "basic_scf", "basic_random")),
    )
    for rule, key in zip(("reference", "exact", "scf", "random"), keys, strict=True)
}
_LENDING = {
    "loan_lyra": "loaning only, lending what inference spares",
    "loan_demand": "loaning only, lending on demand",
    "basic": "Basic, lending what inference spares",
    "basic_demand": "Basic, lending on demand",
}


def _largest_hourly_gain(outcomes: ByScheme) -> float:
    return float(100 * np.max(outcomes["basic"].usage - outcomes[BASELINE].usage))


def _figure_ratio(key: str, name: str) -> Measure:
    return ratio(figure(key, name), figure("loan_lyra", name))


def _least_daily_usage(key: str) -> Measure:
    """The least over days of the mean usage of on-loan servers while there are any (%)."""

    def measure(outcomes: ByScheme) -> float:
        by_day = outcomes[key].loaned_usage.reshape(-1, 24)
        lent = [day[np.isfinite(day)] for day in by_day]
        return 100 * min(float(day.mean()) for day in lent if len(day))

    return measure


def _levels_off(outcomes: ByScheme) -> float:
    """The least share of heterogeneous jobs that saves nearly as much queuing as the largest."""
    baseline = queuing(BASELINE)(outcomes)
    saved = {share: baseline - queuing(key)(outcomes) for share, key in HETEROGENEOUS_BY_SHARE.items()}
    enough = LEVELLED * saved[max(saved)]
    return 100 * min(share for share, seconds in saved.items() if seconds >= enough)
