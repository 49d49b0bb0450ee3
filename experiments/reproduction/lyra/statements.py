"""What Lyra's paper claims of its scheduler, each as a measure of replays; and our settings."""

from collections.abc import Sequence

from experiments.reproduction.lyra.claims import LyraClaim
from experiments.reproduction.lyra.schemes import BASELINE, SJF
from experiments.reproduction.lyra.spreads import (
    ByScheme,
    Measure,
    figure,
    jct,
    more_pct,
    queuing,
    ratio,
)


def _saved_by_order_pct(outcomes: ByScheme) -> float:
    """The share of the queuing that Basic saves which SJF alone saves."""
    baseline, sjf, basic = (queuing(key)(outcomes) for key in (BASELINE, SJF, "basic"))
    return 100 * (baseline - sjf) / (baseline - basic)


def _best_other_jct(outcomes: ByScheme) -> float:
    return min(jct(key)(outcomes) for key in ("basic", "advanced", "heterogeneous"))


def _preempted(key: str) -> Measure:
    return figure(key, "preemptions")


def _queuing_gain(slower: str, faster: str, percent: float | None = None) -> Measure:
    """How many times shorter queuing is under the second scheme than under the first."""
    return ratio(queuing(slower, percent), queuing(faster, percent))


def _jct_gain(slower: str, faster: str, percent: float | None = None) -> Measure:
    """How many times shorter JCT is under the second scheme than under the first."""
    return ratio(jct(slower, percent), jct(faster, percent))


