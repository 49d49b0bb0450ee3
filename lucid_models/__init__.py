"""The models: features, fitting, reasons, data-only saving, NumPy scorers, releases and the registry.

Three are in a release: `WorkloadEstimateModel` (run times), `ThroughputPredictModel` (arrivals) and
`PackingAnalyzeModel` (sharing); parts bring more. All have `fit`, `predict`, `explain_global`,
`explain_local`, `to_data` and `from_data`. `load_scorer` scores a saved model with NumPy alone.
`build_release`, `publish_release` and `rollback_release` move a cluster's releases in MLflow; a
`ReleaseManifest` says what one holds.
"""

from typing import TYPE_CHECKING

from foundation.lazy_names import lazy_names

if TYPE_CHECKING:
    from lucid_models.duration.model import WorkloadEstimateModel as WorkloadEstimateModel
    from lucid_models.packing.model import PackingAnalyzeModel as PackingAnalyzeModel
    from lucid_models.releases.lifecycle import build_release as build_release
    from lucid_models.releases.lifecycle import publish_release as publish_release
    from lucid_models.releases.lifecycle import rollback_release as rollback_release
    from lucid_models.releases.manifest import ReleaseManifest as ReleaseManifest
    from lucid_models.scoring import load_scorer as load_scorer
    from lucid_models.throughput.model import ThroughputPredictModel as ThroughputPredictModel

__getattr__, __dir__ = lazy_names(__name__)
