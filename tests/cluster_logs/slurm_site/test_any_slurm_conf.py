"""However a slurm.conf is written, it says the same; and whatever a text holds, it is read or refused."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_logs.slurm_site.associations import read_associations, read_qos
from cluster_logs.slurm_site.key_account import KeyAccount
from cluster_logs.slurm_site.reading import read_slurm_files
from foundation.errors import BadInputError

LINES = (
    (("ClusterName", "mini"),),
    (("SelectType", "select/cons_tres"),),
    (("GresTypes", "gpu"),),
    (("SchedulerParameters", "bf_interval=60,bf_window=4320,max_rpc_cnt=150"),),
    (("PriorityType", "priority/multifactor"),),
    (("PriorityWeightAge", "1000"),),
    (("TopologyPlugin", "topology/tree"),),
    (("NodeName", "n[01-10]"), ("CPUs", "8"), ("RealMemory", "1000"), ("Gres", "gpu:a100:4(S:0-1)")),
    (("NodeName", "m[1-3,7]"), ("CPUs", "16"), ("RealMemory", "2000"), ("Features", "big,fast")),
    (("PartitionName", "gpu"), ("Nodes", "n[01-10]"), ("MaxTime", "1-0"), ("Default", "YES")),
    (("PartitionName", "all"), ("Nodes", "ALL"), ("MaxTime", "UNLIMITED"), ("AllowGroups", "staff")),
)  # fmt: skip
PLAIN = "".join(" ".join(f"{key}={value}" for key, value in line) + "\n" for line in LINES)
IN_ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

CASES = st.sampled_from([str, str.lower, str.upper])
SIGNS = st.sampled_from(["=", " = ", "= ", " =", "\t="])
GAPS = st.sampled_from([" ", "   ", "\t", " \\\n", " \\\n    ", " \\  \n "])
ENDS = st.sampled_from(["\n", "\r\n", "  # words\n", "#words\\\n", "\n\n", "\n# NodeName=n1\n", "\\\n\n"])


@st.composite
def written(draw: st.DrawFn) -> tuple[str, str]:
    """The same lines in another hand, those from some place on in a file of their own."""
    texts = []
    for line in LINES:
        pairs = []
        for key, value in line:
            quoted = f'"{value}"' if draw(st.booleans()) else value
            pairs.append(f"{draw(CASES)(key)}{draw(SIGNS)}{quoted}")
        text = pairs[0] + "".join(draw(GAPS) + pair for pair in pairs[1:])
        texts.append(text + draw(ENDS))
    place = draw(st.integers(0, len(texts)))
    included = draw(st.sampled_from(["Include", "include", "INCLUDE"]))
    return "".join(texts[:place]) + f"{included} rest.conf\n", "".join(texts[place:])


@IN_ONE_FOLDER
@given(written())
def test_how_it_is_written_does_not_matter(tmp_path: Path, texts: tuple[str, str]) -> None:
    plain, conf, rest = (tmp_path / name for name in ("plain.conf", "slurm.conf", "rest.conf"))
    for path, text in ((plain, PLAIN), (conf, texts[0]), (rest, texts[1])):
        path.write_bytes(text.encode())
    expected, found = (read_slurm_files(str(path)) for path in (plain, conf))
    assert found.rules == expected.rules
    assert found.modelled == expected.modelled


@IN_ONE_FOLDER
@given(st.data())
def test_whatever_stands_in_it(tmp_path: Path, data: st.DataObject) -> None:
    lines = PLAIN.splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    cut = data.draw(st.integers(0, len(lines[number])))
    lines[number] = lines[number][:cut] + data.draw(st.text(max_size=12)) + lines[number][cut + 1 :]
    conf = tmp_path / "slurm.conf"
    conf.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    with suppress(BadInputError):
        read_slurm_files(str(conf))


@given(st.text(alphabet="abAB|= \n0123456789:-,/", max_size=200))
def test_whatever_stands_in_a_table(text: str) -> None:
    for read in (
        lambda: read_associations("Account|User|Share|MaxWall|QOS\n" + text, "assoc.txt", "", KeyAccount()),
        lambda: read_qos("Name|Priority|GrpTRES|MaxWall\n" + text, "qos.txt", KeyAccount()),
    ):
        with suppress(BadInputError):
            read()


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_bytes(PLAIN.encode() + b"# caf\xe9\nMailDomain=\xff\xfe\n")
    assert read_slurm_files(str(tmp_path / "slurm.conf")).rules.name == "mini"
    (tmp_path / "slurm.conf").write_bytes(bytes(range(256)))
    with pytest.raises(BadInputError, match=r"slurm\.conf"):
        read_slurm_files(str(tmp_path / "slurm.conf"))
