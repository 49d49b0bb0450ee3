"""The schemes that are compared: Lyra's, its rivals', and Lyra with one thing changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.reproduction.lyra.windows import LyraWindow
from parts.lending.replay.jobs_in_workers import JobMix

Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class JobVariant:
    """What is made of a window's jobs; `tuned`: elastic jobs have measured speed-ups, not linear ones."""

    mix: JobMix = field(default_factory=JobMix)
    tuned: bool = False


PLAIN = JobVariant()


@dataclass(frozen=True)
class Scheme:
    """A policy with settings, on a variant of the jobs. `key` names it in results."""

    key: str
    policy: str
    settings: Settings = ()
    jobs: JobVariant = field(default_factory=JobVariant)


def _lyra(key: str, jobs: JobVariant = PLAIN, **settings: Any) -> Scheme:
    """Lyra as its paper has it (reclaiming by server fractions), with some settings changed."""
    asked = {"reclaim": "reference", **settings}
    return Scheme(key, "lyra", tuple(sorted(asked.items())), jobs)


def _share(share: float) -> str:
    return f"{round(100 * share)}"


_OFF: Mapping[str, Any] = {"scaling": False}
_NO_LOANS: Mapping[str, Any] = {"loaning": False}
ELASTIC_SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
HETEROGENEOUS_SHARES = (0.2, 0.5, 0.9)
CHECKPOINT_SHARES = (0.2, 0.5, 0.8, 1.0)
WRONG_SHARES = (0.2, 0.4, 0.6)
LOSSES = (0.1, 0.2)
HEADROOMS = (0.0, 0.05, 0.1)
SCALERS = ("gandiva", "afs", "pollux", "lyra", "exponent", "tuned")
VALUE_EXPONENT = 1.5

BASELINE, SJF = "baseline", "sjf"
# What the tables compare: replayed on every window.
COMPARED: tuple[Scheme, ...] = (
    Scheme(BASELINE, "fifo"),
    Scheme(SJF, "sjf"),
    Scheme("loan_opportunistic", "opportunistic"),
    _lyra("loan_random", **_OFF, reclaim="random"),
    _lyra("loan_scf", **_OFF, reclaim="scf"),
    _lyra("loan_lyra", **_OFF),
    _lyra("loan_exact", **_OFF, reclaim="exact"),
    _lyra("loan_fifo", **_OFF, order="submission"),
    Scheme("scale_gandiva", "gandiva"),
    Scheme("scale_afs", "afs"),
    Scheme("scale_pollux", "pollux", jobs=JobVariant(tuned=True)),
    _lyra("scale_lyra", **_NO_LOANS),
    _lyra("scale_exponent", **_NO_LOANS, value_exponent=VALUE_EXPONENT),
    _lyra("scale_tuned", JobVariant(tuned=True), **_NO_LOANS),
    _lyra("basic"),
    _lyra("advanced", JobVariant(JobMix("advanced"))),
    _lyra("heterogeneous", JobVariant(JobMix("heterogeneous"))),
    _lyra("ideal", JobVariant(JobMix("ideal"))),
    _lyra("basic_plain", special_placement=False),
    _lyra("advanced_plain", JobVariant(JobMix("advanced")), special_placement=False),
    _lyra("ideal_plain", JobVariant(JobMix("ideal")), special_placement=False),
    _lyra("loan_demand", **_OFF, lend="demand"),
    _lyra("basic_demand", lend="demand"),
)
# What is varied one thing at a time.
VARIED: tuple[Scheme, ...] = (
    *(
        _lyra(f"loan_checkpoint{_share(s)}", JobVariant(JobMix(checkpoint_share=s)), **_OFF)
        for s in CHECKPOINT_SHARES
    ),
    *(
        _lyra(f"basic_wrong{_share(s)}", JobVariant(JobMix(estimate_error_share=s)), sizes="estimated")
        for s in WRONG_SHARES
    ),
    *(_lyra(f"basic_loss{_share(s)}", JobVariant(JobMix(loss=s))) for s in LOSSES),
    _lyra("ideal_loss20", JobVariant(JobMix("ideal", loss=0.2))),
    *(
        _lyra(f"heterogeneous{_share(s)}", JobVariant(JobMix("heterogeneous", heterogeneous_share=s)))
        for s in HETEROGENEOUS_SHARES
    ),
    *(_lyra(f"basic_headroom{_share(s)}", headroom=s) for s in HEADROOMS),
    _lyra("basic_random", reclaim="random"),
    _lyra("basic_scf", reclaim="scf"),
    _lyra("basic_exact", reclaim="exact"),
    _lyra("basic_exponent", value_exponent=VALUE_EXPONENT),
)


def elastic_scheme(scaler: str, share: float, loss: float = 0.0) -> Scheme:
    """Return a scheme without loans where so many of all jobs are elastic (Figures 14 to 16)."""
    tuned = scaler in ("pollux", "tuned")
    jobs = JobVariant(JobMix(elastic_share=share, loss=loss), tuned)
    key = f"elastic{_share(share)}_{scaler}" + (f"_loss{_share(loss)}" if loss else "")
    if scaler in ("gandiva", "afs", "pollux"):
        return Scheme(key, scaler, jobs=jobs)
    exponent: Mapping[str, Any] = {"value_exponent": VALUE_EXPONENT} if scaler == "exponent" else {}
    return _lyra(key, jobs, **_NO_LOANS, **exponent)


# Pollux' searches take long where all jobs are elastic: it has three shares, and the ends among them.
ELASTIC: tuple[Scheme, ...] = tuple(
    elastic_scheme(scaler, share)
    for scaler in SCALERS
    for share in (ELASTIC_SHARES[::2] if scaler == "pollux" else ELASTIC_SHARES)
)
IMPERFECT: tuple[Scheme, ...] = tuple(elastic_scheme("lyra", share, 0.2) for share in ELASTIC_SHARES)
RESAMPLED = tuple(scheme for scheme in COMPARED if scheme.key in (BASELINE, SJF, "basic", "ideal"))
BUSY = tuple(
    scheme
    for scheme in COMPARED
    if scheme.key
    in (
        BASELINE,
        SJF,
        "loan_lyra",
        "loan_random",
        "scale_afs",
        "scale_lyra",
        "scale_exponent",
        "basic",
        "ideal",
    )
)
BY_KEY: Mapping[str, Scheme] = {scheme.key: scheme for scheme in (*COMPARED, *VARIED, *ELASTIC, *IMPERFECT)}

FORTNIGHT = LyraWindow("4-17 Oct", 80, 94)
# Servers in other fortnights so that jobs ask for as much of them as of those of the first.
WINDOWS = (
    FORTNIGHT,
    LyraWindow("4-17 Oct, second draw", 80, 94, seed=1),
    LyraWindow("1-14 Nov", 65, 76, begins="2017-11-01", seed=2),
    LyraWindow("15-28 Nov", 43, 51, begins="2017-11-15", seed=3),
)
BUSY_FORTNIGHT = LyraWindow("4-17 Oct, busy", 72, 85)
RESAMPLES = tuple(LyraWindow(f"ten days, resample {i}", 80, 94, days=10, days_seed=i) for i in range(10))
