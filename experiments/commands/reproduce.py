"""`lucid reproduce`: a paper's evaluation on a given trace, published figures beside ours."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foundation.errors import BadInputError
from lucid_cli.options import (
    EndOption,
    GpusPerNodeOption,
    StartOption,
    TimeZoneOption,
    file_option,
    parse_time,
)
from lucid_cli.output import JsonFlag, print_facts, print_table, progress_reporter, show
from lucid_cli.variadic import variadic

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = "LUCID_REFERENCE_DATA"

app = typer.Typer(help="A paper's evaluation as one command.", no_args_is_help=True)


@app.command("lucid")
def reproduce_lucid(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Receives report.md, report.html and a CSV a table.")
    ],
    jobs: Annotated[Path | None, file_option("The log to replay.")] = None,
    source_format: Annotated[
        str | None, typer.Option("--format", metavar="F", help="The log's format.")
    ] = None,
    nodes: Annotated[Path | None, file_option("CSV virtual_cluster,nodes.")] = None,
    gpus_per_node: GpusPerNodeOption = 8,
    start: StartOption = None,
    end: EndOption = None,
    time_zone: TimeZoneOption = None,
    synthetic: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Instead of --jobs: a log like helios-venus or helios-saturn."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="Days of the synthetic window.")] = 30,
    history_days: Annotated[
        int, typer.Option(min=0, help="Days of the synthetic log before it, to learn from.")
    ] = 30,
    like: Annotated[
        str | None,
        typer.Option(metavar="TRACE", help="The paper's trace to stand beside: venus, saturn or philly."),
    ] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the report calls the trace.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="P", help="Only these policies; default: all.")
    ] = None,
    singles: Annotated[Path | None, file_option("Solo profiles; default: the simulated GPU's.")] = None,
    pairs: Annotated[Path | None, file_option("Colocated pairs, likewise.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of whatever is drawn.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that simulate and train.")] = 2,
    as_json: JsonFlag = False,
) -> None:
    """Write the evaluation of Lucid's paper (ASPLOS '23, section 4) on a trace.

    Tables 2 to 6, Figures 8 to 12 and every claim of the text, with the published numbers beside ours.
    """
    from experiments.reproduction.evaluation import evaluate, write_runs
    from experiments.reproduction.report import REPORT_HTML, REPORT_MD, write_report
    from experiments.reproduction.sharing import read_measurements
    from experiments.reproduction.trace import read_trace, synthesize_trace

    if (jobs is None) == (synthetic is None):
        raise BadInputError(
            "The trace is not clear.", remedy="Give either --jobs FILE or --synthetic helios-venus."
        )
    if (singles is None) != (pairs is None):
        raise BadInputError("Colocation needs both measurements.", remedy="Give --singles and --pairs.")
    with progress_reporter() as progress:
        if jobs is not None:
            if source_format is None or nodes is None:
                raise BadInputError(
                    "A log needs its format and the cluster's size.",
                    remedy="Give --format F and --nodes FILE.",
                )
            trace = read_trace(
                jobs_path=jobs,
                source_format=source_format,
                nodes_path=nodes,
                gpus_per_node=gpus_per_node,
                start=parse_time(start, "--start"),
                end=parse_time(end, "--end"),
                time_zone=time_zone,
                like=like,
                title=title,
                progress=progress,
            )
        else:
            trace = synthesize_trace(
                str(synthetic),
                days=days,
                seed=seed,
                history_days=history_days,
                like_trace=like,
                title=title,
                progress=progress,
            )
        measured = read_measurements(
            singles,
            pairs,
            seed,
        )
        done = evaluate(trace, measured, policies=policy, seed=seed, workers=workers, progress=progress)
        files = [*write_report(done.report, out), write_runs(done, out)]
    table = next(section for section in done.report.sections if section.key == "table4_overall")
    claims = next(section for section in done.report.sections if section.key == "claims")
    document = {
        "title": done.report.title,
        "report": str(out / REPORT_MD),
        "html": str(out / REPORT_HTML),
        "files": [str(path) for path in files],
        "overall": rows_of(table.tidy),
        "claims": rows_of(claims.tidy),
        "simulations": len(done.outcomes),
    }

    def people() -> None:
        print_table(rows_of(table.shown), title=table.title)
        print_table(rows_of(claims.shown.replace("**no**", "no")), title=claims.title)
        print_facts({"written": str(out / REPORT_HTML)})

    show(document, as_json=as_json, people=people)


@app.command("pcs", cls=variadic("--jobs", "--evaluations"))
def reproduce_pcs(
    jobs: Annotated[
        list[Path], typer.Option(metavar="FILE ...", help="Traces of elastic jobs; costs: of the first.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Receives report.md, report.html and a CSV a table.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Write this page, figures in images/ beside it.")
    ] = None,
    source_format: Annotated[
        str, typer.Option("--format", metavar="F", help="The traces' format.")
    ] = "pcs-csv",
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the pool that each trace is replayed on.")] = 64,
    evaluations: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N ...",
            min=1,
            help="Configurations that a search tries; one N a trace.",
        ),
    ] = None,
    jobs_per_sample: Annotated[int, typer.Option(min=2, help="Arrivals in each sample of a search.")] = 2_000,
    parameter_evaluations: Annotated[
        int, typer.Option(min=2, help="Configurations of each space that Figure 9c compares.")
    ] = 100,
    foretold_max: Annotated[
        int, typer.Option(min=1, help="Jobs of a trace that Themis predicts, at most.")
    ] = 2_500,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keeps replays and searches; default: .lucid/reproduce_pcs."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that search.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Of samples and searches.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Write the evaluation of PCS' paper (OSDI '24, section 5) on traces of elastic jobs.

    Figures 3, 5, 7 and 9 from runs of our own, with the published numbers beside them where the trace is one
    of the paper's. Searches and replays are kept, so that a second run only does what is new.
    """
    from experiments.reproduction.pcs.evaluation import EvaluationOptions, evaluate_pcs
    from experiments.reproduction.report import write_page, write_report
    from pipeline import settings

    if out is None and write is None:
        raise BadInputError("The report has no place.", remedy="Give --out DIR, or --write PAGE.")
    asked = EvaluationOptions(
        folder or settings.state_dir() / "reproduce_pcs",
        gpus=gpus,
        source_format=source_format,
        evaluations=tuple(evaluations or (370,)),
        jobs_per_sample=jobs_per_sample,
        parameter_evaluations=parameter_evaluations,
        foretold_max=foretold_max,
        workers=workers,
        seed=seed,
    )
    command = f"lucid reproduce pcs --jobs {' '.join(path.name for path in jobs)} --gpus {gpus}"
    if evaluations:
        command += f" --evaluations {' '.join(map(str, evaluations))}"
    for option, given, default in (
        ("--jobs-per-sample", jobs_per_sample, 2_000),
        ("--parameter-evaluations", parameter_evaluations, 100),
        ("--foretold-max", foretold_max, 2_500),
        ("--seed", seed, 0),
    ):
        command += f" {option} {given}" if given != default else ""
    with progress_reporter() as progress:
        report = evaluate_pcs(jobs, asked, command=command, progress=progress)
    files = write_report(report, out) if out is not None else []
    if write is not None:
        files += write_page(report, write)
    compared = report.sections[0]
    document = {
        "title": report.title,
        "files": [str(path) for path in files],
        "policies": rows_of(compared.tidy),
        "front": rows_of(report.sections[1].tidy),
    }

    def people() -> None:
        print_table(rows_of(compared.shown), title=compared.title)
        print_facts({"written": ", ".join(str(path) for path in files if path.suffix in (".md", ".html"))})

    show(document, as_json=as_json, people=people)


