"""The pages of docs/reproduction/: `python -m experiments.reproduction.documents [PAGE ...]`.

Philly's pages need the public reference data (LUCID_REFERENCE_DATA); the synthetic ones only use its measured
pairs, where they are there, and the simulated GPU otherwise. Each page names its data, commit, machine and
command, and no date.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.reproduction.claims import NOT_MEASURED, NOT_REACHED, REACHED
from experiments.reproduction.evaluation import evaluate
from experiments.reproduction.report import write_page
from experiments.reproduction.sharing import Measurements, read_measurements
from experiments.reproduction.trace import ReproductionTrace, read_trace, synthesize_trace
from foundation.errors import UnknownNameError
from foundation.markdown import markdown_frame
from foundation.process_lock import scratch_folder
from foundation.progress import Progress

REFERENCE = "LUCID_REFERENCE_DATA"
DEFAULT_DIR = Path("docs/reproduction")
INDEX = "README.md"
_SINGLES = "data/packing/single_jobs_rtx3090.csv"
_PAIRS = "data/packing/colocated_pairs_rtx3090.csv"
_LOADED_NODES = 48


_INDEX_TOP = """# Lucid's evaluation, reproduced

The tables, figures and claims of *Lucid* (ASPLOS '23, section 4) on traces that can be had, with the
published numbers beside ours. `make reproduction` writes these pages; `lucid reproduce lucid` writes the
same report for any log, with every table as CSV."""
_INDEX_END = """None of the traces is the paper's: SenseTime's logs are larger than what is kept here, so
Venus and Saturn are synthetic, and the public copy of Philly is lighter than what the paper replayed. A claim
that is not reached here may well hold on the paper's data, and the other way round.

[Helios' evaluation](helios.md) (SC '21) stands beside: every printed number, with ours or the reason
why there is none. [Lyra's](lyra.md) (EuroSys '23) likewise, with which of its claims hold on Philly. PCS'
is [a page of its own](../predictability.md)."""


@dataclass(frozen=True)
class Page:
    """A page: how its trace is read (None: not without the reference data), and the command that does so."""

    about: str
    read: Callable[[Path | None, Progress], ReproductionTrace | None]
    command: str
    remarks: tuple[str, ...] = ()


def _philly(
    slice_name: str, title: str, nodes: int | None
) -> Callable[[Path | None, Progress], ReproductionTrace | None]:
    def read(data: Path | None, progress: Progress) -> ReproductionTrace | None:
        if data is None:
            return None
        folder = data / "reference" / "lucid"
        with scratch_folder("documents") as scratch:
            size = folder / f"{slice_name}_nodes.csv"
            if nodes is not None:
                size = scratch / "nodes.csv"
                size.write_text(
                    f"virtual_cluster,nodes\n{_only_virtual_cluster(folder, slice_name)},{nodes}\n"
                )
            return read_trace(
                jobs_path=folder / f"{slice_name}_jobs.csv.gz",
                source_format="reference-csv",
                nodes_path=size,
                like="philly",
                title=title,
                progress=progress,
            )

    return read


def _only_virtual_cluster(folder: Path, slice_name: str) -> str:
    import pandas as pd

    names = pd.read_csv(folder / f"{slice_name}_jobs.csv.gz", dtype=str)["virtual_cluster"].unique()
    if len(names) != 1:
        raise UnknownNameError("single virtual cluster", slice_name, sorted(map(str, names)))
    return str(names[0])


def _synthetic(like: str) -> Callable[[Path | None, Progress], ReproductionTrace | None]:
    return lambda _, progress: synthesize_trace(
        like, days=30, seed=0, title=f"30 synthetic days like {like}", progress=progress
    )


def _reference_command(name: str, nodes: str) -> str:
    return (
        f"lucid reproduce lucid --jobs ${REFERENCE}/reference/lucid/{name}_jobs.csv.gz --format "
        f"reference-csv --nodes {nodes} --like philly --singles ${REFERENCE}/{_SINGLES} --pairs "
        f"${REFERENCE}/{_PAIRS}"
    )


_NOISY = (
    "The log's estimates are the true run times times exp(N(0, 1)): drawn once, the same for all policies."
)
PAGES: Mapping[str, Page] = {
    "philly": Page(
        f"one week of Philly's jobs on one virtual cluster of {_LOADED_NODES} nodes: loaded",
        _philly("week1vc48", f"a week of Philly on {_LOADED_NODES} nodes", _LOADED_NODES),
        _reference_command("week1vc48", "nodes48.csv"),
        (
            (
                f"The cluster is one virtual cluster of {_LOADED_NODES} nodes (nodes48.csv says so), far "
                "fewer than Philly had, so that jobs queue at all: the public copy of Philly is light."
            ),
            _NOISY,
        ),
    ),
    "philly_week": Page(
        "the same week on Philly's eleven virtual clusters: hardly any job waits",
        _philly("week", "a week of Philly on its eleven virtual clusters", None),
        _reference_command("week", f"${REFERENCE}/reference/lucid/week_nodes.csv"),
        (
            (
                "The public copy of Philly is light: on the nodes that the Helios artifact gives its "
                "virtual clusters hardly any job waits, and whatever a scheduler does, little can be gained."
            ),
            _NOISY,
        ),
    ),
    "venus": Page(
        "a synthetic month of a cluster like SenseTime's Venus",
        _synthetic("helios-venus"),
        "lucid reproduce lucid --synthetic helios-venus --days 30",
    ),
    "saturn": Page(
        "a synthetic month of a cluster like SenseTime's Saturn",
        _synthetic("helios-saturn"),
        "lucid reproduce lucid --synthetic helios-saturn --days 30",
    ),
}


def write_documents(
    out_dir: Path,
    pages: Sequence[str],
    *,
    workers: int,
    progress: Progress,
    say: Callable[[str], None],
) -> list[Path]:
    """Evaluate and write the pages; those whose data is not there are left as they are, and named."""
    for name in pages:
        if name not in PAGES:
            raise UnknownNameError("page", name, PAGES)
    data = Path(os.environ[REFERENCE]) if os.environ.get(REFERENCE) else None
    measured = _measured(data)
    written = []
    for name in pages:
        trace = PAGES[name].read(data, progress)
        if trace is None:
            say(f"{name}: left as it is, because {REFERENCE} is not set.")
            continue
        command = PAGES[name].command
        if data is not None and "--singles" not in command:
            command += f" --singles ${REFERENCE}/{_SINGLES} --pairs ${REFERENCE}/{_PAIRS}"
        trace = replace(trace, remarks=(*trace.remarks, *PAGES[name].remarks))
        evaluation = evaluate(trace, measured, workers=workers, command=command, progress=progress)
        written += write_page(evaluation.report, out_dir / f"{name}.md")[:1]
        say(f"{name}: {len(evaluation.outcomes)} simulations, {written[-1]}")
    written.append(write_index(out_dir))
    return written


def write_index(out_dir: Path) -> Path:
    """List the pages that are there, with how many of the paper's claims each trace bears out."""
    import pandas as pd

    rows = []
    for name, page in PAGES.items():
        path = out_dir / f"{name}.md"
        if not path.is_file():
            continue
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
        verdicts = [line.rsplit("|", 2)[1].strip() for line in lines]
        rows.append(
            {
                "page": f"[{name}]({name}.md)",
                "trace": page.about,
                "claims reached": str(verdicts.count(REACHED)),
                "not reached": str(verdicts.count(NOT_REACHED)),
                "not measured": str(verdicts.count(NOT_MEASURED)),
            }
        )
    text = "\n\n".join([_INDEX_TOP, markdown_frame(pd.DataFrame(rows)), _INDEX_END])
    path = out_dir / INDEX
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _measured(data: Path | None) -> Measurements:
    if data is None:
        return read_measurements(None, None, 0)
    return read_measurements(data / _SINGLES, data / _PAIRS, 0)


def main() -> None:
    """Write the pages that are named, by default all."""
    from lucid_cli.output import progress_reporter, say

    parser = argparse.ArgumentParser(prog="python -m experiments.reproduction.documents", description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(PAGES), help="default: all")
    parser.add_argument("--out", type=Path, default=DEFAULT_DIR)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args(sys.argv[1:])
    with progress_reporter() as progress:
        write_documents(chosen.out, chosen.pages, workers=chosen.workers, progress=progress, say=say)


if __name__ == "__main__":
    main()
