"""How large the cluster is, asked for when its log is read: what a log states, and the file to write else."""

import csv
import io
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cluster_logs.host_lists import MOST_HOSTS, expand_hosts
from cluster_logs.ingest import IngestSettings
from cluster_logs.lake import Lake
from cluster_logs.readers.nodes_file import read_nodes_file
from foundation.errors import BadInputError
from lucid_cli.main import app
from pipeline.ingest.cluster_size import NodesNeededError, ShownSize, shown_sizes
from pipeline.ingest.ingestion import ClusterLog, ingest_cluster

HELIOS = "job_id,user,vc,gpu_num,state,submit_time,start_time,end_time\n"
AT = "2020-04-01 "


def helios_row(number: int, vc: str, gpus: int, start: str, end: str) -> str:
    return f'{number},u,"{vc}",{gpus},COMPLETED,{AT}00:00:00,{AT}{start},{AT}{end}\n'


def ingest(tmp_path: Path, text: str, source_format: str, **options: Any) -> dict[str, Any]:
    log = tmp_path / "log"
    log.write_text(text)
    lake = str(tmp_path / "lake")
    settings = IngestSettings(gpus_per_node=options.pop("gpus_per_node", 8))
    return ingest_cluster(
        ClusterLog(source_format, str(log), **options), cluster="mine", lake_uri=lake, settings=settings
    )


def asked_for(error: pytest.ExceptionInfo[NodesNeededError], tmp_path: Path) -> pd.DataFrame:
    """The file that the error says, read as the nodes file that it is to be."""
    text = str(error.value)
    path = tmp_path / "asked.csv"
    path.write_text(text[text.index("virtual_cluster,nodes") :])
    return read_nodes_file(str(path))


def swf(header: str, partitions: tuple[int, ...] = (1,)) -> str:
    rows = [
        f"{row} {row * 10} 5 60 4 -1 -1 4 100 -1 1 1 1 1 1 {partition} -1 -1\n"
        for row, partition in enumerate(partitions, start=1)
    ]
    return f"; Version: 2.2\n; UnixStartTime: 1000000000\n{header}" + "".join(rows)


def test_the_size_that_a_header_states_is_used_and_said(tmp_path: Path) -> None:
    report = ingest(tmp_path, swf("; MaxNodes: 16\n; MaxProcs: 64\n"), "swf")
    nodes = Lake(str(tmp_path / "lake")).read_nodes("mine")
    assert nodes.to_dict("list") == {"virtual_cluster": ["1"], "nodes": [16], "gpus_per_node": [4]}
    (remark,) = report["remarks"]
    assert "MaxNodes: 16, MaxProcs: 64" in remark
    assert ingest(tmp_path, swf("; MaxNodes: 99\n; MaxProcs: 99\n"), "swf")["remarks"] == []  # it stays


@pytest.mark.parametrize(
    ("header", "partitions"),
    [
        ("; MaxNodes: 16\n; MaxProcs: 64\n", (1, 2)),  # of which virtual cluster?
        ("; MaxNodes: 16\n; MaxProcs: 65\n", (1,)),  # no whole nodes
        ("; MaxNodes: many\n; MaxProcs: 64\n", (1,)),
        ("", (1,)),
    ],
)
def test_a_header_that_does_not_settle_it_is_not_used(
    header: str, partitions: tuple[int, ...], tmp_path: Path
) -> None:
    with pytest.raises(NodesNeededError, match="not how many nodes") as error:
        ingest(tmp_path, swf(header, partitions), "swf")
    assert set(asked_for(error, tmp_path)["virtual_cluster"]) == set(map(str, partitions))
    assert Lake(str(tmp_path / "lake")).dates("mine")  # the jobs are there


def test_the_file_that_is_asked_for_holds_the_jobs_at_once(tmp_path: Path) -> None:
    rows = [
        helios_row(1, "a,1", 8, "01:00:00", "02:00:00"),
        helios_row(2, "a,1", 8, "01:30:00", "03:00:00"),
        helios_row(3, "a,1", 16, "03:00:00", "04:00:00"),  # when the second has given its GPUs back
        helios_row(4, "b", 3, "01:00:00", "02:00:00"),
    ]
    with pytest.raises(NodesNeededError) as error:
        ingest(tmp_path, HELIOS + "".join(rows), "helios", gpus_per_node=4)
    assert "'a,1' (3 jobs, 16 GPUs at once)" in str(error.value)
    asked = asked_for(error, tmp_path)
    assert asked.to_dict("list") == {
        "virtual_cluster": ["a,1", "b"],
        "nodes": [4, 1],
        "gpus_per_node": [4, 4],
    }
    path = tmp_path / "asked.csv"
    assert ingest(tmp_path, HELIOS + "".join(rows), "helios", nodes_uri=str(path))["remarks"] == []


