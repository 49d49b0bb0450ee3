"""What a person who picks a point of a Pareto front is shown, and the answers that there are."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from foundation.markdown import markdown_table
from foundation.replaced_files import replace_file
from foundation.storage import read_bytes
from lucid_models.amounts import amount
from parts.elastic.pareto.objectives import UNITS, Objective
from parts.elastic.pareto.presented import Front, FrontPoint

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