@app.command("helios")
def reproduce_helios(
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Receives report.md, report.html and a CSV a table.")
    ] = None,
    write: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write this page.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The public reference data; default: LUCID_REFERENCE_DATA."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the estimates that Philly does not state.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Write the numbers of Helios' paper (SC '21) beside what public data gives.

    Tables 1 to 5, Figures 1 to 9 and 11 to 15 and the text, a row a number: ours, or why there is none.
    """
    from experiments.reproduction.helios.evaluation import evaluate_helios, report_of
    from experiments.reproduction.helios.published import frame_of
    from experiments.reproduction.report import write_page, write_report

    named = _reference_data(data)
    if out is None and write is None:
        raise BadInputError("The report has no place.", remedy="Give --out DIR, or --write PAGE.")
    with progress_reporter() as progress:
        rows = evaluate_helios(named, seed=seed, progress=progress)
    command = "lucid reproduce helios" + (f" --seed {seed}" if seed else "")
    report = report_of(rows, command)
    files = write_report(report, out) if out is not None else []
    if write is not None:
        files += write_page(report, write)
    frame = frame_of(rows)
    document = {
        "title": report.title,
        "files": [str(path) for path in files],
        "rows": rows_of(frame),
    }

    def people() -> None:
        both = frame[
            frame["published"].notna() & frame["ours"].notna() & ~frame["table"].str.startswith("Figure")
        ]
        columns = ("table", "scheme", "metric", "published", "ours")
        print_table(rows_of(both), title=report.title, columns=columns)
        print_facts({"written": ", ".join(str(path) for path in files if path.suffix in (".md", ".html"))})

    show(document, as_json=as_json, people=people)


@app.command("lyra")
def reproduce_lyra(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Receives report.md, report.html, lyra.json, CSVs and pictures."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Write this page, figures in images/ beside it.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One fortnight, no ranges, few studies: a few minutes.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The public reference data; default: LUCID_REFERENCE_DATA."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keeps replays; default: .lucid/reproduce_lyra."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that simulate.")] = 2,
    as_json: JsonFlag = False,
) -> None:
    """Write the numbers of Lyra's paper (EuroSys '23) beside what public data gives.

    Tables 5 to 10, Figures 8 to 16 and the text, a row a number: ours as a mean over windows, or why there is
    none; and each claim of the paper with whether it holds. Replays are kept: an interrupted run goes on.
    """
    from experiments.reproduction.lyra.evaluation import evaluate_lyra
    from experiments.reproduction.lyra.page import report_of
    from experiments.reproduction.lyra.plan import full_plan, quick_plan
    from experiments.reproduction.report import write_page, write_report
    from pipeline import settings

    named = _reference_data(data)
    if out is None and write is None:
        raise BadInputError("The report has no place.", remedy="Give --out DIR, or --write PAGE.")
    with progress_reporter() as progress:
        done = evaluate_lyra(
            named,
            folder or settings.state_dir() / "reproduce_lyra",
            plan=quick_plan() if quick else full_plan(),
            workers=workers,
            progress=progress,
        )
    report = report_of(done, "lucid reproduce lyra" + (" --quick" if quick else ""))
    document = {
        "title": report.title,
        "rows": rows_of(done.frame),
        "claims": rows_of(done.claims),
        "our_claims": rows_of(done.our_claims),
    }
    files = write_report(report, out) if out is not None else []
    if out is not None:
        files.append(out / "lyra.json")
        files[-1].write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if write is not None:
        files += write_page(report, write)

    def people() -> None:
        print_table(rows_of(report.sections[0].shown), title=report.sections[0].title)
        print_facts({"written": ", ".join(str(path) for path in files if path.suffix in (".md", ".html"))})

    show({**document, "files": [str(path) for path in files]}, as_json=as_json, people=people)


def _reference_data(data: Path | None) -> Path:
    """Return the folder of the public reference data; raises BadInputError where none is named."""
    named = data or (Path(os.environ[REFERENCE]) if os.environ.get(REFERENCE) else None)
    if named is None:
        raise BadInputError(
            "The public reference data is not named.", remedy=f"Give --data DIR, or set {REFERENCE}."
        )
    return named


def rows_of(frame: "pd.DataFrame") -> list[dict[str, object]]:
    """Return a table's rows as plain mappings; what is missing is None."""
    rows = frame.astype(object).where(frame.notna(), None)
    return [dict(zip(map(str, frame.columns), row, strict=True)) for row in rows.itertuples(index=False)]


def register(program: typer.Typer) -> None:
    """Add `lucid reproduce`."""
    program.add_typer(app, name="reproduce")
