"""`lucid site`: the contract of its JSON, and what it refuses."""

import pytest

from cluster_logs.site.site_file import read_site

CONF = """\
ClusterName=mini
SelectType=select/cons_tres
SchedulerParameters=bf_interval=60,max_rpc_cnt=150
GresTypes=gpu
NodeName=n[01-10] CPUs=8 Gres=gpu:a100:4
PartitionName=gpu Nodes=ALL Default=YES MaxTime=1-0
"""


def test_a_site_is_read_and_written(lucid, tmp_path):
    (tmp_path / "slurm.conf").write_text(CONF)
    said = lucid("site", "read", "--slurm-conf", "slurm.conf", "--out", "site.toml", "--json")
    assert said.code == 0, said.err
    assert {"bf_interval", "MaxTime", "Gres"} <= set(said.json["modelled"])
    assert all(set(each) == {"key", "value", "effect"} for each in said.json["ignored"])
    assert [each["key"] for each in said.json["ignored"]] == ["max_rpc_cnt", "Gres: type"]
    site = read_site(tmp_path / "site.toml")
    assert site.nodes[0].names == ("n[01-10]",)
    assert [each.key for each in site.ignored] == ["max_rpc_cnt", "Gres: type"]
    people = lucid("site", "read", "--slurm-conf", "slurm.conf", "--out", "site.toml")
    assert "max_rpc_cnt" in people.out


def test_what_a_site_cannot_be_read_from(lucid, tmp_path):
    (tmp_path / "slurm.conf").write_text(CONF.replace("Nodes=ALL", "Nodes=n[01-11]"))
    said = lucid("site", "read", "--slurm-conf", "slurm.conf", "--out", "site.toml")
    assert said.code != 0
    for told in ("slurm.conf, line 6", "n11", "gpu"):
        assert told in said.err
    assert not (tmp_path / "site.toml").exists()
    for arguments, told in [
        ((), "--slurm-conf"),
        (("--live", "--slurm-conf", "slurm.conf"), "both"),
        (("--live", "--qos", "slurm.conf"), "--qos"),
        (("--slurm-conf", "none.conf"), "none.conf"),
    ]:
        said = lucid("site", "read", *arguments, "--out", "site.toml")
        assert said.code != 0
        assert told in said.err


@pytest.mark.slow
def test_a_log_is_graded_under_its_sites_order(lucid, tmp_path):
    made = lucid(
        *("synthesize", "--like", "helios-venus", "--days", 2, "--seed", 3, "--lake", "lake"),
        *("--out", "log.csv", "--format", "helios", "--json"),
    )
    assert made.code == 0, made.err
    of_cluster = ("site", "grade", "--cluster", made.json["cluster"], "--lake", "lake", "--json")
    said = lucid(*of_cluster)
    assert said.code == 0, said.err
    assert said.json["grade"] == "A"
    assert {"grade", "rule", "waits", "within_x2_pct", "kendall_tau", "explains"} <= set(said.json)
    assert {"mean", "p50", "p90"} <= set(said.json["waits"][0]["logged"]) & set(
        said.json["waits"][0]["replayed"]
    )

    # A cluster is graded as what is kept of it says, or the file that is named.
    (tmp_path / "other.toml").write_text('name = "other"\n[scheduler]\nbf_interval_s = 60\n')
    other = lucid(*of_cluster, "--site", "other.toml").json
    assert other["grade"] != "A"
    kept = lucid("site", "keep", "--site", "other.toml", "--cluster", made.json["cluster"], "--lake", "lake")
    assert kept.code == 0, kept.err
    assert lucid(*of_cluster).json == other

    plain = lucid("site", "grade", "--jobs", "log.csv", "--format", "helios", "--gpus", 800)
    assert plain.code == 0, plain.err
    assert "Grade " in plain.out


def test_what_cannot_be_graded(lucid, tmp_path):
    (tmp_path / "log.csv").write_text("job_id,virtual_cluster,gpus,submit_time,duration_s\n")
    for arguments, told in [
        ((), "--cluster"),
        (("--cluster", "c", "--jobs", "log.csv"), "both"),
        (("--jobs", "log.csv", "--format", "reference-csv"), "--gpus"),
        (("--jobs", "log.csv", "--gpus", 8), "--format"),
        (("--cluster", "c", "--gpus", 8), "--gpus"),
        (("--cluster", "c", "--site", "none.toml"), "none.toml"),
    ]:
        said = lucid("site", "grade", *arguments)
        assert said.code != 0
        assert told in said.err


def test_what_is_kept_of_a_cluster_is_what_its_site_replays(lucid, tmp_path):
    jobs = [(1, 400, 6), (2, 400, 8), (3, 50, 2)]  # the third may go before the second, where gaps are filled
    rows = [f"{n} {n} 0 {run} {gpus} -1 -1 {gpus} {run} -1 1 1 -1 -1 -1 1 -1 -1\n" for n, run, gpus in jobs]
    (tmp_path / "log.swf").write_text("; UnixStartTime: 0\n" + "".join(rows))
    (tmp_path / "nodes.csv").write_text("virtual_cluster,nodes\n1,1\n")
    (tmp_path / "plain.conf").write_text(
        "ClusterName=mini\nSelectType=select/cons_tres\nSchedulerType=sched/builtin\nGresTypes=gpu\n"
        "NodeName=n1 CPUs=8 Gres=gpu:8\nPartitionName=1 Nodes=n1 Default=YES\n"
    )
    assert lucid("site", "read", "--slurm-conf", "plain.conf", "--out", "site.toml").code == 0
    early = lucid("site", "keep", "--cluster", "c", "--site", "site.toml", "--lake", "lake")
    assert "The lake has no jobs of 'c' yet; it has: none." in early.err
    ingested = lucid(
        *("ingest", "--format", "swf", "--input", "log.swf", "--cluster", "c", "--lake", "lake"),
        *("--nodes", "nodes.csv"),
    )
    assert ingested.code == 0, ingested.err
    kept = lucid("site", "keep", "--cluster", "c", "--site", "site.toml", "--lake", "lake", "--json")
    assert kept.json["cluster"] == "c"
    replayed = ("simulate", "--jobs", "log.swf", "--format", "swf", "--policy", "site", "--json", "--no-plot")
    by_lake = lucid(*replayed, "--cluster", "c", "--lake", "lake", "--out", "kept")
    by_file = lucid(*replayed, "--nodes", "nodes.csv", "--site", "site.toml", "--out", "file")
    default = lucid(*replayed, "--nodes", "nodes.csv", "--out", "default")
    waits = [said.json[0]["mean_queuing_delay_s"] for said in (by_lake, by_file, default)]
    assert waits[0] == waits[1] != waits[2]
