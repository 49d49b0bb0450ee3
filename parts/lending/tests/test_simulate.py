"""`lucid simulate --format lyra-csv` from a shell: what it says, and what it refuses."""

from pathlib import Path

import pytest

from tests.command_line import Lucid
from tests.needs_part import needs_part

JOBS = Path(__file__).parents[3] / "tests" / "cluster_logs" / "data" / "lyra-csv.csv"
COLUMNS = (
    *("preemptions", "reclaims", "scaling_operations"),
    *("training_usage_pct", "on_loan_usage_pct", "all_usage_pct"),
)
REPLAY = ("simulate", "--format", "lyra-csv", "--jobs", str(JOBS), "--out", "out", "--no-plot")
SERVERS = ("--training-servers", "2", "--inference-servers", "10", "--inference", "load.csv")


@pytest.fixture
def in_folder(lucid: Lucid, tmp_path: Path) -> Lucid:
    (tmp_path / "load.csv").write_text("time_s,usage,gap\n0,0.5,0\n300,1,0\n600,0.5,1\n")
    return lucid


def test_each_policy_says_how_busy_servers_are_and_what_reclaiming_cost(
    in_folder: Lucid, tmp_path: Path
) -> None:
    switches = (
        "--scenario",
        "advanced",
        "--scaling",
        "on",
        "--reclaim",
        "reference",
        "--job-share",
        "loss=0.2",
    )
    told = in_folder(*REPLAY, *SERVERS, "--policy", "lyra", "fifo", *switches, "--json")
    rows = told.json
    assert [row["policy"] for row in rows] == ["lyra", "fifo"]
    assert all(set(COLUMNS) <= set(row) for row in rows)
    assert rows[0]["rules"] == "lyra"
    assert (tmp_path / "out" / "jobs_lyra.csv").is_file()
    table = in_folder(*REPLAY, *SERVERS, "--policy", "lyra", "--loaning", "off").out
    assert "Servers on loan" in table


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--training-servers", "2"), "--inference FILE"),
        (SERVERS[:4], "--inference FILE"),
        ((*SERVERS, "--job-share", "elastic"), "NAME=SHARE"),
        ((*SERVERS, "--job-share", "elastic=2"), "elastic_share is 2.0"),
        ((*SERVERS, "--job-share", "speed=0.2"), "names are elastic"),
        ((*SERVERS, "--reclaim", "best"), "rule of reclaiming 'best'"),
        ((*SERVERS, "--gpus", "8"), "--training-servers N"),
        (SERVERS[2:], "--training-servers N"),
        ((*SERVERS[:5], "gone.csv"), "is not a file"),
    ],
)
def test_half_of_what_is_needed_is_refused_with_the_remedy(
    in_folder: Lucid, options: tuple[str, ...], says: str
) -> None:
    told = in_folder(*REPLAY, *options, "--policy", "lyra")
    assert told.code != 0
    assert says in " ".join(told.err.split())


PLAIN = Path(__file__).parents[3] / "tests" / "cluster_logs" / "data" / "philly-csv.csv"


def test_any_policy_borrows_for_jobs_of_any_format(in_folder: Lucid) -> None:
    log = ("--jobs", str(PLAIN), "--format", "philly-csv", "--gpus", "8", "--out", "out", "--no-plot")
    lent = (*log, *SERVERS[2:], "--policy", "fifo", "lucid", "--setting", "fifo.headroom=0.3")
    fifo, lucid = in_folder("simulate", *lent, "--loaning", "on", "--json").json
    assert 0 < fifo["servers_on_loan_mean"] < lucid["servers_on_loan_mean"]
    alone, _ = in_folder("simulate", *lent, "--loaning", "off", "--json").json
    assert alone["servers_on_loan_mean"] == 0
    for options, says in (
        (("--policy", "lyra", *SERVERS[2:]), "the log has none"),
        (("--policy", "fifo"), "none to lend"),
        (("--policy", "fifo", "--loaned-workers", "2", *SERVERS[2:]), "does what one of their own does"),
        (("--policy", "fifo", "--scenario", "ideal", *SERVERS[2:]), "the log has none"),
    ):
        told = in_folder("simulate", *log, *options, "--loaning", "on")
        assert told.code == 1
        assert says in " ".join(told.err.split())


@needs_part("experiments")
def test_rules_that_know_no_servers_on_loan_are_refused(in_folder: Lucid) -> None:
    log = ("--jobs", str(PLAIN), "--format", "philly-csv", "--gpus", "8", "--out", "out", "--no-plot")
    told = in_folder(
        "simulate", *log, "--policy", "fifo", "--rules", "pcs-artifact", *SERVERS[2:], "--loaning", "on"
    )
    assert told.code == 1
    assert "knows no servers on loan" in " ".join(told.err.split())


def test_a_policy_that_cannot_place_workers_on_servers_on_loan_is_refused(in_folder: Lucid) -> None:
    told = in_folder(*REPLAY, *SERVERS, "--policy", "tiresias", "--loaning", "on")
    assert told.code == 1
    assert "does not place jobs in workers" in " ".join(told.err.split())
