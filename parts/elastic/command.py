"""State a preference, search the configurations of PCS, look at the front, pick one."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from foundation.errors import BadInputError, NotFoundError
from foundation.site import Site
from lucid_cli.option_groups import with_options
from lucid_cli.options import (
    AsOfOption,
    HoldOutOption,
    LakeOption,
    LogFormatOption,
    SpeedUpsOption,
    TimeZoneOption,
    TrackingOption,
    WorkersOption,
    file_option,
    lake_or_default,
    tracking_or_default,
)
from lucid_cli.output import JsonFlag, print_facts, print_lines, print_table, progress_reporter, say, show
from lucid_cli.variadic import names_of, variadic

app = typer.Typer(help=__doc__, no_args_is_help=True)

StudyOption = Annotated[
    str | None,
    typer.Option("--study", metavar="DIR", help="The search's folder or URI; default: the newest here."),
]


@dataclass(frozen=True)
class NamedFront:
    """Group of options: which front is meant."""

    study: StudyOption = None
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Or: the newest search of this cluster in MLflow.")
    ] = None
    run: Annotated[str | None, typer.Option(metavar="ID", help="Or: the search of this run of MLflow.")] = (
        None
    )
    tracking_uri: TrackingOption = None

    def find(self) -> tuple[Site, dict[str, Any]]:
        """Return where the front is, as `pick_configuration` takes it."""
        if self.study is not None and (self.cluster or self.run):
            raise BadInputError("Two fronts are named.", remedy="Give --study, or --cluster, or --run.")
        if self.cluster or self.run:
            tracking_uri = tracking_or_default(self.tracking_uri)
            return Site(registry=tracking_uri, cluster=self.cluster or ""), {"run_id": self.run}
        return Site(), {"study_uri": self.study or str(_newest_study())}


@dataclass(frozen=True)
class SampledLog:
    """Group of options: the log that samples are drawn from."""

    jobs: Annotated[Path | None, file_option("The log to draw samples from.")] = None
    source_format: LogFormatOption = None
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Or: this cluster's jobs in the lake.")
    ] = None
    lake: LakeOption = None
    virtual_cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the lake's cluster this part alone; else all as one pool."),
    ] = None
    gpus: Annotated[
        int | None, typer.Option(min=1, help="GPUs of the pool; a cluster of the lake knows its own.")
    ] = None
    scaling: Annotated[
        str, typer.Option(help="What jobs without a speed-up curve are: rigid, or linear.")
    ] = "rigid"
    whole_gpus: Annotated[
        bool | None,
        typer.Option(
            "--whole-gpus/--fractions",
            help="Hand out whole GPUs, or fractions. Default: whole GPUs if a job is rigid.",
            show_default=False,
        ),
    ] = None
    speed_ups: SpeedUpsOption = None
    hold_out_days: HoldOutOption = 14
    as_of: AsOfOption = None
    time_zone: TimeZoneOption = None

    def asked(self) -> dict[str, Any]:
        """Return what is asked of the log, as `plan_search` takes it."""
        names = ("scaling", "whole_gpus", "time_zone", "hold_out_days", "as_of", "virtual_cluster")
        return {**{name: getattr(self, name) for name in names}, "speed_ups_path": self.speed_ups}


@dataclass(frozen=True)
class Searched:
    """Group of options: what is preferred, and how much is searched; fields are those of `SearchSpec`."""

    preference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC:MEASURE ...",
            help="What is to be small: JCT, unfairness or Pred_err, each avg or a percentile (p99). "
            "Default: JCT:avg Pred_err:avg.",
        ),
    ] = None
    evaluations: Annotated[
        int, typer.Option(min=1, help="Different configurations to try; whole rounds.")
    ] = 1_110
    jobs_per_sample: Annotated[int, typer.Option(min=2, help="Arrivals in each sample.")] = 2_000
    samples: Annotated[
        int, typer.Option(min=1, help="Samples that configurations near the front are tried on.")
    ] = 6
    held_out_samples: Annotated[
        int, typer.Option(min=1, help="Fresh samples that the front is presented on.")
    ] = 6
    round_size: Annotated[int, typer.Option(min=1, help="Configurations that are asked for at once.")] = 37
    seed: Annotated[int, typer.Option(min=0, help="Of the samples and the optimiser.")] = 0

    def asked(self) -> dict[str, Any]:
        """Return the fields of `SearchSpec`."""
        return {**vars(self), "preference": tuple(names_of(self.preference)) if self.preference else None}


@app.command(cls=variadic("--preference"))
@with_options(Searched)
@with_options(SampledLog)
def search(
    log: SampledLog,
    searched: Searched,
    workers: WorkersOption = 2,
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The search's folder or URI; default: its own in .lucid/pareto."),
    ] = None,
    track: Annotated[bool, typer.Option("--track", help="Record the search in MLflow.")] = False,
    tracking_uri: TrackingOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Search the configurations of PCS that no other beats in all that is preferred.

    Draws the front into front.html of the search's folder while it runs. The same command again goes on where
    it stopped. Figures are those of fresh samples, which chose nothing.
    """
    from parts.elastic.pareto.plan import plan_search
    from parts.elastic.pareto.report import finish_search, write_progress
    from parts.elastic.pareto.study import ParetoSearch, run_search
    from pipeline.replay.log_file import LogFile

    tracking = tracking_or_default(tracking_uri) if track else None
    with progress_reporter() as progress:
        plan = plan_search(
            Site(
                lake=lake_or_default(log.lake) if log.cluster else "",
                cluster=log.cluster or "",
                progress=progress,
            ),
            gpus=log.gpus,
            log=LogFile(str(log.jobs), log.source_format or "") if log.jobs else None,
            out_uri=out,
            folder_uri=str(_folder()),
            asked={**log.asked(), **searched.asked()},
        )
        for remark in plan["remarks"]:
            say(remark)
        study = ParetoSearch.load(plan["study_uri"])
        say(f"The front as it stands: {study.uri}/front.html")
        executed = run_search(study, workers=workers, progress=progress, after_round=write_progress)
        progress(0, None, "the front")
        finished = finish_search(study_uri=study.uri, tracking_uri=tracking)
    document = {"study": study.uri, "executed": executed, "remarks": plan["remarks"], **finished}

    def people() -> None:
        _print_front(finished["front"], finished["preference"])
        names = ("study", "evaluations", "simulations", "executed", "files", "mlflow_path")
        print_facts({name: document[name] for name in names if document[name] is not None})
        print_lines([f"Look at {study.uri}/front.html, and pick: lucid pareto pick ID --study {study.uri}"])

    show(document, as_json=as_json, people=people)


