"""A plan for nodes of several sizes and for partitions that share them: each GPU counts once."""

import csv
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from typer.testing import CliRunner

from lucid_cli.main import app
from pipeline.planning.planned_log import as_equal_nodes
from simulator.cluster.shared_nodes import NodeShape, share_nodes
from simulator.cluster.spec import ClusterSpec

NODES = 'node,gpus,partitions\nn1,8,"gpu,long"\nn2,4,"gpu,long"\nn3,4,long\nn4,8,other\n'


def cluster_of(*shapes: NodeShape) -> ClusterSpec:
    pools, shared = share_nodes(shapes)
    return ClusterSpec({name: len(sizes) for name, sizes in pools.items()}, 8, node_gpus=pools, shared=shared)


def test_shared_nodes_are_one_pool_that_is_counted_once() -> None:
    equal = as_equal_nodes(
        cluster_of(NodeShape(("a", "b"), 8, 3), NodeShape(("b",), 4, 3), NodeShape(("c",), 4))
    )
    assert equal.nodes == {"a+b": 4, "c": 1}  # 36 GPUs and 4, in nodes of 8
    assert equal.homes == {"c": "c", "a": "a+b", "b": "a+b"}
    assert len(equal.remarks) == 2


def lucid(command: str, folder: Path, **files: Path) -> str:
    given = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    log = ["--jobs", str(folder / "jobs.csv"), "--format", "reference-csv", "--policy", "easy"]
    said = CliRunner().invoke(app, [*command.split(), *log, *given])
    assert said.exit_code == 0, said.output
    return said.stdout


def test_a_plan_is_made_and_its_command_repeats_it(tmp_path: Path) -> None:
    random, at = Random(3), datetime(2026, 3, 1, tzinfo=UTC)
    rows: list[tuple[object, ...]] = [
        ("job_id", "virtual_cluster", "gpus", "submit_time", "duration_s", "estimated_duration_s")
    ]
    for number in range(120):
        at += timedelta(seconds=int(random.expovariate(1 / 700)))
        run_s = int(random.lognormvariate(8, 1))
        owner, gpus = random.choice(["gpu", "long", "other"]), random.choice([1, 2, 4, 8])
        rows.append((number, owner, gpus, at.isoformat(), run_s, run_s))
    with (tmp_path / "jobs.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    (tmp_path / "nodes.csv").write_text(NODES)
    said = lucid("plan --json --limit-s 3600", tmp_path, nodes=tmp_path / "nodes.csv", out=tmp_path / "plan")
    assert {answer["pool"] for answer in json.loads(said)["questions"]} >= {"cluster", "gpu+long", "other"}
    files = sorted((tmp_path / "plan" / "nodes").glob("*.csv"))
    lucid("simulate --gpus-per-node 8 --no-plot", tmp_path, nodes=files[-1], out=tmp_path / "again")
    (row,) = json.loads((tmp_path / "again" / "summary.json").read_text())
    assert row["jobs"] == 120
