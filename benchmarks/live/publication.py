"""From sacct's rows to a published release in a real MLflow, by the commands that an operator would use."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.live.stream import VirtualCluster
from benchmarks.live.submission import Say

CLUSTER = "bench"
HOLD_OUT_DAYS = 4
# No partition for profiling and none for sharing: the settings say so, and the profiles come from the
# simulated GPU, which a release must be told to accept. `ageing_s` is five hours on the stream's scale, by
# simulation of other worlds: it costs a percent of the mean and takes some off the worst tenth.
SETTINGS = {
    "profiling_nodes": "0",
    "sharing": "none",
    "allow_simulated_profiles": "true",
    "ageing_s": "45",
}
_REFUSED = 2


class PublicationError(RuntimeError):
    """A command failed, or the gate refused; holds what was said."""


@dataclass(frozen=True)
class Publication:
    """What was published, and what the gate and the models' reports said."""

    release: Mapping[str, Any]
    verdict: str
    approved: bool
    jobs: int
    duration_metrics: Mapping[str, Any]
    duration_baselines: Mapping[str, Any]


def publish_from(
    sacct: Path,
    virtual_clusters: Sequence[VirtualCluster],
    folder: Path,
    environment: Mapping[str, str],
    say: Say = lambda _: None,
) -> Publication:
    """Ingest, train, build, validate and publish. Raises PublicationError, also when the gate says no."""
    nodes = folder / "nodes.csv"
    rows = [f"{one.name},{one.nodes}\n" for one in virtual_clusters]
    nodes.write_text("virtual_cluster,nodes\n" + "".join(rows))

    def lucid(*words: str, allowed: Sequence[int] = (0,)) -> dict[str, Any]:
        say(f"lucid {' '.join(words)}")
        return _lucid(words, environment, folder, allowed)

    days = ("--hold-out-days", str(HOLD_OUT_DAYS))
    of_cluster = ("--cluster", CLUSTER)
    ingested = lucid("ingest", "--format", "sacct", "--input", str(sacct), *of_cluster, "--nodes", str(nodes))
    lucid("train", "packing", "--simulated", *of_cluster)
    lucid("train", "throughput", *of_cluster, *days)
    duration = lucid("train", "duration", *of_cluster, *days)
    settings = [word for name, value in SETTINGS.items() for word in ("--setting", f"{name}={value}")]
    lucid("release", "build", *of_cluster, *days, *settings)
    verdict = lucid(
        "release", "validate", *of_cluster, *days, "--job-types", "log", "--out", str(folder / "verdict"),
        allowed=(0, _REFUSED),
    )  # fmt: skip
    if not verdict["approved"]:
        raise PublicationError(f"The gate refused the release: {verdict['sentence']}")
    release = lucid("release", "publish")
    return Publication(
        release={key: release[key] for key in ("name", "version", "models", "training")},
        verdict=verdict["sentence"],
        approved=verdict["approved"],
        jobs=int(ingested["rows_kept"]),
        duration_metrics=duration["metrics"],
        duration_baselines=duration["baselines"],
    )


def _lucid(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, allowed: Sequence[int]
) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, "-m", "lucid_cli.main", *words, "--json"],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    with (folder / "commands.log").open("a") as log:
        log.write(f"$ lucid {' '.join(words)}\n{result.stderr}\n")
    if result.returncode not in allowed:
        raise PublicationError(f"lucid {' '.join(words)} failed:\n{result.stderr[-2_000:]}")
    found: dict[str, Any] = json.loads(result.stdout)
    return found
