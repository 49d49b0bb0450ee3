"""Figures 8 to 16 from replays: means over windows, bars from the lowest to the highest of them."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.reproduction.lyra.figures import HETEROGENEOUS_BY_SHARE, SCALER_NAMES
from experiments.reproduction.lyra.schemes import (
    BASELINE,
    CHECKPOINT_SHARES,
    ELASTIC_SHARES,
    LOSSES,
    SCALERS,
    SJF,
    elastic_scheme,
)
from experiments.reproduction.lyra.spreads import (
    ByScheme,
    Measure,
    answering_all,
    figure,
    jct,
    queuing,
    ratio,
    spread,
)

Windows = Sequence[ByScheme]
QUEUING, JCT = "mean queuing of FIFO / of the scheme", "mean JCT of FIFO / of the scheme"
_COLOURS = {
    "gandiva": "#7f7f7f",
    "afs": "#1f77b4",
    "pollux": "#9467bd",
    "lyra": "#d62728",
    "exponent": "#e377c2",
    "tuned": "#ff7f0e",
    SJF: "#2ca02c",
}


def scheme_bars(windows: Windows, keys: Mapping[str, str], title: str) -> Figure:
    """Draw reductions of queuing and JCT beside FIFO, a bar a scheme; `keys` are schemes by their labels."""
    drawn, axes = _panels(9, 3.4, 2)
    for panel, of, label in zip(axes, (queuing, jct), (QUEUING, JCT), strict=True):
        _bars(panel, windows, {name: ratio(of(BASELINE), of(key)) for name, key in keys.items()})
        panel.set_ylabel(label)
        panel.axhline(1.0, color="0.4", linewidth=0.8)
    drawn.suptitle(title, fontsize="small")
    return drawn


def imperfect_scaling(windows: Windows) -> Figure:
    """Figure 8: Lyra with linear scaling, and with a loss by each further worker."""
    keys = {"SJF alone": SJF, "Basic": "basic"}
    keys |= {f"Basic, loss {round(100 * loss)} %": f"basic_loss{round(100 * loss)}" for loss in LOSSES}
    return scheme_bars(
        windows, {**keys, "Ideal": "ideal", "Ideal, loss 20 %": "ideal_loss20"}, "Imperfect scaling"
    )


def on_loan_usage(window: ByScheme) -> Figure:
    """Figure 9: usage of on-loan servers by day of one window, lent as inference spares them or on demand."""
    drawn, (panel,) = _panels(7, 3.4, 1)
    for key, name in (
        ("loan_lyra", "loaning only, all that inference spares"),
        ("loan_demand", "loaning only, on demand"),
        ("basic", "Basic, all that inference spares"),
        ("basic_demand", "Basic, on demand"),
    ):
        if key in window:
            by_day = window[key].loaned_usage.reshape(-1, 24)
            lent = np.isfinite(by_day).any(axis=1)
            panel.plot(
                np.flatnonzero(lent) + 1,
                100 * np.nanmean(by_day[lent], axis=1),
                "o-",
                markersize=4,
                label=name,
            )
    panel.axhline(92, color="black", linestyle=":", label="at least, in the paper")
    panel.set_xlabel("day")
    panel.set_ylabel("GPUs of on-loan servers in use (%)")
    panel.set_ylim(0, 100)
    panel.legend(fontsize="x-small")
    return drawn


def reclaiming(windows: Windows) -> Figure:
    """Figure 10: preemptions a submission and collateral damage by rule, without and with scaling."""
    drawn, axes = _panels(9, 3.4, 2)
    keys = {
        "Random": "loan_random",
        "SCF": "loan_scf",
        "Lyra": "loan_lyra",
        "exact": "loan_exact",
        "Random, scaling": "basic_random",
        "SCF, scaling": "basic_scf",
        "Lyra, scaling": "basic",
        "exact, scaling": "basic_exact",
    }
    for panel, name, label in zip(
        axes,
        ("preemption_ratio", "collateral"),
        ("preemptions a submission (%)", "collateral damage (% of the GPUs asked back)"),
        strict=True,
    ):
        _bars(panel, windows, {scheme: figure(key, name, 100) for scheme, key in keys.items()})
        panel.set_ylabel(label)
    return drawn


def shares(
    windows: Windows,
    lines: Mapping[str, Mapping[float, str]],
    label: str,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Draw reductions over a share of the jobs (0 to 1): a line of schemes by share for each name."""
    drawn, axes = _panels(9, 3.6, 2)
    for panel, of, what in zip(axes, (queuing, jct), (QUEUING, JCT), strict=True):
        curves = {
            name: {x: ratio(of(BASELINE), of(key)) for x, key in keys.items()} for name, keys in lines.items()
        }
        sjf = ratio(of(BASELINE), of(SJF))
        beside = [sjf, *(measure for curve in curves.values() for measure in curve.values())]
        compared = answering_all(beside, windows)
        for name, curve in curves.items():
            _line(panel, compared, name, curve, colours)
        alone = spread(sjf, compared)
        if alone is not None:
            panel.axhline(alone.mean, color=_COLOURS[SJF], linestyle="--", label="SJF alone")
        panel.set_xlabel(label)
        panel.set_ylabel(what)
    axes[0].set_yscale("log")
    axes[1].legend(fontsize="x-small")
    return drawn


