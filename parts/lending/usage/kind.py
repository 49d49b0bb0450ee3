"""The Inference Load Model in the catalogue, and what a release says of it."""

from lucid_models.catalogue import CatalogueEntry, FeatureWords, MainFigure
from lucid_models.releases.optional_parts import OptionalPart

ENTRY = CatalogueEntry(
    kind="inference_load",
    title="Inference Load Model",
    predicts="share of the inference servers in use in the next bin: its mean and upper quantiles",
    command="inference",
    learner="parts.lending.usage.model:InferenceLoadModel",
    scorer="parts.lending.usage.scorer:InferenceLoadScorer.from_data",
    frame="parts.lending.usage.model:FRAME",
    lower_is_better="mse",
    measures={"mse": "mean squared error of the share in use"},
    figures=(MainFigure("mae", "forecasts of usage are off by", "% of the servers", scale=100.0),),
    features=(
        FeatureWords(r"usage", "usage now"),
        FeatureWords(r"usage_lag_(\d+)", "{} bins before, less now"),
        FeatureWords(r"usage_(mean|median)_(\d+)_bins", "{} of {} bins, less now"),
        FeatureWords(r"usage_ewma_(\d+)_pct", "weighted mean ({} % newest), less now"),
        FeatureWords(r"usage_deviation_(\d+)_bins", "deviation over {} bins"),
        FeatureWords(r"usage_(highest|lowest)_(\d+)_bins", "{} of {} bins, less now"),
        FeatureWords(r"weighted_mean", "weighted mean"),
    ),
    limits=(
        "A jump that the last ten bins do not announce is not forecast: headroom is for those.",
        (
            "Quantiles are right on average over a day or so, by learning from their misses: just after a "
            "change in how the load swings they are not."
        ),
        "A bin that was not measured is held; the forecast takes what is held for the truth.",
    ),
    reading=(
        "A forecast is the usage of the newest bin, plus a share of the sum of one number a feature, read",
        "off that feature's shape function, plus a share of the way to an exponentially weighted mean. The",
        "member that erred least in a rolling validation says which shares (explanation/global.json).",
        "Importance is the mean absolute change over the training bins, before the share.",
        "`lucid explain --model inference_load` says in words why the next bin is forecast as it is.",
    ),
)

RELEASED = OptionalPart(
    field="loaning",
    what="servers on loan",
    kind="inference_load",
    setting="usage",
    settings="parts.lending.replay.released_loans:ReleasedLoans.from_data",
    check="parts.lending.usage.scorer:check_pinned",
)
