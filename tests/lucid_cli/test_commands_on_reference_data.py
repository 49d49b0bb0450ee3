"""The commands' contract on public logs: what a script that depends on it runs.

Windows are small, so that all of it costs little; the figures themselves are other tests' matter.
"""

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import typer

from foundation.parts import installed_parts
from lucid_cli.main import app
from tests.command_line import Said, Shell
from tests.fixtures import MlflowServer
from tests.reference import ROOT

PHILLY = ROOT / "data" / "philly"
THROUGHPUT = ROOT / "data" / "venus" / "cluster_throughput.csv.gz"
PACKING = ROOT / "data" / "packing"
PCS_TRACE = ROOT / "data" / "pcs" / "trace_0e4a51.csv.gz"
SWF_LOG = ROOT / "data" / "swf" / "NASA-iPSC-1993-3.1-cln.swf.gz"
LYRA = ROOT / "data" / "lyra"
GRAHAM = ROOT / "data" / "drac_slurm"
# The first lines of public files, for what takes long on all of them; of ten-minute bins, five weeks; of a
# queue, six noons.
CUT_LOG, CUT_TRACE, CUT_TABLE = "week.swf", "trace.csv", "throughput.csv"
CUT_TRAINING, CUT_INFERENCE = "training.csv", "inference.csv"
CUT_QUEUE, CUT_SNAPSHOTS = "queue.csv", "snapshots.csv"
CUTS = {
    CUT_LOG: (SWF_LOG, 1_400),
    CUT_TRACE: (PCS_TRACE, 80),
    CUT_TABLE: (THROUGHPUT, 1 + 35 * 144),
    CUT_TRAINING: (LYRA / "jobs.csv.gz", 400),
    CUT_INFERENCE: (LYRA / "inference_load.csv.gz", 1 + 5 * 288 + 36),
    CUT_QUEUE: (GRAHAM / "graham_jobs.csv.gz", 4_000),
    CUT_SNAPSHOTS: (GRAHAM / "graham_snapshots.csv.gz", 4_000),
}

REPORT = "model version metrics baselines"
SUMMARY = (
    "policy jobs mean_jct_s mean_queuing_delay_s p999_queuing_delay_s makespan_s preemptions cpu_s "
    "jobs_per_cpu_s"
)
SCHEDULE = (
    "job_id virtual_cluster gpus submit_time_s first_start_time_s end_time_s queuing_delay_s jct_s "
    "preemptions"
)
FORECAST = "series lead model mae fit_s predict_ms"
ESTIMATE = "model kendall_tau spearman mae_log10 r2_mean_head coverage_p90 fit_s"
JUDGEMENT = "model protocol accuracy severe_errors precision_mean recall_mean precision_min recall_min"
LOANS = "reclaims scaling_operations training_usage_pct on_loan_usage_pct all_usage_pct"
SINGLES, PAIRS = PACKING / "single_jobs_rtx3090.csv", PACKING / "colocated_pairs_rtx3090.csv"
MEASURED = ("--singles", SINGLES, "--pairs", PAIRS)
DAYS = ("--start", "2017-10-01", "--end", "2017-10-06")
DAY = ("--start", "2017-10-05", "--end", "2017-10-05T23:59:00")
PHILLY_LOG = ("--format", "philly-csv", "--jobs", PHILLY / "philly_jobs.csv.gz")
PHILLY_NODES = ("--nodes", PHILLY / "philly_vc_nodes.csv")
PHILLY_COUNTS = PHILLY / "philly_node_sequence.csv.gz"


@dataclass(frozen=True)
class Command:
    """Words after `lucid`; the fields of the document (of its rows, if `rows` names where they are)."""

    words: tuple[str | Path, ...]
    fields: str
    rows: str | None = None
    needs: tuple[str, ...] = ()  # commands before it
    check: Callable[[Any, Path], object] = lambda document, folder: True


def models_of(document: Any, *expected: str) -> bool:
    return set(expected) <= {row["model"] for row in document["rows"]}


def both_protocols(document: Any, _: Path) -> bool:
    return {"loo", "leave_model_out"} == {
        row["protocol"] for row in document["rows"] if row["model"] == "tree"
    }


def written(folder: str, rows: str) -> Callable[[Any, Path], bool]:
    """Whether a paper's evaluation has rows and left its report and every table that it names."""

    def check(document: Any, below: Path) -> bool:
        assert document[rows]
        assert all((below / file).is_file() for file in document["files"])
        return (below / folder / "report.md").is_file() and (below / folder / "report.html").is_file()

    return check


