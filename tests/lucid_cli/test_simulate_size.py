"""What the size of a cluster means: GPUs alone are one pool, and with the size of a node they have nodes."""

import pytest

LOG = """job_id,virtual_cluster,gpus,submit_time,duration_s,estimated_duration_s
a,vc,3,0,100,100
b,vc,3,0,100,100
c,vc,2,1,10,10
"""
WORDS = (
    "simulate",
    "--jobs",
    "log.csv",
    "--format",
    "reference-csv",
    "--policy",
    "fifo",
    "--out",
    "out",
    "--json",
)


@pytest.mark.parametrize(
    ("size", "waited_s"),
    [
        (("--gpus", 8), 0.0),
        (("--gpus", 8, "--gpus-per-node", 8), 0.0),
        (("--gpus", 8, "--gpus-per-node", 4), 99.0),  # one GPU is free on each node
    ],
)
def test_a_job_is_bound_by_nodes_where_their_size_is_given(lucid, tmp_path, size, waited_s):
    (tmp_path / "log.csv").write_text(LOG)
    said = lucid(*WORDS, *size)
    assert said.code == 0, said.err
    assert said.json[0]["longest_wait_s"] == waited_s


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*WORDS, "--gpus", 10, "--gpus-per-node", 4), "no whole number of nodes of 4 GPUs"),
        (
            ("sweep", *WORDS[1:-1], "--gpus", 8, "--gpus-per-node", 4),
            "--nodes FILE",
        ),
    ],
)
def test_a_size_that_is_none_is_refused(lucid, tmp_path, words, says):
    (tmp_path / "log.csv").write_text(LOG)
    said = lucid(*words)
    assert said.code == 1
    assert says in " ".join(said.err.split())
