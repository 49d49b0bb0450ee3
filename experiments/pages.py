"""Generated tables in hand-written pages: a study prints them, or puts them between a page's markers."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from foundation.errors import LucidError
from foundation.run_manifest import git_commit


def written(page: str, tables: Mapping[str, str]) -> str:
    """Return the page with each table between its markers; raises LucidError where they are missing."""
    for name, table in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, found, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found and found_end):
            raise LucidError(
                f"The page has no markers {begin} and {end}.", remedy="Put them where it belongs."
            )
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page


def publish(tables: Mapping[str, str], page: Path | None) -> None:
    """Print the tables, or write them into a page."""
    if page is None:
        print("\n\n".join(tables.values()))
    else:
        page.write_text(written(page.read_text(encoding="utf-8"), tables), encoding="utf-8")


def study_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser that all studies share: the reference data, and the page to write into."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("data", nargs="?", type=Path, default=os.environ.get("LUCID_REFERENCE_DATA"))
    parser.add_argument("--write", type=Path, help="the page to write the tables into")
    return parser


def run_study(module: str, description: str | None, tables: Callable[[Path], Mapping[str, str]]) -> None:
    """Be the command of a study whose tables are made from the reference data alone; exits."""
    parser = study_parser(module, description)
    chosen = parser.parse_args()
    if chosen.data is None:
        parser.error("name the reference data, or set LUCID_REFERENCE_DATA")
    try:
        publish(tables(Path(chosen.data)), chosen.write)
    except LucidError as error:
        sys.exit(f"Error: {error}")


def commit_text() -> str:
    """The commit of this code, shortened, and whether files differ from it."""
    own_commit = git_commit(Path(__file__).resolve().parent)
    commit = str(own_commit["git_commit"] or "unknown")[:12]
    return commit + (" and uncommitted changes" if own_commit["changed_files"] else "")


def machine_text() -> str:
    """The machine that this runs on, as pages with measured times say it."""
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python "
        f"{platform.python_version()}"
    )
