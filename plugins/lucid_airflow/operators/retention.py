"""What is past its retention, out of MLflow, the lake, the pages and the logs of tasks."""

from pathlib import Path
from typing import Any

from foundation.errors import LucidError
from lucid_airflow import settings
from lucid_airflow.operators.base import LucidOperator
from lucid_airflow.run_results import RunOutcome, tell


class ApplyRetentionOperator(LucidOperator):
    """Remove what is older than LUCID_RETENTION says."""

    dry_run: Any = False

    def run(self, context: Any) -> dict[str, Any]:
        """Remove; returns what stays and went of each kind. What cannot be done fails the task at its end."""
        from airflow.sdk.configuration import conf

        from foundation.retention_settings import retention_settings
        from pipeline.retention.prune import Installation, prune

        pruned = prune(
            Installation(
                settings.tracking_uri(),
                settings.lake_uri(),
                settings.state_dir(),
                Path(str(conf.get("logging", "base_log_folder"))),
            ),
            retention_settings(),
            dry_run=bool(self.dry_run),
        )
        for each in pruned:
            self.log.info("%s: %d stay, %d go", each.kind, each.kept, each.removed)
            for remark in each.remarks:
                self.log.warning("%s: %s", each.kind, remark)
        problems = [f"{each.kind}: {each.problem}" for each in pruned if each.problem is not None]
        if problems:
            raise LucidError(" ".join(problems))
        gone = {each.kind: each.removed for each in pruned if each.removed}
        words = ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in gone.items())
        verb = "would go" if self.dry_run else "went"
        tell(
            context,
            f"{words} {verb}: past their retention." if gone else "Nothing is past its retention.",
            outcome=RunOutcome.DONE if gone else RunOutcome.NOTHING,
        )
        return {each.kind: {"kept": each.kept, "removed": each.removed} for each in pruned}
