"""The Utilisation Model in the catalogue."""

from lucid_models.catalogue import CatalogueEntry

ENTRY = CatalogueEntry(
    kind="utilisation",
    title="Utilisation Model",
    predicts="GPU utilisation, memory utilisation and memory of a job from its computation graph",
    command="utilisation",
    learner="parts.horus.model:UtilisationModel",
    scorer="parts.horus.scorer:UtilisationScorer.from_data",
    frame="parts.horus.served:FRAME",
    lower_is_better="gpu_util_pct_mae",
    measures={"gpu_util_pct_mae": "mean absolute error (points of GPU utilisation)"},
    limits=(
        (
            "A graph does not say how a job is fed: one that waits for its data, its environment or the "
            "network is predicted busier than it is."
        ),
        "Its numbers belong to the device that was profiled, and to one GPU of a job.",
        "Figures are careful: most jobs ask for less. The range says between what unseen models lay.",
        "A graph unlike the profiled ones is answered all the same; the prediction says so.",
    ),
    reading=(
        "A step's time on the device and on the host are two sums with few terms; utilisation follows from",
        "their ratio. An account begins with what launching kernels alone keeps the GPU busy and adds, in",
        "points, arithmetic, moving activations, mixed precision, and the margin for care; they add up.",
        "Importance is the mean absolute number of points over the training rows.",
    ),
)