def heterogeneous(windows: Windows) -> Figure:
    """Figure 11: more jobs that can run on both kinds of servers at once."""
    return shares(windows, {"Lyra, Heterogeneous": HETEROGENEOUS_BY_SHARE}, "heterogeneous jobs (%)")


def checkpoints(windows: Windows) -> Figure:
    """Figure 13: more jobs that keep their progress when they are preempted; loaning only."""
    keys = {
        0.0: "loan_lyra",
        **{share: f"loan_checkpoint{round(100 * share)}" for share in CHECKPOINT_SHARES},
    }
    return shares(windows, {"Lyra, loaning only": keys}, "jobs with checkpoints (%)")


def elastic_shares(windows: Windows) -> Figure:
    """Figures 14 and 15: more elastic jobs, no loans."""
    lines = {
        SCALER_NAMES[scaler]: {share: elastic_scheme(scaler, share).key for share in ELASTIC_SHARES}
        for scaler in SCALERS
    }
    colours = {SCALER_NAMES[scaler]: _COLOURS[scaler] for scaler in SCALERS}
    return shares(windows, lines, "elastic jobs (%)", colours)


def imperfect_shares(windows: Windows) -> Figure:
    """Figure 16: more elastic jobs, with and without a loss by each further worker."""
    lines = {
        name: {share: elastic_scheme("lyra", share, loss).key for share in ELASTIC_SHARES}
        for name, loss in (("Lyra, linear", 0.0), ("Lyra, loss 20 %", 0.2))
    }
    return shares(windows, lines, "elastic jobs (%)")


def resamples(windows: Windows) -> Figure:
    """Figure 12: gains beside FIFO on each resampled trace."""
    drawn, axes = _panels(9, 3.4, 2)
    for panel, of, label in zip(axes, (queuing, jct), (QUEUING, JCT), strict=True):
        for i, (name, key) in enumerate({"SJF alone": SJF, "Basic": "basic", "Ideal": "ideal"}.items()):
            at = [n for n, outcomes in enumerate(windows) if key in outcomes]
            gains = [of(BASELINE)(windows[n]) / of(key)(windows[n]) for n in at]
            panel.bar([n + 0.27 * (i - 1) for n in at], gains, 0.25, label=name)
        panel.axhline(1.0, color="0.4", linewidth=0.8)
        panel.set_xlabel("resampled trace of ten days")
        panel.set_ylabel(label)
    axes[0].set_yscale("log")
    axes[0].legend(fontsize="x-small")
    return drawn


def hourly_usage(window: ByScheme, hours: int = 48) -> Figure:
    """Figure 7: usage of all servers by hour, over two days."""
    drawn, (panel,) = _panels(7, 3.4, 1)
    for key, name in (
        (BASELINE, "Baseline (FIFO)"),
        (SJF, "SJF alone"),
        ("basic", "Basic"),
        ("ideal", "Ideal"),
    ):
        if key in window:
            usage = window[key].usage[:hours]
            panel.plot(np.arange(len(usage)), 100 * usage, label=name)
    panel.set_xlabel("hour of the window")
    panel.set_ylabel("GPUs of both clusters in use (%)")
    panel.set_ylim(0, 100)
    panel.legend(fontsize="x-small")
    return drawn


def _panels(width: float, height: float, columns: int) -> tuple[Figure, list[Axes]]:
    drawn = Figure(figsize=(width, height), layout="constrained")
    axes = [drawn.add_subplot(1, columns, i + 1) for i in range(columns)]
    for panel in axes:
        panel.grid(visible=True, alpha=0.3)
    return drawn, axes


def _bars(panel: Axes, windows: Windows, measures: Mapping[str, Measure]) -> None:
    compared = answering_all(measures.values(), windows)
    measured = {name: spread(measure, compared) for name, measure in measures.items()}
    there = {name: found for name, found in measured.items() if found is not None}
    means = np.array([found.mean for found in there.values()])
    reach = np.array(
        [
            [found.mean - found.low for found in there.values()],
            [found.high - found.mean for found in there.values()],
        ]
    )
    panel.bar(range(len(there)), means, 0.6, yerr=reach if len(there) else None, capsize=3)
    panel.set_xticks(range(len(there)), list(there), rotation=30, ha="right", fontsize="small")


def _line(
    panel: Axes,
    windows: Windows,
    name: str,
    measures: Mapping[float, Measure],
    colours: Mapping[str, str] | None,
) -> None:
    there = [
        (100 * x, found) for x, measure in measures.items() if (found := spread(measure, windows)) is not None
    ]
    if not there:
        return
    at = [x for x, _ in there]
    colour = None if colours is None else colours[name]
    panel.plot(at, [found.mean for _, found in there], "o-", markersize=4, label=name, color=colour)
    panel.fill_between(
        at, [found.low for _, found in there], [found.high for _, found in there], alpha=0.12, color=colour
    )
