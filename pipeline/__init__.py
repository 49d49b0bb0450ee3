"""The steps of the model factory, one folder a step, in the order of their names below.

`ingest/` (`ingest_cluster` of a `ClusterLog`), `profiling/`, `training/` (`train_model`), `validation/`
(`validate_release`), `release/`, `monitoring/` (`monitor_release`), `search/` (tuning, sweeps)
and `replay/` (`simulate_log` of a `LogToReplay`). Each joins the packages below it; the command line and
Airflow's operators call the same functions. `settings` says where state, lake and registry are.
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
