"""The source of submissions: virtual clusters, users and their families of similar jobs.

A family is a user's recurring work (`resnet50_lr`), of one GPU count, one job type and one typical run time.
How often each family submits is found by raking: the weights are scaled in turn so that GPU counts have their
published shares and each virtual cluster has its load, and the skew between users is set so that the top 5 %
hold their published share of GPU time. All of this is expectation: it depends on the seed, never on the
number of days.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cluster_logs.synthetic.cluster_profiles import DAY_S, GPUS_PER_NODE, ClusterProfile
from cluster_logs.synthetic.run_times import FloatArray, RunTimes, standard_scores
from cluster_logs.synthetic.workload_zoo import JobType, list_job_types

IntArray = npt.NDArray[np.int64]

# Families a user keeps: at least _FEWEST, and up to that many more.
_FEWEST_FAMILIES, _MORE_FAMILIES = 4, 8
_RAKING_ROUNDS = 60
# Share of nodes with groups that run large jobs, and how much less a group likes sizes of the other kind.
_LARGE_NODES = 0.62
_STRANGE_APPEAL = 0.08
_SLUGS = {
    "ResNet50": "resnet50",
    "MobileNetV3": "mobilenetv3",
    "ResNet18": "resnet18",
    "MobileNetV2": "mobilenetv2",
    "EfficientNet": "effnet",
    "VGG": "vgg11",
    "DCGAN": "dcgan",
    "PointNet": "pointnet",
    "BERT": "bert",
    "LSTM": "lstm",
    "Transformer": "transformer",
    "PPO": "ppo",
    "TD3": "td3",
    "NeuMF": "neumf",
}
_KNOBS = ("lr", "bs", "wd", "aug", "drop", "warmup", "width", "eval", "distill", "ablation", "ft", "fold")
# Models that long or large jobs would rather train (Lucid, Section 4.1).
_HEAVY_MODELS = frozenset({"ResNet50", "BERT", "Transformer", "LSTM", "MobileNetV3"})


@dataclass(frozen=True)
class Population:
    """The families of a cluster; arrays have one entry a family.

    `jobs_per_day` are expectations. `variants` is how many settings a family's sweeps go through.
    """

    profile: ClusterProfile
    user: IntArray
    virtual_cluster: IntArray
    gpus: IntArray
    size_class: IntArray
    score: FloatArray
    jobs_per_day: FloatArray
    stem: tuple[str, ...]
    variants: IntArray
    job_type: tuple[JobType, ...]
    run_times: tuple[RunTimes, ...]
    user_names: tuple[str, ...]
    virtual_cluster_names: tuple[str, ...]


def build_population(profile: ClusterProfile, seed: int) -> Population:
    """Draw users and families and set how often each submits."""
    rng = np.random.default_rng([seed, 0])
    run_times = tuple(RunTimes(size_class) for size_class in profile.classes)
    user_vc = _place_users(profile, rng)
    families = rng.integers(_FEWEST_FAMILIES, _FEWEST_FAMILIES + _MORE_FAMILIES + 1, size=profile.users)
    user = np.repeat(np.arange(profile.users), families)
    vc = user_vc[user]
    shares = _size_shares(profile)
    gpus = _draw_sizes(profile, vc, shares, rng)
    size_class = np.searchsorted(np.array([min(c.gpus) for c in profile.classes]), gpus, side="right") - 1
    raw_score = rng.standard_normal(len(user))
    appetite = -np.log(_rank_in_group(user_vc))
    within = rng.lognormal(0.0, 0.8, size=len(user))

    def rake(skew: float) -> tuple[FloatArray, FloatArray, float]:
        weights = within * np.exp(skew * appetite[user])
        return _rake(profile, weights, user, vc, gpus, size_class, raw_score, run_times)

    low, high = 0.0, 4.0
    for _ in range(12):
        skew = 0.5 * (low + high)
        jobs_per_day, score, top = rake(skew)
        if top < profile.top_user_gpu_time:
            low = skew
        else:
            high = skew
    stem, job_type = _name_families(user, size_class, score, rng)
    return Population(
        profile=profile,
        user=user,
        virtual_cluster=vc,
        gpus=gpus,
        size_class=size_class,
        score=score,
        jobs_per_day=jobs_per_day,
        stem=stem,
        variants=rng.integers(3, 9, size=len(user)),
        job_type=job_type,
        run_times=run_times,
        user_names=tuple(f"user{i + 1:03d}" for i in range(profile.users)),
        virtual_cluster_names=tuple(f"vc{i + 1:02d}" for i in range(len(profile.nodes))),
    )


def largest_job_gpus(nodes: int) -> int:
    """Return the most GPUs that one job asks for in a virtual cluster of this many nodes: half of it."""
    return max(1, nodes * GPUS_PER_NODE // 2)


def _size_shares(profile: ClusterProfile) -> dict[int, float]:
    """Return GPU count -> share of jobs, for the counts that fit the largest virtual cluster."""
    limit = largest_job_gpus(max(profile.nodes))
    shares = {gpus: share for c in profile.classes for gpus, share in c.gpus.items() if gpus <= limit}
    total = sum(shares.values())
    return {gpus: share / total for gpus, share in sorted(shares.items())}


def _place_users(profile: ClusterProfile, rng: np.random.Generator) -> IntArray:
    """Return each user's virtual cluster: at least two users each, the others by the number of nodes."""
    nodes = np.array(profile.nodes, dtype=np.float64)
    sure = np.repeat(np.arange(len(nodes)), 2)
    others = rng.choice(len(nodes), size=profile.users - len(sure), p=nodes / nodes.sum())
    return rng.permutation(np.concatenate([sure, others]))


