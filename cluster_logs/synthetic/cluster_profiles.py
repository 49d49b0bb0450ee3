"""What the published clusters look like, in the figures that the generator aims at.

Sources: Helios (SC '21), Tables 1 and 2, Sections 3.1 to 3.3, Figures 2 to 9; Lucid (ASPLOS '23), Section 2.2
(about 90 % of jobs recur). The figures of Helios describe its four clusters together; `helios-venus` and
`helios-saturn` share them and differ in nodes, virtual clusters and users. Those figures leave the number of
jobs a day no freedom: it follows from the cluster's size, the load and the GPU time of the mean job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from foundation.errors import UnknownNameError

GPUS_PER_NODE = 8
DAY_S = 86_400.0


@dataclass(frozen=True)
class SizeClass:
    """Jobs of about one size: their GPU counts and the distribution of their run times.

    `gpus` maps a GPU count to its share of all jobs. `quantiles` are pairs (standard normal score, seconds):
    the logarithm of the run time is linear between them, so each stretch is a piece of a log-normal. `mean_s`
    is what the mean must be; the stretch above the score `tail_from` is raised or lowered to meet it.
    """

    gpus: Mapping[int, float]
    quantiles: tuple[tuple[float, float], ...]
    mean_s: float
    longest_s: float
    tail_from: float = 0.7

    def __post_init__(self) -> None:
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(self.quantiles)):
            raise ValueError(f"quantiles must rise in score and seconds: {self.quantiles}")


@dataclass(frozen=True)
class ClusterProfile:
    """One cluster to imitate; shares are of all GPU jobs, times are seconds."""

    name: str
    nodes: tuple[int, ...]  # whole nodes of each virtual cluster, largest first
    users: int
    classes: tuple[SizeClass, ...]
    load: float  # GPU time that users would ask for without queues / GPU time there is
    longest_s: float  # run time limit: 50 days in Helios, 60 days in Philly
    top_user_gpu_time: float  # share of GPU time of the 5 % of users who use most
    recurring: float  # share of jobs that belong to a family of similar jobs
    completed: Mapping[int, float]  # smallest GPU count -> share of its jobs that complete
    failed: float  # share of all jobs that fail (Helios: with timeouts and node failures)
    failed_early: float  # how much rarer the longest jobs fail than the shortest, times their mean chance
    hours: tuple[float, ...]  # relative submission rate of each hour of the day
    weekdays: tuple[float, ...]  # relative submission rate, Monday first

    @property
    def gpus(self) -> int:
        """Return the GPUs of the whole cluster."""
        return sum(self.nodes) * GPUS_PER_NODE


def divide_nodes(nodes: int, virtual_clusters: int, skew: float) -> tuple[int, ...]:
    """Divide whole nodes among virtual clusters by a power law of their rank, at least one node each."""
    weights = [(rank + 1.0) ** -skew for rank in range(virtual_clusters)]
    spare = nodes - virtual_clusters
    wanted = [spare * weight / sum(weights) for weight in weights]
    sizes = [1 + int(share) for share in wanted]
    by_remainder = sorted(range(virtual_clusters), key=lambda i: (int(wanted[i]) - wanted[i], i))
    for i in by_remainder[: nodes - sum(sizes)]:
        sizes[i] += 1
    return tuple(sorted(sizes, reverse=True))


# Helios, Figure 2(b): lowest at night, slight drops around noon (lunch) and 18 h (dinner).
_OFFICE_HOURS = (
    0.85, 0.65, 0.50, 0.38, 0.30, 0.25, 0.22, 0.25, 0.45, 0.90, 1.35, 1.45,
    1.10, 1.35, 1.60, 1.70, 1.70, 1.60, 1.20, 1.35, 1.40, 1.35, 1.20, 1.00,
)  # fmt: skip
_WEEK = (1.05, 1.10, 1.15, 1.15, 1.05, 0.75, 0.75)

# Scores of the quantiles 5, 25, 50, 75, 90, 97, 99, 99.9 and 99.99 %.
_SCORES = (-1.645, -0.674, 0.0, 0.674, 1.282, 1.881, 2.326, 3.090, 3.719)


def _quantiles(*seconds: float) -> tuple[tuple[float, float], ...]:
    return tuple(zip(_SCORES, seconds, strict=True))


# Helios: median 206 s, mean 6,652 s, three quarters under 1,000 s (Section 3.2.1); over 50 % of jobs take one
# GPU and hold 3-12 % of GPU time, under 10 % take 8 or more and hold about 60 % (Figure 6).
_HELIOS_CLASSES = (
    SizeClass(
        {1: 0.628},
        _quantiles(8, 47, 143, 540, 2_400, 9_000, 30_000, 250_000, 1_000_000),
        mean_s=2_700.0,
        longest_s=50 * DAY_S,
    ),
    SizeClass(
        {2: 0.10, 3: 0.005, 4: 0.175, 6: 0.005},
        _quantiles(10, 90, 330, 1_900, 18_000, 105_000, 220_000, 520_000, 800_000),
        mean_s=12_400.0,
        longest_s=14 * DAY_S,
    ),
    SizeClass(
        {8: 0.050, 16: 0.020, 32: 0.0105, 64: 0.0065},
        _quantiles(12, 130, 600, 4_800, 30_000, 95_000, 165_000, 330_000, 500_000),
        mean_s=13_200.0,
        longest_s=10 * DAY_S,
    ),
)

# Philly (Helios, Table 2 and Figure 1): 1.75 GPUs and 28,329 s on average, at most 128 GPUs and 60 days; its
# jobs run longer throughout, and about a third end without success.
_PHILLY_CLASSES = (
    SizeClass(
        {1: 0.82},
        _quantiles(30, 130, 700, 5_500, 30_000, 130_000, 350_000, 1_500_000, 3_000_000),
        mean_s=20_500.0,
        longest_s=60 * DAY_S,
    ),
    SizeClass(
        {2: 0.06, 4: 0.06},
        _quantiles(30, 170, 1_500, 16_000, 110_000, 420_000, 900_000, 2_500_000, 4_000_000),
        mean_s=50_000.0,
        longest_s=60 * DAY_S,
    ),
    SizeClass(
        {8: 0.046, 16: 0.011, 32: 0.0025, 128: 0.0005},
        _quantiles(40, 300, 4_000, 50_000, 250_000, 700_000, 1_300_000, 2_500_000, 4_000_000),
        mean_s=88_000.0,
        longest_s=60 * DAY_S,
    ),
)

# `completed`: Helios, Figure 7: 62.4 % complete; the share falls with size, except for 2 GPUs, to under a
# quarter from 64 on.
_VENUS = ClusterProfile(
    name="helios-venus",
    nodes=divide_nodes(133, 15, 0.8),
    users=300,
    classes=_HELIOS_CLASSES,
    load=0.88,
    longest_s=50 * DAY_S,
    top_user_gpu_time=0.52,
    recurring=0.90,
    completed={1: 0.656, 2: 0.70, 3: 0.565, 8: 0.50, 16: 0.43, 32: 0.36, 64: 0.22},
    failed=0.14,
    failed_early=0.9,
    hours=_OFFICE_HOURS,
    weekdays=_WEEK,
)
_SATURN = replace(_VENUS, name="helios-saturn", nodes=divide_nodes(262, 20, 0.8), users=380, load=0.90)
_PHILLY = replace(
    _VENUS,
    name="philly",
    # The sizes that the Helios artifact gives Philly's virtual clusters.
    nodes=(64, 64, 64, 32, 32, 32, 16, 16, 16, 8, 8),
    users=319,
    classes=_PHILLY_CLASSES,
    load=0.75,
    longest_s=60 * DAY_S,
    completed={1: 0.70, 2: 0.68, 8: 0.60, 16: 0.55},
    failed=0.17,
    failed_early=-1.8,  # retried for days: over a third of GPU time went to failed jobs
)
PROFILES: Mapping[str, ClusterProfile] = {profile.name: profile for profile in (_VENUS, _SATURN, _PHILLY)}


def find_profile(name: str) -> ClusterProfile:
    """Return the profile called `name`; raise UnknownNameError when there is none."""
    try:
        return PROFILES[name]
    except KeyError:
        raise UnknownNameError("cluster to imitate", name, PROFILES) from None
