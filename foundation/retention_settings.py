"""How long an installation keeps what it makes: LUCID_RETENTION, a JSON object of the settings below.

A number of days that is null keeps for ever.
"""

from dataclasses import dataclass
from typing import Annotated

from foundation.checked_settings import Between, CheckedSettings
from foundation.environment import read_json_object

VARIABLE = "LUCID_RETENTION"

# Below a week an approval that still waits (APPROVAL_TIMEOUT) could lose the release that it is about.
_LEAST_DAYS = 8.0
# Training and the gate read weeks of the newest log.
_LEAST_LAKE_DAYS = 60.0


@dataclass(frozen=True)
class RetentionSettings(CheckedSettings):
    """Days of age after which something is removed, and sizes at which logs are rotated.

    - `airflow_days`: logs of tasks, and rows of runs in Airflow's database.
    - `challenger_days`: releases that were never live.
    - `published_days`: releases that were live, counted from when they last were.
    - `model_days`: model versions that no kept release pins.
    - `run_days`: runs of MLflow that no kept version, verdict or statement needs.
    - `deleted_days`: deleted runs of MLflow stay restorable so long, then `mlflow gc` takes them and their
      files.
    - `page_days`: pages of monitoring, plans, and those of parts, in the state folder.
    - `work_days`: what steps work with in the lake: sweeps, searches, replayed plans, staged accounting.
    - `quarantine_days`: files of refused rows that no ingest added to.
    - `lake_days`: days of the log's tables before the newest one that they have.
    - `process_log_mib`, `process_log_files`: a process's log of the local stack is rotated at this size, and
      so many older ones stay.
    """

    noun = "setting of the retention"

    airflow_days: float | None = 90.0
    challenger_days: float | None = 90.0
    published_days: float | None = 730.0
    model_days: float | None = 90.0
    run_days: float | None = 180.0
    deleted_days: float = 7.0
    page_days: float | None = 180.0
    work_days: float | None = 60.0
    quarantine_days: float | None = 365.0
    lake_days: float | None = None
    process_log_mib: Annotated[float, Between(0.01, 10_240)] = 16.0
    process_log_files: Annotated[int, Between(0, 100)] = 4

    def __post_init__(self) -> None:
        """Refuse ages that something in use may have."""
        super().__post_init__()
        for name in ("airflow_days", "challenger_days", "published_days", "model_days", "run_days"):
            self._check_least(name, _LEAST_DAYS)
        self._check_least("lake_days", _LEAST_LAKE_DAYS)

    def _check_least(self, name: str, least_days: float) -> None:
        if (days := getattr(self, name)) is not None:
            self._check_number(name, days, Between(least_days), whole=False)

    @property
    def process_log_bytes(self) -> int:
        """`process_log_mib` in bytes."""
        return int(self.process_log_mib * 2**20)


def retention_settings() -> RetentionSettings:
    """The installation's settings. Raises BadInputError, UnknownNameError for what cannot be used."""
    return RetentionSettings.from_data(read_json_object(VARIABLE, example='{"run_days": 90}'))