def schedules(folder: str, policies: str, more: str = "") -> Callable[[Any, Path], bool]:
    """Whether each policy left a table with the contract's columns, and the summary is also on disk."""

    def check(document: Any, below: Path) -> bool:
        assert [row["policy"] for row in document] == policies.split()
        written = json.loads((below / folder / "summary.json").read_text())
        assert [[row[name] for name in SUMMARY.split()] for row in written] == [
            [row[name] for name in SUMMARY.split()] for row in document
        ]
        for row in document:
            with (below / folder / f"jobs_{row['policy']}.csv").open(newline="") as file:
                jobs = list(csv.DictReader(file))
            assert set(f"{SCHEDULE} {more}".split()) <= set(jobs[0])
            assert len(jobs) == row["jobs"] > 0
        return True

    return check


def all_rows_are_accounted_for(document: Any, _: Path) -> bool:
    parts = ("rows_kept", "rows_quarantined", "rows_skipped")
    return document["rows_in"] == sum(document[part] for part in parts) > document["rows_kept"] > 3_000


LAKE = ("--lake", "lake")
PHILLY_CLUSTER = ("--cluster", "philly")
COMMANDS = {
    "ingest": Command(
        ("ingest", "--format", "philly-csv", "--input", PHILLY / "philly_jobs.csv.gz", *PHILLY_CLUSTER, *LAKE,
         *PHILLY_NODES, *DAYS),
        "rows_in rows_kept rows_quarantined rows_skipped reasons tables",
        check=all_rows_are_accounted_for,
    ),
    "synthesize": Command(
        ("synthesize", "--like", "helios-venus", "--days", "1", "--seed", "1", "--lake", "synthetic",
         "--out", "log.csv", "--format", "helios"),
        "jobs virtual_clusters statistics",
        check=lambda document, folder: (folder / "log.csv").is_file(),
    ),
    "validate": Command(
        ("validate", *PHILLY_CLUSTER, *LAKE), "success expectations docs", needs=("ingest",),
        check=lambda document, folder: document["success"],
    ),
    "train packing": Command(
        ("train", "packing", *MEASURED, *PHILLY_CLUSTER, *LAKE), REPORT, needs=("ingest",)
    ),
    "train throughput": Command(
        ("train", "throughput", *PHILLY_CLUSTER, *LAKE, "--hold-out-days", "1"), REPORT, needs=("ingest",)
    ),
    "train duration": Command(
        ("train", "duration", *PHILLY_CLUSTER, *LAKE, "--hold-out-days", "3"), REPORT, needs=("ingest",)
    ),
    "evaluate throughput": Command(
        ("evaluate", "throughput", "--input", THROUGHPUT, "--no-rivals",
         "--lead", "g5"),
        FORECAST,
        rows="rows",
        check=lambda document, _: models_of(
            document, "ebm", "lucid_published", "last_value", "rolling_median_12"
        ),
    ),
    "evaluate duration": Command(
        ("evaluate", "duration", "--format", "swf", "--input", CUT_LOG, "--train-days", "5"),
        ESTIMATE,
        rows="rows",
        check=lambda document, _: models_of(
            document, "ebm", "ewma", "tsafrir", "helios_mix", "lightgbm", "rf"
        ),
    ),
    "evaluate packing": Command(
        ("evaluate", "packing", *MEASURED, "--no-rivals"), JUDGEMENT, rows="rows", check=both_protocols
    ),
    "evaluate inference": Command(
        ("evaluate", "inference", "--input", CUT_INFERENCE, "--no-rivals"), "model mse", rows="rows"
    ),
    "evaluate waits": Command(
        ("evaluate", "waits", "--jobs", CUT_QUEUE, "--snapshots", CUT_SNAPSHOTS, "--train-snapshots", "5",
         "--no-rivals"),
        "model mse_log10 within_x2 coverage_p90",
        rows="rows",
        check=lambda document, _: models_of(document, "ebm", "partition_median"),
    ),
    "train waits": Command(
        ("train", "waits", "--jobs", CUT_QUEUE, "--snapshots", CUT_SNAPSHOTS, "--cluster", "graham"), REPORT
    ),
    "live waits": Command(
        ("live", "waits", "--jobs", CUT_QUEUE, "--snapshots", CUT_SNAPSHOTS, "--cluster", "graham"),
        "job_id partition waited_s p50_s p90_s",
        rows="waits",
        needs=("train waits",),
        check=lambda document, _: "learned wait model lucid-waits-graham version" in document["said_by"],
    ),
    "reproduce lucid": Command(
        ("reproduce", "lucid", *PHILLY_LOG, *PHILLY_NODES, *DAY, "--like", "philly", "--policy", "fifo",
         "--policy", "sjf", "--workers", "1", "--out", "paper"),
        "title report html files overall claims simulations",
        check=written("paper", "overall"),
    ),
    "reproduce pcs": Command(
        ("reproduce", "pcs", "--jobs", CUT_TRACE, "--gpus", "8", "--evaluations", "3",
         "--jobs-per-sample", "30", "--parameter-evaluations", "2", "--foretold-max", "10",
         "--workers", "1", "--folder", "kept", "--out", "pcs-paper"),
        "title files policies front",
        check=written("pcs-paper", "policies"),
    ),
    "replay-updates": Command(
        ("replay-updates", "--throughput", CUT_TABLE, "--test-days", "7", "--interval", "weekly"),
        "updates over_time throughput remarks files",
        check=lambda document, folder: document["throughput"],
    ),
    "metrics show": Command(
        ("metrics", "show", *PHILLY_CLUSTER, *LAKE), "cluster gpu_jobs gpu_jobs_with_own_profile days",
        needs=("ingest",),
    ),
    "profile solo": Command(
        ("profile", "solo", "--device", "simulated", "--workloads", "ResNet18*", "--out", "gpu.parquet"),
        "device table measured failed left solo_profiles simulated finished",
        check=lambda document, folder: document["finished"] and len(document["measured"]) == 6,
    ),
    "profile summary": Command(
        ("profile", "summary", "gpu.parquet"), "solo_profiles pair_profiles rejected simulated",
        needs=("profile solo",), check=lambda document, folder: document["solo_profiles"] == 6,
    ),
    "simulate": Command(
        ("simulate", *PHILLY_LOG, *PHILLY_NODES, *DAY, "--policy", "fifo", "lucid", "--no-plot",
         "--out", "what-if"),
        SUMMARY,
        rows="",
        check=schedules("what-if", "fifo lucid"),
    ),
    "simulate --rules lucid-artifact": Command(
        ("simulate", "--format", "reference-csv", "--jobs", ROOT / "reference" / "lucid" / "week_jobs.csv.gz",
         "--nodes", ROOT / "reference" / "lucid" / "week_nodes.csv", "--rules", "lucid-artifact",
         "--policy", "qssf", "--no-plot", "--out", "artifact"),
        SUMMARY,
        rows="",
        check=schedules("artifact", "qssf"),
    ),
    "simulate --rules pcs-artifact": Command(
        ("simulate", "--format", "pcs-csv", "--jobs", PCS_TRACE, "--gpus", "64", "--rules", "pcs-artifact",
         "--policy", "srsf", "pcs", "--predict", "--no-plot", "--out", "elastic"),
        SUMMARY,
        rows="",
        check=schedules("elastic", "srsf pcs", "predicted_end_time_s fair_time_s"),
    ),
    "simulate lyra-csv": Command(
        ("simulate", "--format", "lyra-csv", "--jobs", CUT_TRAINING, "--inference", CUT_INFERENCE,
         "--training-servers", "8", "--inference-servers", "12", "--policy", "lyra", "fifo", "opportunistic",
         "--scenario", "basic", "--loaning", "on", "--scaling", "on", "--reclaim", "exact", "--no-plot",
         "--out", "loans"),
        f"{SUMMARY} {LOANS}",
        rows="",
        check=schedules("loans", "lyra fifo opportunistic"),
    ),
    "nodes replay": Command(
        ("nodes", "replay", "--series", PHILLY_COUNTS, "--control", "buffer", "--buffer", "20",
         "--boot-s", "300", "--gaps", "hold", "--start", "2017-12-01", "--end", "2017-12-03",
         "--out", "asleep"),
        "asleep_mean wake_ups_per_day nodes_per_wake_up utilisation_before_pct utilisation_after_pct "
        "shortages node_minutes_short",
        check=lambda document, folder: (folder / "asleep" / "bins.csv").read_text().startswith(
            "time,running,total,forecast,active"
        ),
    ),
    "plan": Command(
        ("plan", *PHILLY_CLUSTER, *LAKE, "--limit-s", "600", "--points", "2", "--cluster-only",
         "--workers", "1", "--out", "plan"),
        "questions front",
        needs=("ingest",),
        check=lambda document, _: {"nodes", "p95_wait_s", "low", "high", "kwh"} <= set(document["front"][0]),
    ),
    "ingest node-sequence": Command(
        ("ingest", "--format", "node-sequence", "--input", PHILLY_COUNTS, "--cluster", "counted", *LAKE),
        "rows_in rows_kept rows_quarantined rows_skipped",
    ),
    "nodes show": Command(
        ("nodes", "show", "--cluster", "counted", *LAKE), "cluster", needs=("ingest node-sequence",)
    ),
    "ingest inference-load": Command(
        ("ingest", "--format", "inference-load", "--input", CUT_INFERENCE, "--cluster", "serving", *LAKE),
        "rows_in rows_kept rows_quarantined rows_skipped",
    ),
    "inference show": Command(
        ("inference", "show", "--cluster", "serving", *LAKE), "cluster", needs=("ingest inference-load",)
    ),
    "train inference": Command(
        ("train", "inference", "--cluster", "serving", *LAKE, "--hold-out-days", "3"), REPORT,
        needs=("ingest inference-load",),
    ),
    "sweep": Command(
        ("sweep", *PHILLY_LOG, *PHILLY_NODES, *DAY, "--policy", "fifo", "sjf", "--seed", "0,1",
         "--workers", "1", "--out", "sweep"),
        "runs executed reused failed rows",
        check=lambda document, folder: (folder / "sweep" / "results.csv").is_file(),
    ),
}  # fmt: skip