def test_nodes_of_other_virtual_clusters_are_refused_and_a_part_is_said(tmp_path: Path) -> None:
    log = (
        HELIOS + helios_row(1, "a", 1, "01:00:00", "02:00:00") + helios_row(2, "b", 1, "01:00:00", "02:00:00")
    )
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("virtual_cluster,nodes\nA,3\n")
    with pytest.raises(NodesNeededError, match="they name 'A'"):
        ingest(tmp_path, log, "helios", nodes_uri=str(nodes))
    nodes.write_text("virtual_cluster,nodes\na,3\n")
    assert ingest(tmp_path, log, "helios", nodes_uri=str(nodes))["remarks"] == [
        "No nodes are known of 'b': its 1 jobs are left out of every replay."
    ]


@pytest.mark.parametrize("row", ["b,-1", "b,", "a,2"])
def test_nodes_that_cannot_be_used_are_refused_before_a_job_is_written(row: str, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(f"virtual_cluster,nodes\na,3\n{row}\n")
    log = HELIOS + helios_row(1, "a", 1, "01:00:00", "02:00:00")
    with pytest.raises(BadInputError, match=r"nodes\.csv"):
        ingest(tmp_path, log, "helios", nodes_uri=str(nodes))
    assert not (tmp_path / "lake").exists()


def test_machines_that_a_log_names_are_counted(tmp_path: Path) -> None:
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]
    time = "2017-10-07 01:00:00"
    job = {"jobid": "1", "vc": "v", "user": "u", "status": "Pass", "submitted_time": time}
    job["attempts"] = [{"start_time": time, "end_time": "2017-10-07 02:00:00", "detail": detail}]
    with pytest.raises(NodesNeededError, match="2 machines named") as error:
        ingest(tmp_path, json.dumps([job]), "philly-json", gpus_per_node=2)
    assert asked_for(error, tmp_path)["nodes"].tolist() == [2]
    sacct = (
        "JobID|Partition|State|Submit|Start|End|AllocTRES|NodeList\n"
        f"1|p|COMPLETED|{AT}00:00:00|{AT}00:00:00|{AT}01:00:00|gres/gpu=24|gpu[01-03]\n"
        f"2|p|COMPLETED|{AT}00:00:00|||gres/gpu=1|None assigned\n"
    )
    with pytest.raises(NodesNeededError, match="3 machines named") as error:
        ingest(tmp_path, sacct, "sacct")
    assert "p" in set(asked_for(error, tmp_path)["virtual_cluster"])


SACCT = "JobID|Partition|State|Submit|Start|End|AllocTRES|NNodes|NodeList\n"


def sacct_row(number: int, partition: str, gpus: int, machines: str, hour: int) -> str:
    nodes = len(expand_hosts(machines))
    times = f"{AT}{hour:02}:00:00|{AT}{hour:02}:00:00|{AT}{hour:02}:59:00"
    tres = f"cpu=4,gres/gpu={gpus}" if gpus else "cpu=4"
    return f"{number}|{partition}|COMPLETED|{times}|{tres}|{nodes}|{machines}\n"


def test_machines_that_partitions_share_are_counted_once_with_the_gpus_that_jobs_held(tmp_path: Path) -> None:
    rows = [
        sacct_row(1, "day", 12, "gpu[1-3]", 1),  # four on each
        sacct_row(2, "night", 4, "gpu4", 1),
        sacct_row(3, "day", 4, "gpu4", 2),
        sacct_row(4, "night", 4, "gpu1", 3),
        sacct_row(5, "night", 0, "login1", 3),
    ]
    with pytest.raises(NodesNeededError) as error:
        ingest(tmp_path, SACCT + "".join(rows), "sacct")
    assert "2 of 4 machines are named by jobs of several virtual clusters" in str(error.value)
    asked = asked_for(error, tmp_path).set_index("virtual_cluster")
    assert asked["nodes"].to_dict() == {"day": 3, "night": 1}
    assert set(asked["gpus_per_node"]) == {4}


def test_the_largest_job_fits_its_share_of_machines(tmp_path: Path) -> None:
    rows = [sacct_row(1, "day", 8, "gpu[1-2]", 1), sacct_row(2, "night", 8, "gpu[1-2]", 2)]
    with pytest.raises(NodesNeededError) as error:
        ingest(tmp_path, SACCT + "".join(rows), "sacct")
    assert asked_for(error, tmp_path)["nodes"].tolist() == [2, 2]


