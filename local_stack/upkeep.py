"""Cleans databases beside them: `python -m local_stack.upkeep`, once a day, of the local stack and in
docker-compose.yml.

Rows of old runs by `airflow db clean`, and what was deleted in MLflow by `mlflow gc`; how old:
`foundation/retention_settings.py`. A task can do neither: Airflow keeps its database from tasks, and MLflow's
API deletes only so far that everything can be restored. Both commands find their databases as they always
do: AIRFLOW__DATABASE__SQL_ALCHEMY_CONN, and MLFLOW_BACKEND_STORE_URI with MLFLOW_TRACKING_URI.
"""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from foundation.exit_codes import CommandLine
from foundation.retention_settings import RetentionSettings, retention_settings


def airflow_clean(settings: RetentionSettings, now: datetime) -> tuple[str, ...] | None:
    """The command that removes rows of runs before `airflow_days`; None: they stay for ever."""
    if settings.airflow_days is None:
        return None
    before = (now - timedelta(days=settings.airflow_days)).isoformat(timespec="seconds")
    return (_program("airflow"), "db", "clean", "--clean-before-timestamp", before, "--skip-archive", "--yes")


def mlflow_collect(
    settings: RetentionSettings, store_uri: str | None = None, tracking_uri: str | None = None
) -> tuple[str, ...]:
    """The command that takes what was deleted before `deleted_days`, with its files, for good."""
    places = {"--backend-store-uri": store_uri, "--tracking-uri": tracking_uri}
    given = [word for name, uri in places.items() if uri is not None for word in (name, uri)]
    return (_program("mlflow"), "gc", "--older-than", f"{settings.deleted_days * 86_400:.0f}s", *given)


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def main(argv: list[str] | None = None) -> int:
    """Run both, one after another; 0 if both did what they should."""
    parser = CommandLine(prog="python -m local_stack.upkeep", description=__doc__)
    parser.add_argument("--mlflow-store", metavar="URI")
    parser.add_argument("--tracking-uri", metavar="URL")
    asked = parser.parse_args(argv)
    settings = retention_settings()
    commands = (
        airflow_clean(settings, datetime.now(UTC)),
        mlflow_collect(settings, asked.mlflow_store, asked.tracking_uri),
    )
    codes = [subprocess.run(command, check=False).returncode for command in commands if command is not None]
    print(f"{datetime.now(UTC).isoformat(timespec='seconds')} ended with {codes}", flush=True)
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
