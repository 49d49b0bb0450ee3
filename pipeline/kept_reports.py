"""Reports kept as PAGES/CLUSTER/STAMP/REPORT_FILE with a page each, and the index that lists them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from markupsafe import Markup

from foundation.replaced_files import replace_file
from foundation.themed_pictures import DARK, LIGHT, as_file

PAGE_FILE = "index.html"
MOST_LISTED = 60  # of a cluster, on an index
PAGE_MODE = 0o644  # others than the process that writes a page read it

Report = TypeVar("Report")
Document = Mapping[str, Any]


@dataclass(frozen=True)
class PagesOfClusters:
    """Pages that a part's runs leave, a folder `STATE/KIND/CLUSTER/STAMP/` each, with a JSON beside.

    - `kind`: that folder's name, and the route below /lucid; `dag_id`: the DAG whose runs leave them.
    - `report_file`: the JSON's name.
    - `title`, `sentences`: the card of the newest on its cluster's page, and what it says by the JSON (None:
      no card).
    """

    kind: str
    dag_id: str
    report_file: str
    title: str = ""
    sentences: Callable[[Document], Sequence[str]] | None = None


@dataclass(frozen=True)
class KeptReport(Generic[Report]):
    """A report with where it is kept. `page`: below the pages' folder; `mlflow_path`: below MLflow's
    address.
    """

    report: Report
    folder: Path
    page: str
    mlflow_path: str


def newest_reports(
    pages_dir: Path, report_file: str, most: int, cluster: str = "*"
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield cluster, stamp and report of the newest `most` of every cluster (or of one), newest stamps
    first.
    """
    listed: dict[str, int] = {}
    for path in sorted(pages_dir.glob(f"{cluster}/*/{report_file}"), reverse=True):
        name, stamp = path.parts[-3:-1]
        if listed.get(name, 0) < most:
            listed[name] = listed.get(name, 0) + 1
            yield name, stamp, json.loads(path.read_text(encoding="utf-8"))


def write_index(
    pages_dir: Path,
    report_file: str,
    line_of: Callable[[Document], Document],
    page: Callable[[Mapping[str, Sequence[Document]]], str],
) -> None:
    """List the newest reports of every cluster; replaced in one step, for a browser may be reading it.

    `line_of` a report is what `page` shows of it, beside `href`.
    """
    clusters: dict[str, list[Document]] = {}
    for cluster, stamp, document in newest_reports(pages_dir, report_file, MOST_LISTED):
        line = {"href": f"{cluster}/{stamp}/{PAGE_FILE}", **line_of(document)}
        clusters.setdefault(cluster, []).append(line)
    replace_file(pages_dir / PAGE_FILE, page(clusters), mode=PAGE_MODE)


def write_report_files(
    folder: Path, texts: Mapping[str, str], pictures: Mapping[str, Markup | None], page: str
) -> Path:
    """Write texts by file name, pictures by name (light and dark), and last the page, which is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    files = dict(texts)
    for name, picture in pictures.items():
        if picture:
            files |= {f"{name}.svg": as_file(picture, LIGHT), f"{name}-dark.svg": as_file(picture, DARK)}
    for name, text in {**files, PAGE_FILE: page}.items():
        replace_file(folder / name, text, mode=PAGE_MODE)
    return folder / PAGE_FILE
