"""What the runs of this part keep, and where."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.kept_reports import PagesOfClusters

REPORT_FILE = "report.json"


def _sentences(document: Mapping[str, Any]) -> Sequence[str]:
    return [str(each["text"]) for each in document["summary"]]


PAGES = PagesOfClusters(
    "characterisation", "characterise_cluster", REPORT_FILE, "What its log says", _sentences
)
