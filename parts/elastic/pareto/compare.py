"""Two fronts on the same fresh samples: which points each covers."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log
from pathlib import Path
from typing import Any

from foundation import strict_json
from foundation.errors import BadInputError
from foundation.outside_names import read_regular
from foundation.progress import Progress, Work, silent
from foundation.worker_processes import over_processes
from parts.elastic.allocation import Pool
from parts.elastic.pareto.objectives import covers, front_positions, hypervolume
from parts.elastic.pareto.presented import Front
from parts.elastic.pareto.samples import evaluate
from parts.elastic.pareto.search import on_scale
from parts.elastic.pareto.study import ParetoSearch, collected_of, sample_of
from parts.elastic.rules.wfq import WfqConfig

BEYOND = 1.1  # the hypervolume's reference point lies so far beyond the worst of both fronts


@dataclass(frozen=True)
class FrontComparison:
    """What two fronts did on samples that chose neither.

    `theirs` has a row for each point of the other front: its figures, `covered` (one of ours is nowhere
    worse), and `gap_pct` (the least by which all figures of one of ours would have to fall to cover it; below
    0: by how much ours could be worse and still would). Hypervolumes are on logarithms of the objectives.
    """

    ours: tuple[Mapping[str, Any], ...]
    theirs: tuple[Mapping[str, Any], ...]
    samples: int
    our_hypervolume: float
    their_hypervolume: float

    @property
    def covered(self) -> int:
        """Points of the other front that ours covers."""
        return sum(bool(row["covered"]) for row in self.theirs)

    def to_data(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {
            "samples": self.samples,
            "points": len(self.theirs),
            "covered": self.covered,
            "hypervolume_ratio": self.our_hypervolume / self.their_hypervolume,
            "our_hypervolume": self.our_hypervolume,
            "their_hypervolume": self.their_hypervolume,
            "theirs": [dict(row) for row in self.theirs],
            "ours": [dict(row) for row in self.ours],
        }


def read_configurations(path: Path) -> dict[str, WfqConfig]:
    """Read a front by id: one of ours (front.json), or the artifact's CSV.

    The CSV has columns idx, thresholds, rates, zeta and delta, separated by semicolons. Raises BadInputError.
    """
    try:
        if path.suffix == ".json":
            front = Front.from_data(strict_json.loads(read_regular(path)))
            return {point.front_id: point.config for point in front.points}
        lines = read_regular(path).decode("utf-8").splitlines()
        return {row["idx"]: _published(row) for row in csv.DictReader(lines, delimiter=";")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInputError(
            f"{path} is no front: {type(error).__name__} {error}.",
            remedy="Give a front.json, or a CSV with idx;thresholds;rates;zeta;delta.",
        ) from error


def _published(row: Mapping[str, str]) -> WfqConfig:
    bounds = tuple(map(float, row["thresholds"].strip("[] ").split(",")))
    rates = tuple(float(Fraction(rate.strip(" '\""))) for rate in row["rates"].strip("[] ").split(","))
    return WfqConfig(bounds, rates, float(row["zeta"]), float(row["delta"]))


def compare_fronts(
    study: ParetoSearch,
    ours: Mapping[str, WfqConfig],
    theirs: Mapping[str, WfqConfig],
    *,
    samples: int = 6,
    workers: int = 1,
    progress: Progress = silent,
) -> FrontComparison:
    """Simulate both fronts on fresh samples of the study's workload, with the study's pool and preference."""
    names = [f"comparison-{number}" for number in range(samples)]
    configs = list(dict.fromkeys([*ours.values(), *theirs.values()]))
    objectives = over_processes(
        _objectives,
        study.uri,
        [(config, name) for config in configs for name in names],
        workers=workers,
        what=Work("both fronts on fresh samples", "simulations"),
        progress=progress,
    )
    points = {
        config: tuple(
            sum(objectives[config, name][k] for name in names) / samples for k in range(len(study.objectives))
        )
        for config in configs
    }
    return judge(study, ours, theirs, points, samples)


def judge(
    study: ParetoSearch,
    ours: Mapping[str, WfqConfig],
    theirs: Mapping[str, WfqConfig],
    points: Mapping[WfqConfig, Sequence[float]],
    samples: int,
) -> FrontComparison:
    """Compare fronts by the objectives of their points."""
    our_points = [points[config] for config in ours.values()]
    their_points = [points[config] for config in theirs.values()]
    scaled = {config: on_scale(study.objectives, values) for config, values in points.items()}
    corner = [
        max(values[k] for values in scaled.values()) + log(BEYOND) for k in range(len(study.objectives))
    ]
    own_front = set(front_positions(their_points))
    names = [str(objective) for objective in study.objectives]
    scaled_ours = [scaled[config] for config in ours.values()]
    theirs_rows = []
    for i, (name, config) in enumerate(theirs.items()):
        gaps = [max(a - b for a, b in zip(mine, scaled[config], strict=True)) for mine in scaled_ours]
        nearest = min(range(len(gaps)), key=gaps.__getitem__)
        theirs_rows.append(
            {
                "id": name,
                **dict(zip(names, points[config], strict=True)),
                "on_own_front": i in own_front,
                "covered": covers(our_points, points[config]),
                "by": list(ours)[nearest],
                "gap_pct": 100 * gaps[nearest],
            }
        )
    ours_rows = [
        {
            "id": name,
            **dict(zip(names, points[config], strict=True)),
            "covered": covers(their_points, points[config]),
        }
        for name, config in ours.items()
    ]
    return FrontComparison(
        tuple(ours_rows),
        tuple(theirs_rows),
        samples,
        hypervolume(scaled_ours, corner),
        hypervolume([scaled[config] for config in theirs.values()], corner),
    )


def _objectives(study_uri: str, simulation: tuple[WfqConfig, str]) -> list[float]:
    study, collected = ParetoSearch.load(study_uri), collected_of(study_uri)
    config, sample = simulation
    pool = Pool(collected.gpus, whole=collected.whole)
    measures = evaluate(config, sample_of(study_uri, sample), pool, study.objectives)
    return [measures[str(objective)] for objective in study.objectives]