# Who runs the other commands, and why not here.
ELSEWHERE = {
    "backup": "tests/local_stack/test_backup.py",
    "evaluate all": "minutes; it writes docs/model_quality.md, and each of its parts stands above",
    "evaluate limits": "tests/experiments/test_evaluate_limits.py",
    "evaluate sampling": "minutes; tests/profiler_jobs",
    "evaluate utilisation": "needs PyTorch's graphs: parts/horus/tests",
    "explain": "tests/lucid_cli/test_release_commands.py",
    "inference ingest": "from a Prometheus: tests/pipeline/ingest",
    "keys": "tests/lucid_cli/test_keys.py",
    "live": "beside schedulers: tests/live_scheduler, tests/slurm",
    "metrics ingest": "from a Prometheus: tests/pipeline/ingest",
    "monitor": "tests/lucid_cli/test_release_commands.py",
    "nodes ingest": "from Slurm or a Prometheus: tests/slurm, tests/pipeline/ingest",
    "profile": "tests/lucid_cli/test_cli_profile.py",
    "prune": "tests/pipeline/retention",
    "release": "tests/lucid_cli/test_release_commands.py",
    "remove-cluster": "tests/cluster_logs/test_provenance.py",
    "reproduce helios": "a minute; tests/experiments/test_reproduce_helios.py evaluates it on fewer days",
    "reproduce lyra": "minutes; tests/experiments/test_reproduce_lyra.py evaluates a day",
    "restore": "tests/local_stack/test_backup.py",
    "status": "tests/lucid_cli/test_status.py",
    "train nodes": "needs weeks of counts: tests/pipeline/training",
    "tune": "tests/pipeline/studies/test_tuning.py",
    "site": "needs a site's files: tests/lucid_cli/test_site_cli.py, tests/slurm/test_site_reading.py",
}


