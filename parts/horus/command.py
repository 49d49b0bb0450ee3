"""`lucid predict-profile` and `lucid train utilisation`: what a job asks of a GPU, from its graph."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foundation.errors import BadInputError
from foundation.site import Site
from lucid_cli.options import (
    LakeOption,
    SinglesOption,
    TrackingOption,
    file_option,
    lake_or_default,
    text_of,
    tracking_or_default,
)
from lucid_cli.output import JsonFlag, print_facts, print_lines, progress_reporter, show, show_facts
from lucid_cli.train import SimulatedFlag, present_training

if TYPE_CHECKING:
    from parts.horus.graph_predictions import GraphPredictor

_SHOWN = (
    ("gpu_util", "GPU utilisation", "pct", "%"),
    ("gpu_mem_util", "memory utilisation", "pct", "%"),
    ("gpu_mem", "memory", "mib", "MiB"),
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="predict-profile")(predict_profile)
    app.command()(utilisation)


def predict_profile(
    onnx: Annotated[Path | None, file_option("The network as ONNX.")] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", min=1, help="Examples a step; default: the file's.")
    ] = None,
    amp: Annotated[bool, typer.Option("--amp/--no-amp", help="Trained in mixed precision.")] = False,
    dimension: Annotated[
        list[str] | None,
        typer.Option("--dimension", metavar="NAME=SIZE", help="Size of an open dimension. Repeatable."),
    ] = None,
    jobs: Annotated[
        Path | None,
        file_option(
            "CSV: job_id, job_type or name (with user), onnx, batch_size, amp; predictions go into the "
            "lake of --cluster."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Learn from this cluster's profiles in the lake."),
    ] = None,
    singles: Annotated[Path | None, file_option("Learn from these solo profiles (CSV).")] = None,
    pairs: Annotated[Path | None, file_option("And from these pairs: the Sharing Score.")] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Learn from the simulated GPU; the answer says so.")
    ] = False,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="Of the registered model; default: the newest.")
    ] = None,
    lake: LakeOption = None,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict GPU utilisation, memory utilisation, memory and Sharing Score of a job that was never
    profiled.

    The model is the newest registered one (`lucid train utilisation`), unless profiles to learn from are
    named.
    """
    if (onnx is None) == (jobs is None):
        raise BadInputError("What is to be predicted?", remedy="Give --onnx FILE, or --jobs FILE.")
    if jobs is not None and cluster is None:
        raise BadInputError("Whose jobs are in --jobs?", remedy="Give --cluster NAME.")
    sizes = _dimensions(dimension or [])
    predictor = _predictor(cluster, singles, pairs, simulated, version, lake, tracking_uri)
    if jobs is not None:
        from parts.horus.graph_predictions import predict_jobs

        with progress_reporter() as progress:
            report = predict_jobs(
                Site(lake=lake_or_default(lake), cluster=str(cluster), progress=progress),
                jobs_file=jobs,
                predictor=predictor,
                dimensions=sizes,
            )
        show_facts(report, as_json=as_json, title="Predicted")
        return
    from parts.horus.graph_predictions import describe_prediction
    from parts.horus.onnx_graph import read_graph_features

    file = Path(str(onnx))
    graph = read_graph_features(file, dimensions=sizes, batch_size=batch_size)
    prediction = describe_prediction(predictor, graph, amp)
    show(prediction, as_json=as_json, people=lambda: _print(prediction, file))


def utilisation(
    singles: SinglesOption = None,
    simulated: SimulatedFlag = False,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take the solo profiles in this cluster's lake.")
    ] = None,
    lake: LakeOption = None,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Train the Utilisation Model, which predicts a job's needs from its graph, on solo profiles."""
    from parts.horus.graph_predictions import solo_profiles_or_measure
    from parts.horus.training import train_utilisation
    from pipeline.profiling.profile_store import read_profile_set

    if sum((singles is not None, simulated, cluster is not None)) != 1:
        raise BadInputError(
            "The utilisation model needs solo profiles.",
            remedy="Give one of --singles FILE, --cluster NAME and --simulated.",
        )
    if cluster is not None:
        solo = read_profile_set(Site(lake=lake_or_default(lake), cluster=cluster)).solo
    else:
        file = text_of(singles)
        solo = solo_profiles_or_measure(file).solo
    with progress_reporter() as progress:
        report = train_utilisation(
            solo=solo, tracking_uri=tracking_or_default(tracking_uri), progress=progress
        )
    present_training(report, as_json)


def _predictor(
    cluster: str | None,
    singles: Path | None,
    pairs: Path | None,
    simulated: bool,
    version: int | None,
    lake: str | None,
    tracking_uri: str | None,
) -> "GraphPredictor":
    """Return the models that the options ask for."""
    from parts.horus.graph_predictions import (
        fit_predictor,
        registered_predictor,
        solo_profiles_or_measure,
    )

    if version is None and singles is not None:
        files = [singles, *([pairs] if pairs else [])]
        return fit_predictor(
            solo_profiles_or_measure(*map(str, files)), " and ".join(file.name for file in files)
        )
    if version is None and simulated:
        return fit_predictor(solo_profiles_or_measure(), "the simulated GPU's profiles")
    if version is None and cluster is not None:
        from pipeline.profiling.profile_store import measured_or_simulated

        profiles, _ = measured_or_simulated(Site(lake=lake_or_default(lake), cluster=cluster))
        return fit_predictor(profiles, f"the profiles of cluster {cluster}")
    return registered_predictor(tracking_or_default(tracking_uri), version)


def _dimensions(given: list[str]) -> dict[str, int]:
    sizes = {}
    for text in given:
        name, _, size = text.partition("=")
        if not name or not size.isdecimal() or len(size) > 12 or int(size) < 1:
            raise BadInputError(f"--dimension {text!r} is no NAME=SIZE.", remedy="For example: sequence=384.")
        sizes[name] = int(size)
    return sizes


def _print(found: dict[str, Any], file: Path) -> None:
    facts: dict[str, Any] = {
        words: f"{found[f'{name}_{end}']:,.0f} {unit} (unseen models: {found[f'{name}_low_{end}']:,.0f} to "
        f"{found[f'{name}_high_{end}']:,.0f})"
        for name, words, end, unit in _SHOWN
    }
    score = found["sharing_score"]
    facts["Sharing Score"] = None if score is None else f"{score} ({found['sharing_score_name']})"
    facts |= {"device": found["device"], "model": found["model"]}
    print_facts(facts, title=f"Predicted from {file.name}")
    print_lines([found["reason"], *found["remarks"]])
