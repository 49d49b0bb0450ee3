"""Tables 5 to 9: which replay a printed number stands beside, and the schemes that the paper lacks."""

from collections.abc import Mapping

import numpy as np

from experiments.reproduction.lyra.published import RowKey
from experiments.reproduction.lyra.schemes import BASELINE, SJF, WRONG_SHARES
from experiments.reproduction.lyra.spreads import ByScheme, Measure, figure, jct, queuing, ratio

PLACEMENT_TABLE = "Table 6 (no special placement)"
LOANED_JOBS_TABLE = "Table 7 (jobs on on-loan servers)"
TABLES = ("Table 5", PLACEMENT_TABLE, LOANED_JOBS_TABLE, "Table 8", "Table 9")
SJF_ALONE = "SJF alone"

# (scenario, scheme) of a table -> the key of a scheme; those that the paper does not have stand last.
_TABLE_5: Mapping[tuple[str, str], str] = {
    ("-", "Baseline"): BASELINE,
    ("Basic", "Lyra"): "basic",
    ("Advanced", "Lyra"): "advanced",
    ("Heterogeneous", "Lyra"): "heterogeneous",
    ("Ideal", "Lyra"): "ideal",
    ("loaning only", "Opportunistic"): "loan_opportunistic",
    ("loaning only", "Random"): "loan_random",
    ("loaning only", "SCF"): "loan_scf",
    ("loaning only", "Lyra"): "loan_lyra",
    ("scaling only", "Gandiva"): "scale_gandiva",
    ("scaling only", "AFS"): "scale_afs",
    ("scaling only", "Pollux"): "scale_pollux",
    ("scaling only", "Lyra"): "scale_lyra",
    ("scaling only", "Lyra+TunedJobs"): "scale_tuned",
    ("-", SJF_ALONE): SJF,
    ("loaning only", "Lyra, exact reclaiming"): "loan_exact",
    ("loaning only", "Lyra, FIFO order"): "loan_fifo",
    ("loaning only", "Lyra, lending on demand"): "loan_demand",
    ("scaling only", "Lyra, value exponent 1.5"): "scale_exponent",
    ("Basic", "Lyra, lending on demand"): "basic_demand",
}
_TABLE_6 = {
    ("Basic", "Lyra"): "basic_plain",
    ("Advanced", "Lyra"): "advanced_plain",
    ("Ideal", "Lyra"): "ideal_plain",
    ("-", SJF_ALONE): SJF,
}
_TABLE_8 = {
    ("scaling only", "Baseline"): BASELINE,
    **{key: scheme for key, scheme in _TABLE_5.items() if key[0] == "scaling only"},
    ("-", SJF_ALONE): SJF,
}
_PERCENTILES: Mapping[str, float | None] = {"mean": None, "p50": 50, "p75": 75, "p95": 95, "p99": 99}
_COLUMNS_OF_5 = (
    *(f"{what} {statistic} s" for what in ("queue", "JCT") for statistic in ("mean", "p50", "p95")),
    "usage training",
    "usage overall",
    "preemption ratio %",
)
_COLUMNS_OF_6 = ("queue mean s", "JCT mean s", "preemption ratio %")
_COLUMNS_OF_8 = tuple(
    f"{what} {statistic} s" for what in ("queue", "JCT") for statistic in ("p50", "p75", "p95", "p99")
)


def table_measures() -> dict[RowKey, Measure]:
    """Return how each number of Tables 5 to 9 is measured, and those of the schemes beside the paper's."""
    measures: dict[RowKey, Measure] = {}
    for table, schemes, columns in (
        ("Table 5", _TABLE_5, _COLUMNS_OF_5),
        (PLACEMENT_TABLE, _TABLE_6, _COLUMNS_OF_6),
        ("Table 8", _TABLE_8, _COLUMNS_OF_8),
    ):
        for (scenario, scheme), key in schemes.items():
            for column in columns:
                measures[table, scenario, scheme, column] = _measure(key, column)
    for scheme, key in (("Baseline", BASELINE), ("Lyra", "loan_lyra"), (SJF_ALONE, SJF)):
        for column in _COLUMNS_OF_5[:6]:
            row = (LOANED_JOBS_TABLE, "-" if key == SJF else "loaning only", scheme, column)
            measures[row] = _of_loaned_jobs(key, column)
    return measures | _reductions()


def _reductions() -> dict[RowKey, Measure]:
    """Table 9, and there SJF alone and Lyra with right estimates."""
    measures: dict[RowKey, Measure] = {}
    schemes = {("-", SJF_ALONE): SJF, ("0 % wrong predictions", "Lyra"): "basic"}
    for share in WRONG_SHARES:
        percent = round(100 * share)
        scenario = f"{percent} % wrong predictions (error <= 25 %)"
        schemes[scenario, "Lyra"] = f"basic_wrong{percent}"
    for (scenario, scheme), key in schemes.items():
        measures["Table 9", scenario, scheme, "queue reduction x"] = ratio(queuing(BASELINE), queuing(key))
        measures["Table 9", scenario, scheme, "JCT reduction x"] = ratio(jct(BASELINE), jct(key))
    return measures


def _measure(key: str, column: str) -> Measure:
    if column.startswith("usage"):
        return figure(key, column.removeprefix("usage "))
    if column == "preemption ratio %":
        return figure(key, "preemption_ratio", 100)
    what, statistic, _ = column.split()
    return (queuing if what == "queue" else jct)(key, _PERCENTILES[statistic])


def _of_loaned_jobs(key: str, column: str) -> Measure:
    """Measure the jobs alone that ran on loaned servers under loaning only, whatever the scheme."""
    what, statistic, _ = column.split()
    percent = _PERCENTILES[statistic]

    def measure(outcomes: ByScheme) -> float:
        jobs = outcomes["loan_lyra"].on_loan
        values = (outcomes[key].queuing_s if what == "queue" else outcomes[key].jct_s)[jobs]
        if not len(values):
            return float("nan")
        return float(np.mean(values)) if percent is None else float(np.percentile(values, percent))

    return measure
