"""`lucid tune`: the System Tuner on this machine."""

from typing import Annotated, Any

import typer

from foundation.site import Site
from lucid_cli.options import (
    AsOfOption,
    ClusterOption,
    HoldOutOption,
    LakeOption,
    TrackingOption,
    WorkersOption,
    lake_or_default,
    tracking_or_default,
)
from lucid_cli.output import JsonFlag, print_facts, print_lines, progress_reporter, say, show, to_jsonable
from lucid_cli.setting_pairs import value_lists


def tune(
    cluster: ClusterOption,
    lake: LakeOption = None,
    trials: Annotated[
        int, typer.Option(min=0, help="Trials of the optimiser, beside one change at a time; whole rounds.")
    ] = 40,
    workers: WorkersOption = 2,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="The study's folder or URI; default: in the lake.")
    ] = None,
    build: Annotated[
        bool,
        typer.Option(
            "--build-release",
            help="Tune the cluster's current release; build a challenger if the proposal stands.",
        ),
    ] = False,
    hold_out_days: HoldOutOption = 14,
    as_of: AsOfOption = None,
    search_days: Annotated[float, typer.Option(min=1, help="Days to search on.")] = 9.0,
    validation_days: Annotated[
        float, typer.Option(min=1, help="Days after them that only the best trial is replayed on.")
    ] = 7.0,
    blocks: Annotated[int, typer.Option(min=1, help="Blocks of the days to search on.")] = 3,
    warm_up_days: Annotated[float, typer.Option(min=0, help="Uncounted days before each block.")] = 1.0,
    cold: Annotated[bool, typer.Option("--cold", help="Start each block with an empty cluster.")] = False,
    objective: Annotated[str, typer.Option(help="As in the gate.")] = "mean_jct_s",
    search: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=V,V", help="Values to try of a setting; one alone fixes it. Repeat."),
    ] = None,
    round_size: Annotated[int, typer.Option(min=1, help="Trials that are asked for at once.")] = 8,
    job_types: Annotated[str, typer.Option(help="drawn or log, as in the gate.")] = "drawn",
    seed: Annotated[int, typer.Option(min=0, help="Of the optimiser and of drawn job types.")] = 0,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Search a policy's settings by simulation of the days before the held-out.

    Prints a proposal, which holds only if it is better on days that chose nothing, and which the gate judges
    like any other release. The same command again goes on where it stopped.
    """
    from pipeline.studies.tuning.plan import TuningSpec, plan_study
    from pipeline.studies.tuning.proposal import propose
    from pipeline.studies.tuning.report import record_study, write_report
    from pipeline.studies.tuning.study import run_study
    from pipeline.training.windows import read_as_of

    spec = TuningSpec(
        hold_out_days=hold_out_days,
        as_of=read_as_of(as_of),
        search_days=search_days,
        validation_days=validation_days,
        blocks=blocks,
        warm_up_days=0.0 if cold else warm_up_days,
        objective=objective,
        round_size=round_size,
        search=value_lists(search, "--search", "profiling_limit_s=60,100,200"),
        job_types=job_types,  # type: ignore[arg-type]
        seed=seed,
    )
    tracking = tracking_or_default(tracking_uri) if build else None
    arguments: dict[str, Any] = {
        "spec": spec,
        "out_uri": out,
    }
    with progress_reporter() as progress:
        site = Site(lake_or_default(lake), tracking or "", cluster, progress)
        if tracking is None:
            study = plan_study(site, **arguments)
        else:
            from pipeline.studies.tuning.challenger import build_challenger
            from pipeline.studies.tuning.plan import current_release, plan_around

            study = plan_around(site, current_release(site), **arguments)
        for remark in study.remarks:
            say(remark)
        executed = run_study(study, trials=trials, workers=workers, progress=progress)
        proposal = propose(study, progress=progress)
    files = write_report(study, proposal)
    document: dict[str, Any] = {
        "study": study.uri,
        "study_sha256": study.sha256,
        "executed": executed,
        "remarks": study.remarks,
        **proposal.to_dict(),
        "files": files,
        "release": None,
    }
    if tracking is not None:
        record_study(study, proposal, tracking_uri=tracking)
        if proposal.proposed:
            built = build_challenger(site, study, proposal)
            document["release"] = to_jsonable(built)

    def people() -> None:
        facts = ("study", "trials", "executed", "proposed", "files")
        print_facts({name: document[name] for name in facts})
        print_lines([proposal.sentence])
        if document["release"]:
            version = document["release"]["version"]
            say(f"Release {version} is the challenger: `lucid release validate` judges it.")

    show(document, as_json=as_json, people=people)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(tune)
