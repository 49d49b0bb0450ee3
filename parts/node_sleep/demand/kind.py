"""The Node Demand Model in the catalogue, and what a release says of it."""

from lucid_models.catalogue import CatalogueEntry, FeatureWords, MainFigure
from lucid_models.releases.optional_parts import OptionalPart

ENTRY = CatalogueEntry(
    kind="node_demand",
    title="Node Demand Model",
    predicts="busy nodes of a cluster over the next hours: two means, and quantiles of the highest",
    command="nodes",
    learner="parts.node_sleep.demand.model:NodeDemandModel",
    scorer="parts.node_sleep.demand.scorer:NodeDemandScorer.from_data",
    frame="parts.node_sleep.demand.model:FRAME",
    lower_is_better="near_mean_mae",
    measures={"near_mean_mae": "mean absolute error (nodes)"},
    figures=(
        MainFigure("near_mean_mae", "forecasts of the next hours are off by", "nodes"),
        MainFigure("far_mean_mae", "forecasts of twice as many hours are off by", "nodes"),
    ),
    features=(
        FeatureWords(r"busy_lag_(\d+)", "{} bins before, less now"),
        FeatureWords(r"busy_(mean|median)_(\d+)_bins", "{} of {} bins, less now"),
        FeatureWords(r"busy_deviation_(\d+)_bins", "deviation over {} bins"),
        FeatureWords(r"busy_(highest|lowest)_(\d+)_bins", "{} of {} bins, less now"),
        FeatureWords(r"busy_after_(\d+)_bins_a_(day|week)_ago", "change over the next {} bins a {} ago"),
        FeatureWords(r"busy_after_(\d+)_bins_last_days", "change over the next {} bins on the last days"),
    ),
    limits=(
        (
            "A surge that neither the last hours nor the pattern of the days announces is not forecast: a "
            "fixed buffer of idle nodes stays awake beside it, and its curve belongs beside every figure."
        ),
        "Quantiles of the highest bin hold on average over days like the training days, not on each day.",
        "Bins that telemetry did not count are held; the forecast takes what is held for the truth.",
    ),
    reading=(
        "A forecast is the nodes that are busy now plus one number of nodes per feature, read off that",
        "feature's shape function. Importance is the mean absolute number of nodes over the training bins.",
        "Quantiles of the highest bin add an offset that was calibrated on weeks that were left out.",
        "`lucid explain --model node_demand` says in words why the next hours are forecast as they are.",
    ),
)

RELEASED = OptionalPart(
    field="node_sleep",
    what="sleeping nodes",
    kind="node_demand",
    setting="control",
    settings="parts.node_sleep.live.settings:check_released",
    check="parts.node_sleep.demand.scorer:check_pinned",
)
