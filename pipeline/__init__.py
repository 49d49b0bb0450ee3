"""The steps of the model factory, one folder a step.

`ingest/` (`ingest_cluster` of a `ClusterLog`), `profiling/`, `training/` (`train_model`), `validation/`
(`validate_release`), `release/`, `monitoring/` (`monitor_release`), `studies/` (tuning, sweeps),
`planning/`, `what_if/`, `replay/` (`simulate_log` of a `LogToReplay`) and `retention/`; `overview/` is what
Airflow's pages show of them, `steps/` what its tasks call. Each joins the packages below it; the command line
calls the same functions. `settings` says where state, lake and registry are.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from pipeline.ingest.ingestion import ClusterLog as ClusterLog
    from pipeline.ingest.ingestion import ingest_cluster as ingest_cluster
    from pipeline.monitoring.monitor import monitor_release as monitor_release
    from pipeline.replay.log_scenario import LogToReplay as LogToReplay
    from pipeline.replay.simulation import simulate_log as simulate_log
    from pipeline.training.model_training import train_model as train_model
    from pipeline.validation.release_validation import validate_release as validate_release

__getattr__, __dir__ = lazy_names(__name__)