class Script:
    """Runs commands in one folder, each once."""

    def __init__(self, shell: Shell, commands: Mapping[str, Command] = COMMANDS) -> None:
        self.shell = shell
        self.commands = commands
        self.done: dict[str, Said] = {}

    def run(self, name: str) -> Said:
        """Run a command once, after those that it needs."""
        if name not in self.done:
            command = self.commands[name]
            for before in command.needs:
                assert self.run(before).code == 0, self.done[before].err
            self.done[name] = self.shell.run(*command.words, "--json")
        return self.done[name]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory, own_mlflow_server: MlflowServer) -> Script:
    folder = tmp_path_factory.mktemp("shell")
    for name, (whole, lines) in CUTS.items():
        with gzip.open(whole, "rt", encoding="latin-1") as file:
            (folder / name).write_text("".join(islice(file, lines)))
    return Script(Shell(folder, own_mlflow_server.uri, LUCID_REFERENCE_DATA=str(ROOT)))


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_the_contract_promises(script: Script, name: str) -> None:
    says_what_it_promises(script, name)


def says_what_it_promises(script: Script, name: str) -> None:
    """Run a command and compare its document with the contract."""
    command = script.commands[name]
    said = script.run(name)
    assert said.code == 0, said.err
    document = said.json  # one document, and nothing else
    rows = document[command.rows] if command.rows else document
    for row in rows if command.rows is not None else [document]:
        assert set(command.fields.split()) <= set(row), name
    assert command.check(document, script.shell.folder)


def test_no_command_is_forgotten() -> None:
    """A command that is added is run here, or it is said what runs it; a part's are its own tests' matter."""

    def leaves(command: Any, *words: str) -> Iterator[str]:
        below = getattr(command, "commands", None)
        if below is None:
            yield " ".join(words)
        for name, each in (below or {}).items():
            yield from leaves(each, *words, name)

    run = {" ".join(map(str, command.words)) for command in COMMANDS.values()} | set(ELSEWHERE)
    of_parts = tuple(command.name for part in installed_parts() for command in part.commands)
    whole = {name for name in leaves(typer.main.get_command(app)) if not name.startswith(of_parts)}
    covered = {
        name
        for name in whole
        for each in run
        if f"{name} ".startswith(f"{each} ") or f"{each} ".startswith(f"{name} ")
    }
    assert whole == covered