def _rank_in_group(group: IntArray) -> FloatArray:
    """Return 1, 2, 3, ... within each group, in the order given."""
    rank = np.empty(len(group))
    for index in np.unique(group):
        members = np.flatnonzero(group == index)
        rank[members] = np.arange(1, len(members) + 1)
    return rank


def _draw_sizes(
    profile: ClusterProfile, vc: IntArray, shares: dict[int, float], rng: np.random.Generator
) -> IntArray:
    """Draw a GPU count for each family; rare counts get more families than jobs, raking evens that out."""
    counts = np.array(list(shares))
    appeal = np.sqrt(np.array(list(shares.values())))
    drawn = np.empty(len(vc), dtype=np.int64)
    runs_large = _runs_large(profile)
    for index, nodes in enumerate(profile.nodes):
        here = np.flatnonzero(vc == index)
        fitting = counts <= largest_job_gpus(nodes)
        large = counts >= GPUS_PER_NODE
        strange = ~large & (counts > 1) if runs_large[index] else large
        liking = np.where(strange, _STRANGE_APPEAL, 1.0) * appeal
        chances = liking[fitting] / liking[fitting].sum()
        drawn[here] = rng.choice(counts[fitting], size=len(here), p=chances)
    missing = [int(count) for count in counts if not (drawn == count).any()]
    for count in missing:  # a rare count that no family drew: one of the largest virtual cluster takes it
        drawn[np.flatnonzero(vc == 0)[missing.index(count)]] = count
    return drawn


def _runs_large(profile: ClusterProfile) -> list[bool]:
    """Return which virtual clusters mostly run jobs of whole nodes; the others run jobs of a part of a node.

    Groups differ in what they ask for (Helios, Section 3.1.3, implication 3). The first kind gets the share
    of nodes that large jobs have of GPU time.
    """
    runs_large: list[bool] = []
    large = seen = 0
    for nodes in profile.nodes:
        seen += nodes
        runs_large.append(nodes > 3 and large + nodes <= _LARGE_NODES * seen + nodes / 2)
        large += nodes * runs_large[-1]
    return runs_large


def _rake(
    profile: ClusterProfile,
    weights: FloatArray,
    user: IntArray,
    vc: IntArray,
    gpus: IntArray,
    size_class: IntArray,
    raw_score: FloatArray,
    run_times: tuple[RunTimes, ...],
) -> tuple[FloatArray, FloatArray, float]:
    """Return jobs a day and score of each family, and the top users' share of GPU time."""
    capacity = np.array(profile.nodes, dtype=np.float64) * GPUS_PER_NODE
    load_share = capacity * _relative_loads(profile)
    load_share /= load_share.sum()
    once = 1.0 - profile.recurring
    shares = _size_shares(profile)
    weights = weights / weights.sum()
    for _ in range(_RAKING_ROUNDS):
        score = np.empty_like(weights)
        gpu_s = np.empty_like(weights)
        for index, times in enumerate(run_times):
            members = size_class == index
            # Weighted by GPUs, so that the class's GPU time (not only its mean run time) comes out.
            score[members] = standard_scores(raw_score[members], (weights * gpus)[members])
            mean_s = profile.recurring * times.family_mean(score[members])
            mean_s = mean_s + once * profile.classes[index].mean_s
            gpu_s[members] = weights[members] * gpus[members] * mean_s
        by_vc = np.bincount(vc, weights=gpu_s, minlength=len(capacity))
        weights = weights * (load_share / (by_vc / gpu_s.sum()))[vc]
        for count, share in shares.items():
            weights[gpus == count] *= share / weights[gpus == count].sum()
    jobs_per_day = weights * profile.load * profile.gpus * DAY_S / gpu_s.sum()
    by_user = np.sort(np.bincount(user, weights=gpu_s, minlength=profile.users))[::-1]
    top = by_user[: max(1, round(0.05 * profile.users))].sum() / by_user.sum()
    return jobs_per_day, score, float(top)


def _relative_loads(profile: ClusterProfile) -> FloatArray:
    """Return each virtual cluster's load relative to the cluster's.

    Virtual clusters differ (Helios, Figure 4); here busy and quiet ones alternate. Small ones are kept
    quieter: with few GPUs, a gang at the head of the queue leaves more of them idle.
    """
    nodes = np.array(profile.nodes, dtype=np.float64)
    loads: FloatArray = (1.0 - 0.3 / np.sqrt(nodes)) * (
        1.0 + 0.08 * np.cos(0.8 * np.pi * np.arange(len(nodes)))
    )
    return loads


def _name_families(
    user: IntArray, size_class: IntArray, score: FloatArray, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[JobType, ...]]:
    """Return each family's stem, unique for its user, and its job type."""
    job_types = list_job_types()
    heavy = np.array([job_type.model.name in _HEAVY_MODELS for job_type in job_types])
    taken: set[tuple[int, str]] = set()
    stems: list[str] = []
    drawn_types: list[JobType] = []
    for family, owner in enumerate(user):
        # The larger and the longer, the likelier a heavy model.
        appeal = 1.0 / (1.0 + np.exp(-(0.8 * score[family] + 0.9 * (size_class[family] - 1))))
        chances = np.where(heavy, appeal / heavy.sum(), (1.0 - appeal) / (~heavy).sum())
        while True:
            job_type = job_types[rng.choice(len(job_types), p=chances / chances.sum())]
            stem = f"{_SLUGS[job_type.model.name]}_{_KNOBS[rng.integers(len(_KNOBS))]}"
            if (int(owner), stem) not in taken:
                break
        taken.add((int(owner), stem))
        stems.append(stem)
        drawn_types.append(job_type)
    return tuple(stems), tuple(drawn_types)