@app.command("show")
@with_options(NamedFront)
def show_front(
    named: NamedFront,
    as_json: JsonFlag = False,
) -> None:
    """Show a front: its points by id, with their figures on fresh samples."""
    from parts.elastic.pareto.presented import read_front
    from parts.elastic.pareto.report import newest_front, point_row
    from parts.elastic.pareto.samples import PREDICTED_BY

    site, where = named.find()
    if "study_uri" in where:
        front = read_front(where["study_uri"])
    else:
        front, _ = newest_front(site, **where)
    rows = [point_row(point) for point in front.points]
    document = {
        "name": front.name,
        "preference": list(front.preference),
        "predict_by": PREDICTED_BY,
        "front": rows,
    }
    show(document, as_json=as_json, people=lambda: _print_front(rows, front.preference))


@app.command()
@with_options(NamedFront)
def pick(
    named: NamedFront,
    front_id: Annotated[str, typer.Argument(metavar="ID", help="A point of the front, such as c7.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Receives the configuration; default: pcs-ID.json.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a point's configuration as JSON, which policy pcs takes as its setting `configuration`."""
    from parts.elastic.pareto.report import pick_configuration

    site, where = named.find()
    picked = pick_configuration(site, front_id=front_id, **where)
    file = out or Path(f"pcs-{front_id}.json")
    if file.suffix != ".json":
        raise BadInputError(f"--out {str(file)!r} is no JSON file.", remedy="End its name in .json.")
    choice = {name: picked[name] for name in ("front_id", "figures", "preference", "name", "study", "run_id")}
    document = {**picked["configuration"], "picked": choice}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    def people() -> None:
        print_facts({**picked["settings"], **picked["figures"], "written": str(file)})
        print_lines([f"Try it: lucid simulate --policy pcs --setting pcs.configuration={file} ..."])

    show({**picked, "file": str(file)}, as_json=as_json, people=people)


@app.command()
def compare(
    front: Annotated[Path, file_option("The other front: a front.json, or the artifact's CSV.")],
    study: StudyOption = None,
    samples: Annotated[int, typer.Option(min=1, help="Fresh samples, others than the search has seen.")] = 6,
    workers: WorkersOption = 2,
    as_json: JsonFlag = False,
) -> None:
    """Simulate a search's front and another on the same fresh samples, and say which points each covers."""
    from parts.elastic.pareto.compare import compare_fronts, read_configurations
    from parts.elastic.pareto.presented import read_front
    from parts.elastic.pareto.study import ParetoSearch

    uri = study or str(_newest_study())
    ours = {point.front_id: point.config for point in read_front(uri).points}
    with progress_reporter() as progress:
        comparison = compare_fronts(
            ParetoSearch.load(uri),
            ours,
            read_configurations(front),
            samples=samples,
            workers=workers,
            progress=progress,
        )
    document = comparison.to_data()

    def people() -> None:
        print_table(document["theirs"], title=f"Points of {front.name}")
        print_table(document["ours"], title="Points of the search")
        print_facts({name: document[name] for name in ("points", "covered", "hypervolume_ratio", "samples")})

    show(document, as_json=as_json, people=people)


def _print_front(rows: list[dict[str, Any]], preference: Any) -> None:
    names = list(dict.fromkeys([*preference, "JCT:avg", "Pred_err:avg", "Pred_err:p99", "unfairness:avg"]))
    print_table(
        [
            {
                "id": row["front_id"],
                **{name: row["figures"][name] for name in names},
                "classes": len(row["settings"]["weights"]),
                "efficiency": row["settings"]["efficiency_min"],
            }
            for row in rows
        ],
        title="The front, on fresh samples; ends predicted by true run times",
    )


def _folder() -> Path:
    from pipeline import settings

    return settings.state_dir() / "pareto"


def _newest_study() -> Path:
    fronts = sorted(_folder().glob("*/front.json"), key=lambda file: file.stat().st_mtime)
    if not fronts:
        raise NotFoundError(
            f"There is no search in {_folder()}.", remedy="Name one by --study, or run `lucid pareto search`."
        )
    return fronts[-1].parent
