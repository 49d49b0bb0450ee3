"""`lucid train`: data in, a registered model version out."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from foundation.errors import BadInputError
from foundation.site import Site
from lucid_cli.option_groups import with_options
from lucid_cli.options import (
    AsOfOption,
    ClusterOption,
    HoldOutOption,
    LakeOption,
    PairsOption,
    SinglesOption,
    TrackingOption,
    lake_or_default,
    text_of,
    tracking_or_default,
)
from lucid_cli.output import JsonFlag, progress_reporter, show_facts, to_jsonable

app = typer.Typer(
    help="Fit a model, measure it beside naive rivals, register it in MLflow.", no_args_is_help=True
)


UtcOffsetOption = Annotated[
    float, typer.Option("--utc-offset-hours", min=-24, max=24, help="The cluster's local time minus UTC.")
]
SimulatedFlag = Annotated[
    bool, typer.Option("--simulated", help="Measure on the simulated GPU; model and release will say so.")
]


@dataclass(frozen=True)
class LakeTraining:
    """Group of options: a cluster's tables, and where the model goes."""

    cluster: ClusterOption
    lake: LakeOption = None
    hold_out_days: HoldOutOption = 14
    as_of: AsOfOption = None
    tracking_uri: TrackingOption = None
    as_json: JsonFlag = False

    def train(self, model: str, **options: Any) -> None:
        """Train as the DAG `retrain_models` does: on the cluster's tables before the held-out window."""
        from pipeline.training.model_training import train_model
        from pipeline.training.windows import read_as_of, training_window_end

        site = Site(lake_or_default(self.lake), tracking_or_default(self.tracking_uri), self.cluster)
        until = training_window_end(site, self.hold_out_days, read_as_of(self.as_of))
        report = train_model(site, model=model, training_until=until.isoformat(), options=options)
        present_training(report, self.as_json)


def present_training(report: object, as_json: bool) -> None:
    """Show what was trained."""
    facts = to_jsonable(report)
    show_facts(facts, as_json=as_json, title=f"Trained {facts['model']}")


@app.command()
def packing(
    singles: SinglesOption = None,
    pairs: PairsOption = None,
    simulated: SimulatedFlag = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose GPUs these are: its lake keeps the measurements, its model learns."
        ),
    ] = None,
    lake: LakeOption = None,
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="tree, or pairwise: beside it a model of the speeds of pairs.")
    ] = "tree",
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Train the Packing Analyze Model on solo profiles and colocated pairs."""
    from lucid_models.packing.tree import packing_settings
    from lucid_models.training import train_packing
    from pipeline.profiling.profile_store import read_profiles_or_measure, write_profile_set

    if simulated == bool(singles or pairs) or bool(singles) != bool(pairs):
        raise BadInputError(
            "The packing model needs measurements.", remedy="Give --singles and --pairs, or --simulated."
        )
    settings = packing_settings(kind)
    measured = read_profiles_or_measure(text_of(singles), text_of(pairs), seed=seed)
    if cluster is not None:
        write_profile_set(Site(lake=lake_or_default(lake), cluster=cluster), measured)
    with progress_reporter() as progress:
        report = train_packing(
            solo=measured.solo,
            pairs=measured.pairs,
            tracking_uri=tracking_or_default(tracking_uri),
            cluster=cluster,
            seed=seed,
            settings=settings,
            progress=progress,
        )
    present_training(report, as_json)


@app.command()
@with_options(LakeTraining)
def throughput(
    training: LakeTraining,
    lead: Annotated[
        int, typer.Option("--lead", min=1, help="Bins that a forecast bin lies after the newest known one.")
    ] = 5,
    utc_offset_hours: UtcOffsetOption = 0.0,
) -> None:
    """Train the Throughput Predict Model on a cluster's throughput table."""
    training.train("throughput", lead_bins=lead, utc_offset_hours=utc_offset_hours)


@app.command()
@with_options(LakeTraining)
def duration(
    training: LakeTraining,
) -> None:
    """Train the Workload Estimate Model on a cluster's job table."""
    training.train("duration")
