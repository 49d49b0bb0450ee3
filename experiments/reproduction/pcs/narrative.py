"""What the page of PCS' evaluation says in words, from the figures of the run."""

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.reproduction.pcs import published
from experiments.reproduction.pcs.fronts import BALANCED_RATIO, PREDICTABLE_RATIO, Search
from experiments.reproduction.pcs.replays import PcsTrace
from foundation.markdown import number


def opening(compared: pd.DataFrame, searches: Mapping[str, Search]) -> list[str]:
    """Say what it all amounts to."""
    lines = []
    for trace, rows in compared.groupby("trace", sort=False):
        told = {row["policy"]: row for row in rows.to_dict("records")}
        afs, jct, pred = told["afs"], told["pcs-jct"], told["pcs-pred"]
        lines.append(
            f"- {trace}: for {number(jct['jct'])} times the mean completion time of AFS-L, PCS-JCT has a "
            f"mean prediction error of {number(jct['error_pct'])} % instead of {number(afs['error_pct'])} % "
            f"and a P99 of {number(jct['p99_error_pct'])} % instead of {number(afs['p99_error_pct'])} %. "
            f"PCS-pred: {number(pred['jct'])} times, {number(pred['error_pct'])} % and "
            f"{number(pred['p99_error_pct'])} %."
        )
    lines += [
        f"- The front of {name}, {search.front.evaluations:,} configurations, took "
        f"{number((search.cpu_s or 0.0) / 60, 1)} CPU minutes."
        for name, search in searches.items()
        if search.cpu_s is not None
    ]
    return [_ABOUT, "\n".join(lines), _MEASURES]


def _text(written: str) -> str:
    return " ".join(written.split())


_ABOUT = _text("""
    *PCS* (OSDI '24) tells each job at its submission when it will have ended, and schedules so that
    this holds: size classes share the GPUs by weighted fair queuing, first come first served within
    each. Schedulers that minimise completion times cannot promise any: a later job may go
    first. This page sets both against each other, with the figures that the paper published beside
    ours.
""")
_MEASURES = _text("""
    `Pred_err` is the distance of a job's true completion time from the foretold one, in per cent of
    the foretold; *unfairness* is the time by which it exceeds that on an equal share of the pool,
    as a share of the latter ([concepts](concepts.md)).
""")
FIGURE_3 = _text("""
    Fresh samples of the trace, which chose nothing; means over them. Other policies stand on the
    same samples; Themis is left out. The paper prints curves only.
""")
FIGURE_5 = _text("""
    The paper's Figure 5 is a testbed of 16 GPUs with another workload, on which PCS-JCT is within
    1.1 times of AFS-L at the 90th percentile of JCT and within 20 % of error on average and at the
    90th percentile, where AFS-L and Tiresias have 40 % and more.
""")
UNFAIRNESS = _text("""
    0.5: half as long again as on an equal share of the pool. The paper shows unfairness on its
    testbed only.
""")


def figure_9(drawn: int, jobs: int, seeds: int) -> str:
    """Say how costs were measured."""
    return _text(f"""
        (a) The load is the trace's on every pool. (b) Fresh samples included. (c) Both
        spaces are searched at random, each with {drawn} configurations on the same samples of
        {jobs:,} jobs, {seeds} seeds: *four numbers* are T, W, zeta and delta; *outright* draws the
        number of classes, thresholds, weights and both efficiencies. 1 would be a front that
        reaches the best of both objectives at once.
    """)


def parameterisation(four_numbers: float, outright: float) -> str:
    """Say what four numbers are worth to a search, against the paper's claim."""
    verdict = "is borne out" if four_numbers > outright else "is not borne out"
    return (
        f"The paper's claim that searching four numbers finds better fronts for the same budget {verdict} "
        f"here for random search: {number(four_numbers, 3)} against {number(outright, 3)}. What four numbers "
        "do buy is a space of fixed size, which an optimiser can learn."
    )


_REMARKS = (
    """The pool is that of the authors' simulator: fractions of GPUs, no nodes, and neither restarts nor
preemptions cost time. Our cluster rules (`--rules default`) place whole GPUs on nodes and charge for
restarts.""",
    """Job sizes are known exactly, to the policies and to the predictions. On a cluster they are estimates;
`lucid live when` states its own error.""",
    """Where the paper and its artifact differ, the artifact holds: the step by which caps are relaxed (delta)
is a fourth parameter of a configuration; weights may favour large jobs; what a class does not use goes to
other classes before caps are relaxed; Themis and fair times take speed-up to be linear.""",
    """Themis predicts as the artifact does, by a fault of it (`--rules pcs-artifact-without:all` has none):
as if what is left of each job were all of it, and as if no lease ended before the first job.""",
    """Tiresias stands for shortest remaining service first with known sizes (our `srsf`), as in the paper's
simulations. Our policy `tiresias`, which knows no sizes and leaves a running job its GPUs, is another.""",
)


def remarks(traces: Sequence[PcsTrace], foretold_max: int) -> list[str]:
    """Say what a reader must know before comparing."""
    said = [_text(text) for text in _REMARKS]
    configured = [trace.name for trace in traces if trace.like == published.CONFIGURED_FOR]
    others = [trace.name for trace in traces if trace.like != published.CONFIGURED_FOR]
    if configured:
        said.append(
            f"On {', '.join(configured)} PCS-JCT and PCS-bal are the paper's own configurations, so that "
            "their figures can be compared digit by digit. PCS-pred's is not published: it is ours."
        )
    if others:
        said.append(
            f"On {', '.join(others)} the paper's configurations are not known. Ours are points of our own "
            "fronts, chosen by figures on fresh samples: PCS-JCT has the shortest mean completion time, "
            f"PCS-bal and PCS-pred the least error within {BALANCED_RATIO:g} and {PREDICTABLE_RATIO:g} times "
            "of it. Where they differ from the paper's columns, it is another point that was chosen."
        )
    thinned = [trace.name for trace in traces if len(trace.workload) > foretold_max]
    if thinned:
        said.append(
            f"On {', '.join(thinned)} Themis' predictions are those of every n-th job, at most "
            f"{foretold_max:,}; all other policies predict every job."
        )
    return said
