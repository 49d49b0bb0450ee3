"""The front that an operator sees: judged on fresh samples, each point with an id to pick it by.

A search that compares hundreds of configurations on a few samples finds, besides good ones, those that these
samples flatter. So the found front, with what comes close to it, is simulated on fresh samples, what is not
on the front there is left out, and the figures shown are those of the fresh samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foundation.errors import NotFoundError, UnknownNameError
from foundation.markdown import markdown_table
from foundation.replaced_files import replace_file
from foundation.storage import read_bytes
from lucid_models.amounts import amount
from parts.elastic.configurations import configuration_from_json, configuration_to_json
from parts.elastic.pareto.objectives import UNITS, Objective, front_positions
from parts.elastic.pareto.size_classes import WfqParameters
from parts.elastic.pareto.study import (
    ParetoSearch,
    TriedConfiguration,
    candidates_of,
    held_out_samples,
    search_samples,
    within_1pct,
)
from parts.elastic.rules.wfq import WfqConfig
from pipeline.studies.store import read_json, write_json

FORMAT_VERSION = 1
FRONT_FILE = "front.json"


@dataclass(frozen=True)
class FrontPoint:
    """A configuration on the front. `figures` holds all measures by name (`JCT:avg`), means over samples.

    `front_id` is `c1`, `c2`, ... by the first objective; `spread` the standard deviation of the objectives
    over the fresh samples; `search_figures` what the objectives were on the samples that chose.
    """

    front_id: str
    identity: str
    config: WfqConfig
    parameters: WfqParameters
    figures: Mapping[str, float]
    spread: Mapping[str, float]
    search_figures: Mapping[str, float]

    def to_data(self) -> dict[str, Any]:
        """Return the point as JSON."""
        return {
            "front_id": self.front_id,
            "identity": self.identity,
            "configuration": configuration_to_json(self.config),
            "parameters": self.parameters.to_data(),
            "figures": dict(self.figures),
            "spread": dict(self.spread),
            "search_figures": dict(self.search_figures),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "FrontPoint":
        """Read what `to_data` returned."""
        return cls(
            data["front_id"],
            data["identity"],
            configuration_from_json(data["configuration"]),
            WfqParameters.from_data(data["parameters"]),
            data["figures"],
            data["spread"],
            data["search_figures"],
        )


@dataclass(frozen=True)
class Front:
    """The points by the first objective, ascending, and what was searched for and how."""

    points: tuple[FrontPoint, ...]
    preference: tuple[str, ...]
    name: str
    study: str
    gpus: int
    whole_gpus: bool
    evaluations: int  # different configurations that were tried
    simulations: int
    jobs_per_sample: int

    def point(self, front_id: str) -> FrontPoint:
        """Return a point; raises UnknownNameError for an id that the front does not have."""
        for point in self.points:
            if point.front_id == front_id:
                return point
        raise UnknownNameError("point of the front", front_id, [point.front_id for point in self.points])

    def to_data(self) -> dict[str, Any]:
        """Return the front as JSON."""
        return {
            "format_version": FORMAT_VERSION,
            **{name: value for name, value in vars(self).items() if name not in ("points", "preference")},
            "preference": list(self.preference),
            "points": [point.to_data() for point in self.points],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Front":
        """Read what `to_data` returned."""
        fields = {name: value for name, value in data.items() if name != "format_version"}
        points = tuple(FrontPoint.from_data(point) for point in fields.pop("points"))
        return cls(points=points, preference=tuple(fields.pop("preference")), **fields)


def present(study: ParetoSearch) -> Front:
    """Judge the found front by the fresh samples, store it as front.json, and return it.

    Raises NotFoundError while the search is not done.
    """
    candidates = candidates_of(study)
    fresh = held_out_samples(study)
    near = [candidate for candidate in within_1pct(study, candidates) if candidate.knows(fresh)]
    if not near:
        raise NotFoundError(
            f"The search at {study.uri} has no front yet.", remedy="Run it to its end: `lucid pareto search`."
        )
    on_front = [near[i] for i in front_positions([candidate.values(study, fresh) for candidate in near])]
    front = Front(
        points=tuple(_point(study, candidate, f"c{i}") for i, candidate in enumerate(on_front, start=1)),
        preference=tuple(map(str, study.objectives)),
        name=study.name,
        study=study.sha256,
        gpus=study.gpus,
        whole_gpus=study.whole_gpus,
        evaluations=len(candidates),
        simulations=sum(len(candidate.measures) for candidate in candidates),
        jobs_per_sample=study.sampling.jobs,
    )
    write_json(f"{study.uri}/{FRONT_FILE}", front.to_data())
    return front


def _point(study: ParetoSearch, candidate: TriedConfiguration, front_id: str) -> FrontPoint:
    fresh = held_out_samples(study)
    names = candidate.measures[fresh[0]]
    figures = {name: _mean([candidate.measures[sample][name] for sample in fresh]) for name in names}
    searched = candidate.values(study, search_samples(study))
    wanted = [str(objective) for objective in study.objectives]
    return FrontPoint(
        front_id,
        candidate.identity,
        candidate.config,
        candidate.parameters,
        figures,
        {name: _deviation([candidate.measures[sample][name] for sample in fresh]) for name in wanted},
        dict(zip(wanted, searched, strict=True)),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = _mean(values)
    return float((sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5)


def read_front(study_uri: str) -> Front:
    """Read a stored front; raises NotFoundError when the search has none yet."""
    document = read_json(f"{study_uri.rstrip('/')}/{FRONT_FILE}")
    if document is None:
        raise NotFoundError(
            f"{study_uri} has no front.", remedy="Run the search to its end: `lucid pareto search`."
        )
    return Front.from_data(document)


PAGE = "front.html"


def choices_of(front: Front) -> Mapping[str, str]:
    """Return the answers in the front's order: what a person reads -> the point's id."""
    return {
        f"{point.front_id}: {', '.join(_figures(front, point))}": point.front_id for point in front.points
    }


def front_markdown(front: Front, *, page_url: str | None, mlflow_url: str | None) -> str:
    """Return the front as a table, with what to do with it and where its page is."""
    titles = [objective.title for objective in _objectives(front)]
    rows = [
        (
            point.front_id,
            *(amount(point.figures[str(objective)]) for objective in _objectives(front)),
            len(point.config.weights),
        )
        for point in front.points
    ]
    links = [
        f"[{words}]({url})"
        for words, url in (("the interactive page", page_url), ("its run in MLflow", mlflow_url))
        if url
    ]
    pool = f"{front.gpus:,} GPUs" + ("" if front.whole_gpus else ", in fractions")
    parts = [
        (
            f"The front of {front.evaluations:,} configurations for {front.name} ({pool}), on samples that "
            "chose none of them. No point is better in everything than another: going down the list, the "
            "first figure gets worse and another gets better. Pick what is worth its price."
        ),
        markdown_table(("point", *titles, "size classes"), rows, align_numbers=False),
    ]
    if links:
        parts.append(f"See {' and '.join(links)}.")
    return "\n\n".join(parts)


def keep_page(front: Front, files: Sequence[str], *, pages_dir: Path, cluster: str) -> str | None:
    """Copy the front's interactive page to where it is served from; returns its path there.

    `files` are what the search wrote; None when there is no page among them.
    """
    uri = next((file for file in files if file.rsplit("/", 1)[-1] == PAGE), None)
    data = read_bytes(uri) if uri is not None else None
    if data is None:
        return None
    path = Path(cluster) / front.study[:16] / PAGE
    target = pages_dir / path
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, data, mode=0o644)
    return str(path)


def _objectives(front: Front) -> list[Objective]:
    return [Objective.parse(stated) for stated in front.preference]


def _figures(front: Front, point: FrontPoint) -> list[str]:
    figures = []
    for objective in _objectives(front):
        unit = UNITS[objective.metric]
        value = amount(point.figures[str(objective)]) + (f" {unit}" if unit in ("s", "%") else "")
        figures.append(f"{objective.measure} {objective.metric} {value}")
    return figures
