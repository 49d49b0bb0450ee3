"""Generated lists of docs/: the job table's columns, a site's keys, rights, policies' settings, decisions.

    python -m experiments.docs_index              # docs/formats.md, site_policy.md, ...
    python -m experiments.docs_index --modules    # prints every module with what it holds, folder by folder

Every sentence is the first of a docstring, or the title of a record.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from cluster_logs.job_facts import JOB_FACTS
from cluster_logs.job_table import NODES_SCHEMA, THROUGHPUT_SCHEMA, describe
from cluster_logs.node_states import NODE_STATES_SCHEMA
from cluster_logs.site.declared import Declared, hints_of, plain, table_of
from cluster_logs.site.left_out import slurm_keys
from cluster_logs.site.rules import Ignored, SiteRules
from cluster_logs.slurm_words import EXPORT_COMMAND
from experiments.pages import written
from experiments.policies.reference_page import policy_sections
from foundation.markdown import markdown_table
from lucid_airflow import settings, slurm_settings
from lucid_airflow.access.acts import roles_table
from parts.lending.load.table import INFERENCE_LOAD_SCHEMA

ROOT = Path(__file__).resolve().parents[1]
# From what runs on top to what all else stands on.
FOLDERS = (
    "dags",
    "parts",
    "plugins/lucid_airflow",
    "lucid_cli",
    "local_stack",
    "mlflow_access",
    "pipeline",
    "live_scheduler",
    "lucid_models",
    "simulator",
    "profiler_jobs",
    "cluster_logs",
    "foundation",
    "experiments",
)


def first_sentence(source: Path) -> str:
    """Return the first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.lstrip("# ").split(". ")[0].rstrip(".:")


def module_list() -> str:
    """Return every module with what it holds, folder by folder."""
    parts = []
    for top in FOLDERS:
        for folder in _folders(ROOT / top):
            name = folder.relative_to(ROOT).as_posix()
            lines = [f"{'##' if folder == ROOT / top else '###'} {name}/"]
            package = folder / "__init__.py"
            if package.exists():
                lines.append(f"{first_sentence(package)}.")
            modules = sorted(path for path in folder.glob("*.py") if _is_listed(path))
            rows = [(f"`{path.name}`", first_sentence(path)) for path in modules]
            lines.append(markdown_table(("module", "what it holds"), rows, align_numbers=False))
            parts.append("\n\n".join(line for line in lines if line))
    return "\n\n".join(parts)


def job_table() -> str:
    """Return the columns of the job table."""
    rows = [
        (
            f"`{fact.name}`",
            fact.kind.value + (f", {fact.unit}" if fact.unit else ""),
            "always" if fact.required else "may be null",
            fact.meaning,
        )
        for fact in JOB_FACTS
    ]
    return markdown_table(("column", "kind", "", "meaning"), rows, align_numbers=False)


def lake_table(schema: pa.Schema) -> str:
    """Return the columns of a table of the lake."""
    rows = [
        (
            f"`{column['name']}`",
            column["type"] + (f", {column['unit']}" if column["unit"] else ""),
            "may be null" if column["nullable"] else "always",
            column["description"],
        )
        for column in describe(schema).to_dict("records")
    ]
    return markdown_table(("column", "type", "", "meaning"), rows, align_numbers=False)


def site_table() -> str:
    """Return the keys of a site.toml: Slurm's key, and what a replay leaves out of it."""
    kinds: dict[str, type[Declared]] = {}
    for name, hint in hints_of(SiteRules).items():
        if (kind := table_of(hint)) is not None and kind is not Ignored:
            kinds[f"[{name}]" if isinstance(plain(hint), type) else f"[[{name}]]"] = kind
    rows = [
        (f"`{table}` `{name}`", f"`{key.key}`", key.left_out or "replayed")
        for table, kind in kinds.items()
        for name, key in slurm_keys(kind).items()
    ]
    return markdown_table(("key", "Slurm's key", "in a replay"), rows, align_numbers=False)


def environment_table() -> str:
    """Return what the environment of Airflow's processes sets, as the modules that read it say, and of what a
    part reads the part's page.
    """
    pages = [page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("parts/*/README.md"))]
    of_parts = [line for page in pages for line in page.splitlines() if "| LUCID_" in line]
    said = (line for module in (settings, slurm_settings) for line in str(module.__doc__).splitlines())
    lines = [*said, *of_parts]
    rows = [
        tuple(cell.strip() for cell in line.strip("| ").split(" | "))[:2]
        for line in lines
        if line.startswith("| ") and not line.startswith(("| what", "| ---"))
    ]
    return markdown_table(("variable", "what"), sorted((of, what) for what, of in rows), align_numbers=False)


def decision_list() -> str:
    """Return the decision records, by number."""
    records = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    titles = [record.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for record in records]
    return "\n".join(f"- [{title}]({record.name})" for title, record in zip(titles, records, strict=True))


def pages() -> dict[Path, str]:
    """Return each page that holds a generated list, as it should read."""
    docs = ROOT / "docs"
    tables = {
        docs / "formats.md": {
            "sacct command": f"```sh\n{EXPORT_COMMAND}\n```",
            "job table": job_table(),
            "nodes": lake_table(NODES_SCHEMA),
            "throughput": lake_table(THROUGHPUT_SCHEMA),
            "node states": lake_table(NODE_STATES_SCHEMA),
            "inference load": lake_table(INFERENCE_LOAD_SCHEMA),
            "environment": environment_table(),
        },
        docs / "site_policy.md": {"keys": site_table()},
        docs / "security.md": {"acts": roles_table()},
        docs / "policy_settings.md": {"policy settings": policy_sections()},
        docs / "decisions" / "README.md": {"decisions": decision_list()},
    }
    return {page: written(page.read_text(encoding="utf-8"), lists) for page, lists in tables.items()}


def _folders(top: Path) -> Iterator[Path]:
    yield top
    for folder in sorted(path for path in top.rglob("*") if path.is_dir()):
        if any(_is_listed(path) for path in folder.glob("*.py")):
            yield folder


def _is_listed(path: Path) -> bool:
    return path.name not in ("__init__.py", "__main__.py")


def main() -> None:
    """Write the pages anew, or print the list of modules."""
    if sys.argv[1:] == ["--modules"]:
        print(module_list())
        return
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
