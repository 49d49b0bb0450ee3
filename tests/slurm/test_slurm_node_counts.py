"""A live Slurm's nodes counted into the lake, and the same from what its commands wrote to files."""

import subprocess
from pathlib import Path

import pytest

from cluster_logs.lake import Lake
from cluster_logs.slurm_nodes import SINFO, read_slurm_nodes
from foundation.errors import ServiceUnavailableError
from live_scheduler.slurm.commands import call
from pipeline.ingest.node_states import NodeStatesSource, ingest_node_states
from tests.slurm.private_slurm import Node, Partition, PrivateSlurm

pytestmark = pytest.mark.slow


def counts(lake: Lake) -> dict[str | None, dict[str, int]]:
    """The newest count of each virtual cluster; None: of all nodes."""
    states = lake.read_node_states("mini").groupby("virtual_cluster", dropna=False).last()
    columns = ["total", "busy", "idle", "down", "asleep", "booting"]
    return {
        name if isinstance(name, str) else None: {column: int(row[column]) for column in columns}
        for name, row in states.iterrows()
    }


def test_busy_idle_and_drained_nodes_are_counted_as_slurm_has_them(
    slurm: PrivateSlurm, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    job = call(
        ["sbatch", "--parsable", "-p", "vc1", "--gres=gpu:1", "--output=/dev/null", "--wrap", "sleep 600"]
    ).strip()
    slurm.wait_for(lambda: "R" in call(["squeue", "-h", "-j", job, "-o", "%t"]), "the job runs")
    call(["scontrol", "update", "NodeName=p1", "State=DRAIN", "Reason=State=IDLE Partitions=vc9"])
    try:
        report = ingest_node_states(lake_uri=lake.uri, cluster="mini", source=NodeStatesSource(slurm=True))
        saved = read_slurm_nodes(call(["scontrol", "show", "node"]), "nodes.txt", at=report.first)
    finally:
        call(["scontrol", "update", "NodeName=p1", "State=RESUME"])

    none = {"down": 0, "asleep": 0, "booting": 0}
    assert counts(lake) == {
        None: {"total": 4, "busy": 1, "idle": 2, **none, "down": 1},
        "vc1": {"total": 2, "busy": 1, "idle": 1, **none},
        "prof": {"total": 2, "busy": 0, "idle": 1, **none, "down": 1},
    }
    # What scontrol writes is the same count as sinfo's.
    files_changed = lake.write_node_states("mini", saved)
    assert (files_changed, report.counts, report.rows_in) == (0, 3, 3)


def test_a_saved_history_of_answers_is_read_as_it_was_written(slurm: PrivateSlurm, tmp_path: Path) -> None:
    command = " ".join(f"'{word}'" for word in SINFO)
    history = tmp_path / "nodes.txt"
    script = f'for at in 00 01; do echo "# 2026-03-01T12:$at:00Z"; {command}; done > {history}'
    subprocess.run(["bash", "-c", script], check=True, env=slurm.environment())
    lake = Lake(str(tmp_path / "lake"))

    report = ingest_node_states(
        lake_uri=lake.uri, cluster="mini", source=NodeStatesSource(slurm_files=(str(history),))
    )

    assert (report.counts, report.rows_in, report.rows_kept) == (6, 6, 6)
    assert counts(lake)[None]["total"] == 4


def test_nodes_that_slurm_powered_down_are_asleep(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "SuspendProgram": "/bin/true",
        "ResumeProgram": "/bin/true",
        "SuspendTime": "100000",
        "SuspendTimeout": "1",
        "ResumeTimeout": "600",
    }
    with PrivateSlurm(
        own_folder, (Node("n1"), Node("n2"), Node("n3")), (Partition("vc1", ("n1", "n2", "n3")),),
        settings=settings,
    ) as slurm:  # fmt: skip
        environment = slurm.environment()
        monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
        monkeypatch.setenv("PATH", environment["PATH"])
        lake = Lake(str(own_folder / "lake"))

        def counted() -> dict[str, int]:
            ingest_node_states(lake_uri=lake.uri, cluster="mini", source=NodeStatesSource(slurm=True))
            return counts(lake)["vc1"]

        call(["scontrol", "update", "NodeName=n[1-2]", "State=POWER_DOWN"])
        slurm.wait_for(lambda: counted()["asleep"] == 2, "two nodes sleep")
        # A node that is still on its way there would drop the wish to wake.
        slurm.wait_for(lambda: call(SINFO).count("idle~") == 2, "both are down")
        call(["scontrol", "update", "NodeName=n1", "State=POWER_UP"])
        slurm.wait_for(lambda: counted()["booting"] == 1, "one boots")
        assert counted() == {"total": 3, "busy": 0, "idle": 1, "down": 0, "asleep": 1, "booting": 1}


def test_a_slurm_that_does_not_answer_changes_nothing(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PrivateSlurm(
        own_folder, (Node("n1"),), (Partition("vc1", ("n1",)),), settings={"MessageTimeout": "2"}
    ) as slurm:
        environment = slurm.environment()
        monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
        slurm.stop_controller()
        lake = own_folder / "lake"
        with pytest.raises(ServiceUnavailableError):
            ingest_node_states(lake_uri=str(lake), cluster="mini", source=NodeStatesSource(slurm=True))
        assert not lake.exists()
