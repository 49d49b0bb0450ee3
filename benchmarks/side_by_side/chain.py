"""From a log to a verdict, command after command, in each tree: training, the gate, the tuner."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.side_by_side.figures import Figure
from benchmarks.side_by_side.trees import Tree

CLUSTER = ("--cluster", "bench")
DAYS = "40"


def chain_figures(
    trees: Sequence[Tree], folders: Mapping[str, Path], data: Path, only: Sequence[str]
) -> Iterator[tuple[str, list[Figure]]]:
    """Yield each measured command with its figures; what comes before it is run, too."""
    packing = data / "data" / "packing"
    pairs = ("--pairs", packing / "colocated_pairs_rtx3090.csv")
    commands: tuple[tuple[str | None, tuple[str | Path, ...]], ...] = (
        (None, ("synthesize", "--like", "philly", "--days", DAYS, *CLUSTER)),
        (None, ("train", "packing", "--singles", packing / "single_jobs_rtx3090.csv", *pairs, *CLUSTER)),
        ("`lucid train throughput`", ("train", "throughput", *CLUSTER)),
        ("`lucid train duration`", ("train", "duration", *CLUSTER)),
        (None, ("release", "build", *CLUSTER)),
        ("`lucid release validate` (the gate)", ("release", "validate", *CLUSTER, "--out", "verdict")),
        ("`lucid tune`, 8 trials", ("tune", *CLUSTER, "--trials", "8", "--workers", "1", "--out", "tuned")),
    )
    for what, words in commands:
        if only and not any(word in (what or word) for word in only):
            continue
        figures = []
        for tree in trees:
            folder = folders[tree.name]
            settings = {
                "LUCID_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
                "LUCID_LAKE_URI": str(folder / "lake"),
                "LUCID_TRUST": "unsigned",
            }
            done = tree.lucid(*words, folder=folder, settings=settings)
            figures.append(Figure(tree.name, done.cpu_s, done.peak_mib))
        if what is not None:
            yield f"{what}, {DAYS} days of a synthetic cluster", figures