PUBLISHED_CLAIMS: Sequence[LyraClaim] = (
    LyraClaim(
        "Lyra (Basic) shortens queuing beside FIFO", "Table 5", 1.53, "x", _queuing_gain(BASELINE, "basic")
    ),
    LyraClaim("Lyra (Basic) shortens JCT beside FIFO", "Table 5", 1.48, "x", _jct_gain(BASELINE, "basic")),
    LyraClaim(
        "That gain in queuing is loaning's and scaling's: SJF alone has less than half of it",
        "not asked",
        None,
        "%",
        _saved_by_order_pct,
        50.0,
        "below",
    ),
    LyraClaim(
        "Ten resampled traces, Basic: shorter queuing",
        "Fig 12",
        1.45,
        "x",
        _queuing_gain(BASELINE, "basic"),
        resampled=True,
    ),
    LyraClaim(
        "Ten resampled traces, Basic: shorter JCT",
        "Fig 12",
        1.44,
        "x",
        _jct_gain(BASELINE, "basic"),
        resampled=True,
    ),
    LyraClaim(
        "Ten resampled traces, Ideal: shorter queuing",
        "Fig 12",
        2.47,
        "x",
        _queuing_gain(BASELINE, "ideal"),
        resampled=True,
    ),
    LyraClaim(
        "Ten resampled traces, Ideal: shorter JCT",
        "Fig 12",
        1.78,
        "x",
        _jct_gain(BASELINE, "ideal"),
        resampled=True,
    ),
    LyraClaim("Advanced shortens JCT beyond Basic", "7.2", 1.08, "x", _jct_gain("basic", "advanced")),
    LyraClaim("Advanced shortens queuing beyond Basic", "7.2", 1.10, "x", _queuing_gain("basic", "advanced")),
    LyraClaim(
        "Heterogeneous training alone shortens JCT", "7.2", 1.37, "x", _jct_gain(BASELINE, "heterogeneous")
    ),
    LyraClaim(
        "Ideal has the shortest JCT of all scenarios",
        "Table 5",
        1.17,
        "x",
        ratio(_best_other_jct, jct("ideal")),
    ),
    LyraClaim(
        "Lyra makes training servers busier",
        "Table 5",
        0.86 / 0.72,
        "x",
        ratio(figure("basic", "training"), figure(BASELINE, "training")),
    ),
    LyraClaim(
        "Lyra makes all servers together busier",
        "Table 5",
        1.25,
        "x",
        ratio(figure("basic", "overall"), figure(BASELINE, "overall")),
    ),
    LyraClaim(
        "Scaling alone shortens JCT more than loaning alone",
        "7.3",
        12947 / 12048,
        "x",
        _jct_gain("loan_lyra", "scale_lyra"),
    ),
    LyraClaim("Loaning alone shortens queuing", "7.3", 1.39, "x", _queuing_gain(BASELINE, "loan_lyra")),
    LyraClaim("Loaning alone shortens JCT", "7.3", 1.31, "x", _jct_gain(BASELINE, "loan_lyra")),
    LyraClaim(
        "Loaning has a shorter JCT than opportunistic scheduling",
        "7.3",
        1.145,
        "x",
        _jct_gain("loan_opportunistic", "loan_lyra"),
    ),
    LyraClaim(
        "Loaning has a shorter queue than opportunistic scheduling",
        "7.3",
        1.26,
        "x",
        _queuing_gain("loan_opportunistic", "loan_lyra"),
    ),
    LyraClaim(
        "Reclaiming preempts fewer jobs than Random",
        "Fig 10",
        1.36,
        "x",
        ratio(_preempted("loan_random"), _preempted("loan_lyra")),
    ),
    LyraClaim(
        "Reclaiming preempts fewer jobs than SCF",
        "Fig 10",
        1.51,
        "x",
        ratio(_preempted("loan_scf"), _preempted("loan_lyra")),
    ),
    LyraClaim(
        "Reclaiming shortens queuing beside Random",
        "7.3",
        1.31,
        "x",
        _queuing_gain("loan_random", "loan_lyra"),
    ),
    LyraClaim(
        "Reclaiming shortens queuing beside SCF", "7.3", 1.26, "x", _queuing_gain("loan_scf", "loan_lyra")
    ),
    LyraClaim(
        "On-loan servers are above 92 % busy, lent as inference spares them",
        "Fig 9",
        None,
        "%",
        figure("loan_lyra", "on_loan", 100),
        92.0,
    ),
    LyraClaim(
        "On-loan servers are above 92 % busy, lent on demand only",
        "Fig 9",
        None,
        "%",
        figure("loan_demand", "on_loan", 100),
        92.0,
    ),
    LyraClaim(
        "Servers with flexible workers alone satisfy most of what is reclaimed, Basic",
        "7.2",
        53.5,
        "%",
        figure("basic", "flexible_share", 100),
        50.0,
    ),
    LyraClaim(
        "They satisfy more of it in Ideal than in Basic",
        "7.2",
        83.5 / 53.5,
        "x",
        ratio(figure("ideal", "flexible_share"), figure("basic", "flexible_share")),
    ),
    LyraClaim(
        "Special placement preempts fewer jobs, Basic",
        "Table 6",
        13.22 / 12.24,
        "x",
        ratio(_preempted("basic_plain"), _preempted("basic")),
    ),
    LyraClaim(
        "Special placement preempts fewer jobs, Ideal",
        "Table 6",
        1.91,
        "x",
        ratio(_preempted("ideal_plain"), _preempted("ideal")),
    ),
    LyraClaim(
        "Special placement shortens JCT, Basic",
        "Table 6",
        13872 / 11236,
        "x",
        _jct_gain("basic_plain", "basic"),
    ),
    LyraClaim(
        "Special placement shortens JCT, Ideal",
        "Table 6",
        9982 / 8891,
        "x",
        _jct_gain("ideal_plain", "ideal"),
    ),
    LyraClaim(
        "Checkpoints of 80 % of the jobs shorten JCT",
        "Fig 13",
        1.24,
        "x",
        _jct_gain("loan_lyra", "loan_checkpoint80"),
    ),
    LyraClaim(
        "Lyra's scaling has a shorter JCT than Gandiva's",
        "Table 5",
        15912 / 12048,
        "x",
        _jct_gain("scale_gandiva", "scale_lyra"),
    ),
    LyraClaim(
        "Lyra's scaling has a shorter JCT than AFS",
        "Table 5",
        15045 / 12048,
        "x",
        _jct_gain("scale_afs", "scale_lyra"),
    ),
    LyraClaim(
        "Likewise with all jobs elastic", "Fig 15", None, "x", _jct_gain("elastic100_afs", "elastic100_lyra")
    ),
    LyraClaim(
        "Lyra's scaling has a shorter JCT than Pollux",
        "Table 5",
        14534 / 12048,
        "x",
        _jct_gain("scale_pollux", "scale_lyra"),
    ),
    LyraClaim(
        "Lyra's scaling has a shorter P95 of queuing than Pollux",
        "7.4",
        1.69,
        "x",
        _queuing_gain("scale_pollux", "scale_lyra", 95),
    ),
    LyraClaim(
        "With the same speed-ups as Pollux, Lyra's P95 of JCT is shorter",
        "7.4",
        1.37,
        "x",
        _jct_gain("scale_pollux", "scale_tuned", 95),
    ),
    LyraClaim(
        "Jobs that are tuned for their workers shorten JCT",
        "7.4",
        12048 / 10229,
        "x",
        _jct_gain("scale_lyra", "scale_tuned"),
    ),
    LyraClaim(
        "Pollux scales more often than Lyra with the same speed-ups, all jobs elastic",
        "7.4",
        1.76,
        "x",
        ratio(figure("elastic100_pollux", "scalings"), figure("elastic100_tuned", "scalings")),
    ),
    LyraClaim(
        "60 % wrong estimates leave queuing shorter than FIFO's",
        "Table 9",
        1.76,
        "x",
        _queuing_gain(BASELINE, "basic_wrong60"),
    ),
    LyraClaim(
        "60 % wrong estimates lengthen JCT by less than 10 %",
        "Table 9",
        100 * (1.48 / 1.38 - 1),
        "%",
        more_pct(jct("basic_wrong60"), jct("basic")),
        10.0,
        "below",
    ),
    LyraClaim(
        "A loss of 20 % a worker lengthens JCT by less than 10 %, Basic",
        "Fig 8",
        5.82,
        "%",
        more_pct(jct("basic_loss20"), jct("basic")),
        10.0,
        "below",
    ),
)
# What is better than the paper's rules: settings of ours.
OUR_CLAIMS: Sequence[LyraClaim] = (
    LyraClaim(
        "Value exponent 1.5 (scaling only): a shorter JCT than the paper's value",
        "ours",
        None,
        "x",
        _jct_gain("scale_lyra", "scale_exponent"),
    ),
    LyraClaim(
        "Value exponent 1.5 (scaling only): a JCT no longer than AFS'",
        "ours",
        None,
        "x",
        _jct_gain("scale_afs", "scale_exponent"),
    ),
    LyraClaim(
        "Likewise with all jobs elastic",
        "ours",
        None,
        "x",
        _jct_gain("elastic100_afs", "elastic100_exponent"),
    ),
    LyraClaim(
        "Value exponent 1.5 (Basic): a shorter JCT than the paper's value",
        "ours",
        None,
        "x",
        _jct_gain("basic", "basic_exponent"),
    ),
    LyraClaim(
        "Exact reclaiming preempts fewer jobs than the paper's rule, loaning only",
        "ours",
        None,
        "x",
        ratio(_preempted("loan_lyra"), _preempted("loan_exact")),
    ),
)
