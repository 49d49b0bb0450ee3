"""Great Expectations over the lake's tables."""

from typing import Any

from lucid_airflow import settings
from lucid_airflow.links import DataDocsLink
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.run_results import tell


class ValidateTableOperator(LucidOperator):
    """Check one table of the clusters.

    Failing rows go to quarantine; a failing table fails the task with the names of its expectations.
    """

    operator_extra_links = (DataDocsLink(),)

    table: str
    clusters: Any
    lake_uri: Any = None

    def run(self, context: Any) -> dict[str, Any]:
        """Validate; returns expectations checked per cluster."""
        from pipeline.ingest.table_validation import check_table

        docs_root = settings.pages_dir("data-docs")
        checked = {}
        for cluster in dict.fromkeys(name for name in self.clusters if name):
            report = check_table(
                table=self.table,
                lake_uri=self.lake_uri or settings.lake_uri(),
                cluster=cluster,
                docs_dir=docs_root / cluster / self.table,
            )
            if report.docs:
                self.data_docs_path = _relative(report.docs, str(docs_root))
            failed = [row for row in report.expectations if not row["success"]]
            for row in failed:
                self.log.warning("expectation not met: %s", row)
            report.raise_for_failure()
            held = len(report.expectations) - len(failed)
            tell(
                context,
                f"The {self.table} of {cluster}: {held} of {len(report.expectations)} expectations hold.",
                page=f"lucid/data-docs/{self.data_docs_path}" if self.data_docs_path else None,
                step=True,
            )
            checked[cluster] = len(report.expectations)
        return checked


def _relative(docs: str, root: str) -> str | None:
    path = docs.removeprefix("file://")
    return path.removeprefix(root).lstrip("/") if path.startswith(root) else None