def test_many_small_jobs_at_once_show_the_gpus_of_the_machines_that_they_name(tmp_path: Path) -> None:
    rows = [sacct_row(number, "p", 1, f"gpu{number % 2}", 1) for number in range(8)]
    with pytest.raises(NodesNeededError) as error:
        ingest(tmp_path, SACCT + "".join(rows), "sacct")
    assert asked_for(error, tmp_path).to_dict("list") == {
        "virtual_cluster": ["p"],
        "nodes": [2],
        "gpus_per_node": [4],
    }


@pytest.mark.parametrize(
    ("gpus", "nodes", "asked"),
    [(4, 1, (1, 4)), (6, 2, (2, 3)), (1, 1, (1, 8)), (4, 0, (1, 8))],
    ids=["a whole node", "two nodes", "one GPU says nothing", "unknown"],
)
def test_without_machines_jobs_on_a_node_show_its_gpus(
    gpus: int, nodes: int, asked: tuple[int, int], tmp_path: Path
) -> None:
    header = HELIOS.replace("gpu_num,", "gpu_num,node_num,")
    row = helios_row(1, "a", gpus, "01:00:00", "02:00:00").replace(f",{gpus},", f",{gpus},{nodes or ''},")
    with pytest.raises(NodesNeededError) as error:
        ingest(tmp_path, header + row, "helios")
    assert asked_for(error, tmp_path)[["nodes", "gpus_per_node"]].to_numpy().tolist() == [list(asked)]


def test_the_command_keeps_the_jobs_and_says_what_is_missing(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(HELIOS + helios_row(1, "a", 1, "01:00:00", "02:00:00"))
    command = ["ingest", "--format", "helios", "--input", str(log), "--cluster", "mine", "--json"]
    said = CliRunner().invoke(app, [*command, "--lake", str(tmp_path / "lake")])
    assert said.exit_code == 0, said.output
    document = json.loads(said.stdout)
    assert document["rows_kept"] == 1
    rows = list(csv.reader(io.StringIO(document["remarks"][0])))
    assert rows[-1] == ["a", "1", "8"]
    assert "virtual_cluster,nodes,gpus_per_node" in said.stderr


def test_a_log_that_is_not_there_asks_for_no_nodes(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no"):
        ingest(tmp_path, "\n", "helios")


def test_a_host_list_has_an_end() -> None:
    assert expand_hosts("gpu[01-03,7],login") == ["gpu01", "gpu02", "gpu03", "gpu7", "login"]
    assert expand_hosts("n[0-99999999999]") == []
    assert expand_hosts("n[²-³]") == []
    assert len(expand_hosts("n[0-999999]")) == MOST_HOSTS
    assert len(expand_hosts("a[0-9999]b[0-9999]c[0-9999]")) <= MOST_HOSTS


MOMENTS = st.one_of(st.none(), st.integers(0, 12).map(lambda second: datetime.fromtimestamp(second, UTC)))
SHOWN_JOBS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]), st.integers(0, 9), st.integers(0, 3) | st.none(), MOMENTS, MOMENTS
    )
)


@given(SHOWN_JOBS, st.integers(0, 9))
def test_what_jobs_show_is_what_a_walk_through_their_starts_and_ends_counts(
    rows: list[tuple[str, int, int | None, datetime | None, datetime | None]], cut: int
) -> None:
    rows = [row for row in rows if None in row[3:] or row[3] <= row[4]]  # type: ignore[operator]
    table = pa.table(
        {
            "virtual_cluster": pa.array([row[0] for row in rows], pa.string()),
            "gpus": pa.array([row[1] for row in rows], pa.int32()),
            "nodes": pa.array([row[2] for row in rows], pa.int32()),
            "start_time": pa.array([row[3] for row in rows], pa.timestamp("us", "UTC")),
            "end_time": pa.array([row[4] for row in rows], pa.timestamp("us", "UTC")),
            "duration_s": pa.nulls(len(rows), pa.float64()),
        }
    )
    seen = shown_sizes([table.slice(0, cut), table.slice(cut)])
    assert list(seen) == sorted(seen, key=lambda name: (-seen[name].jobs, name))
    for name in {row[0] for row in rows}:
        jobs = [row[1:] for row in rows if row[0] == name]
        ran = [(gpus, nodes) for gpus, nodes, start, _ in jobs if start is not None]
        largest = max((gpus for gpus, _ in ran), default=0)
        on_a_node = max((math.ceil(gpus / nodes) for gpus, nodes in ran if nodes), default=0)
        known = [(gpus, start, end) for gpus, _, start, end in jobs if start is not None and end is not None]
        at_once = [sum(gpus for gpus, start, end in known if start <= moment < end) for _, moment, _ in known]
        assert seen[name] == ShownSize(len(jobs), max([largest, *at_once]), largest, on_a_node)
