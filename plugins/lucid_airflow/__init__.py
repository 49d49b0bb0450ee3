"""The Airflow plugin: operators, triggers, links and form fields over the packages.

An operator calls one function of `pipeline` and returns small values and URIs; `LucidOperator` is what all of
ours are built on (CONTRIBUTING.md, "Add an operator"). The chain is `IngestLogsOperator`,
`TrainModelOperator`, `BuildReleaseOperator`, `ValidateReleaseOperator`, `PublishReleaseOperator`; the other
operators are in `operators/`, the wiring in `dags/`.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from lucid_airflow.operators.base import LucidOperator as LucidOperator
    from lucid_airflow.operators.ingest import IngestLogsOperator as IngestLogsOperator
    from lucid_airflow.operators.release import BuildReleaseOperator as BuildReleaseOperator
    from lucid_airflow.operators.release import PublishReleaseOperator as PublishReleaseOperator
    from lucid_airflow.operators.release import ValidateReleaseOperator as ValidateReleaseOperator
    from lucid_airflow.operators.train import TrainModelOperator as TrainModelOperator

__getattr__, __dir__ = lazy_names(__name__)
