"""Where a cluster's rows come from: real and synthetic ones never mix, and a cluster can be removed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster_logs import removal
from cluster_logs.cluster_writes import ClusterWrites, LogOrigin
from cluster_logs.ingest import ingest_log
from cluster_logs.lake import Lake
from cluster_logs.synthetic.generator import SyntheticCluster, synthesize, write_to_lake
from foundation.errors import BadInputError, HalfWrittenError, NotFoundError
from lucid_cli.main import app
from pipeline.ingest.ingestion import ClusterLog, ingest_cluster

HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
AT, END = "2020-04-01 08:00:00", "2020-04-01 09:00:00"
ROW = f"1,u,vc,1,4,1,COMPLETED,{AT},{AT},{END},3600,0"
BINS = ",".join(f"{e}_{w}" for w in ("job_all", "gpu_job", "gpu_num") for e in ("submit", "start", "end"))


@pytest.fixture(scope="module")
def made() -> SyntheticCluster:
    return synthesize("helios-venus", days=1, seed=0)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(f"{HEADER}\n{ROW}\n")
    return path


@pytest.fixture
def throughput(tmp_path: Path) -> Path:
    path = tmp_path / "cluster_throughput.csv"
    path.write_text(f"time,{BINS}\n2020-04-01 00:30:00{',7' * 9}\n")
    return path


def ingest(path: Path, lake: Path, cluster: str = "c", source_format: str = "helios") -> None:
    ingest_log(source_format=source_format, input_uri=str(path), cluster=cluster, lake_uri=str(lake))


def files_of(lake: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in lake.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_real_log_and_a_synthetic_one_never_mix(
    tmp_path: Path, log: Path, throughput: Path, made: SyntheticCluster
) -> None:
    real, synthetic = tmp_path / "real", tmp_path / "synthetic"
    ingest(log, real)
    write_to_lake(made, Lake(str(synthetic)), "c")
    assert (Lake(str(real)).writes.logs("c"), Lake(str(synthetic)).writes.logs("c")) == (
        LogOrigin.REAL,
        LogOrigin.SYNTHETIC,
    )
    before = files_of(real) | files_of(synthetic)
    with pytest.raises(BadInputError, match=r"rows of a real log; .*venus.* a synthetic .* remove-cluster"):
        write_to_lake(made, Lake(str(real)), "c")
    for path, source_format in ((log, "helios"), (throughput, "helios-throughput"), (real, "lake")):
        with pytest.raises(BadInputError, match=r"rows of a synthetic log; .* never mix"):
            ingest(path, synthetic, source_format=source_format)
    assert files_of(real) | files_of(synthetic) == before
    only_bins = tmp_path / "bins"
    ingest(throughput, only_bins, source_format="helios-throughput")
    with pytest.raises(BadInputError, match="rows of a real log"):
        write_to_lake(made, Lake(str(only_bins)), "c")
    ingest(log, synthetic, "another")  # a lake holds both, in clusters of their own


def test_what_a_copied_lake_holds_is_known_from_its_rows(tmp_path: Path, made: SyntheticCluster) -> None:
    write_to_lake(made, Lake(str(tmp_path / "a")), "c")
    ingest(tmp_path / "a", tmp_path / "b", source_format="lake")
    assert Lake(str(tmp_path / "b")).writes.logs("c") is LogOrigin.SYNTHETIC
    both = tmp_path / "both.parquet"
    rows = made.jobs.head(9).copy()
    rows.loc[3:, "source_file"] = "log.csv"
    rows.to_parquet(both)
    with pytest.raises(BadInputError, match=r"both\.parquet come from a real log and a synthetic one"):
        ingest(both, tmp_path / "d", source_format="lake")
    assert not (tmp_path / "d" / "jobs").exists()


@pytest.mark.parametrize("source", ["synthetic:helios-venus", "slurm"])
def test_a_source_that_reads_no_file_refuses_one(source: str, tmp_path: Path, log: Path) -> None:
    with pytest.raises(BadInputError, match=rf"{source}.*reads no file, but the log .*log\.csv"):
        ingest_cluster(ClusterLog(source, str(log), days=1), cluster="c", lake_uri=str(tmp_path / "lake"))
    assert not (tmp_path / "lake").exists()


def test_a_removed_cluster_is_gone_and_others_are_as_they_were(
    tmp_path: Path, log: Path, made: SyntheticCluster
) -> None:
    lake = tmp_path / "lake"
    ingest(log, lake, "mine")
    write_to_lake(made, Lake(str(lake)), "other")
    (lake / "staging" / "cluster=mine").mkdir(parents=True)
    (lake / "staging" / "cluster=mine" / "sacct.txt.gz").write_bytes(b"x")
    others = {path: data for path, data in files_of(lake).items() if "cluster=other" in str(path)}
    asked = ["remove-cluster", "--cluster", "mine", "--lake", str(lake), "--json"]
    before = files_of(lake)
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code != 0
    assert "holds 1 rows of jobs, 7 rows of throughput, in 4 files" in str(refused.exception)
    assert files_of(lake) == before
    gone = json.loads(CliRunner().invoke(app, [*asked, "--yes"]).stdout)
    assert gone == {
        "cluster": "mine",
        "rows": {"jobs": 1, "throughput": 7},
        "files": 4,
        "folders": {"clusters": 1, "jobs": 1, "staging": 1, "throughput": 1},
    }
    assert files_of(lake) == others
    assert Lake(str(lake)).clusters() == ["other"]
    with pytest.raises(NotFoundError, match="nothing of cluster 'mine'"):
        removal.remove_cluster(str(lake), "mine")
    write_to_lake(made, Lake(str(lake)), "mine")  # the name is free for a log of another origin


def test_a_removal_that_is_broken_off_is_refused_and_goes_on(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path / "lake"))
    ingest(log, Path(lake.uri), "mine")
    changing = ClusterWrites.changing

    def broken_off(self: ClusterWrites, cluster: str, table: str) -> None:
        changing(self, cluster, table)
        if table == "throughput":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ClusterWrites, "changing", broken_off)
        with pytest.raises(KeyboardInterrupt):
            removal.remove_cluster(lake.uri, "mine")
    with pytest.raises(HalfWrittenError, match="removal of mine"):
        lake.read_throughput("mine")
    assert removal.remove_cluster(lake.uri, "mine").rows == {"throughput": 7}
    assert lake.clusters("throughput") == []
