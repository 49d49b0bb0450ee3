"""`lucid site read`: the contract of its JSON, and what it refuses."""

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
