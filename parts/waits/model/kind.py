"""The Wait Model in the catalogue, and what a release says of it."""

from lucid_models.catalogue import CatalogueEntry, FeatureWords, MainFigure, share
from lucid_models.releases.optional_parts import OptionalPart

ENTRY = CatalogueEntry(
    kind="waits",
    title="Wait Model",
    predicts="how long the waiting jobs of a queue go on waiting: P50 and P90, in seconds",
    command="waits",
    learner="parts.waits.model.model:WaitModel",
    scorer="parts.waits.model.scorer:WaitScorer.from_data",
    frame="parts.waits.model.queue_frame:FRAME",
    lower_is_better="mse_log10",
    measures={"mse_log10": "mean squared error (powers of ten of the wait)"},
    figures=(
        MainFigure("mse_log10", "squared error of the logarithm of waits", ""),
        share("within_x2", "waits within twice or half of what was said"),
        share("coverage_p90", "waits within P90 (right: 90 %)"),
    ),
    features=(
        FeatureWords(r"waited", "time waited so far", is_log10_s=True),
        FeatureWords(r"since_eligible", "time since it is eligible", is_log10_s=True),
        FeatureWords(r"limit", "time limit", is_log10_s=True),
        FeatureWords(r"usual_wait_of_(\w+)", "usual wait of {}", is_log10_s=True),
    ),
    limits=(
        "It knows the queue that it is shown: reservations and limits that no snapshot tells are missed.",
        "Jobs alike start together: whether their hour is today or tomorrow is most of what is missed.",
        (
            "After a change of policy P50 and P90 lag by some moments; bounds of a partition that begins to "
            "wait for weeks are too low at first."
        ),
    ),
    reading=(
        "The logarithm (base 10) of the wait is the intercept plus one score per feature, so scores multiply",
        "the wait: +0.3 doubles it, -0.3 halves it; P50 and P90 add an offset each, P90 by partition.",
        "Amounts among the features that are not shown as times are powers of ten too.",
        "Importance is the mean absolute score over the training rows.",
    ),
)

RELEASED = OptionalPart(
    field="waits",
    what="answers about waits",
    kind="waits",
    setting=None,
    settings="parts.waits.live.settings:WaitAnswerSettings.from_data",
    check="parts.waits.model.scorer:check_pinned",
)
