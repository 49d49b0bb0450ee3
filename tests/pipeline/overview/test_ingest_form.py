"""What a person who brings a log chooses from, and what a cluster's name stands for."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cluster_logs.lake import Lake
from foundation.errors import BadInputError
from foundation.site import Site
from pipeline.overview.ingest_form import read_choices, read_nodes, read_target


def test_files_below_the_roots_are_listed_and_hidden_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "inbox" / "deep").mkdir(parents=True)
    (tmp_path / "inbox" / ".secret").mkdir()
    for name in ("b.csv", "deep/a.csv", ".hidden", ".secret/key"):
        (tmp_path / "inbox" / name).write_text("x")
    seen = read_choices(lake_uri=str(tmp_path / "lake"), roots=[str(tmp_path / "inbox"), "s3://logs"])
    assert [Path(file.path).name for file in seen.files] == ["b.csv", "a.csv"]
    assert seen.roots[1] == "s3://logs"
    assert "philly-csv" in {each.name for each in seen.formats}
    assert "nodes-csv" not in {each.name for each in seen.formats}


def test_a_name_says_what_the_lake_holds_under_it(tmp_path: Path, small_tables: Any) -> None:
    uri = str(tmp_path / "lake")
    Lake(uri).write_jobs("small", small_tables.jobs.assign(source_file="log.csv"))
    Lake(uri).write_jobs("made", small_tables.jobs)
    assert read_target(Site(lake=uri, cluster="new")).data is None
    held = read_target(Site(lake=uri, cluster="small"))
    assert held.problem is None
    assert held.data is not None
    assert (held.data.days, held.data.nodes) == (10, None)
    assert "made log" in str(read_target(Site(lake=uri, cluster="made")).problem)
    assert "Use a letter or digit" in str(read_target(Site(lake=uri, cluster="../etc")).problem)


def test_a_file_of_nodes_says_the_size(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    pd.DataFrame({"virtual_cluster": ["a", "b,c"], "nodes": [2, 3]}).to_csv(file, index=False)
    seen = read_nodes(str(file), 4)
    assert (seen.nodes, seen.gpus, list(seen.virtual_clusters)) == (5, 20, ["a", "b,c"])
    with pytest.raises(BadInputError, match="0 GPUs"):
        read_nodes(str(file), 0)
    file.write_text("virtual_cluster,nodes\na,many\n")
    with pytest.raises(BadInputError, match="row 1"):
        read_nodes(str(file), 4)
