#!/bin/sh
# Guess: ClusterShell's NodeSet, python-hostlist and Slurm read a list of nodes alike: the same names in the same order.
# Version: ClusterShell 1.10.1, python-hostlist 2.3.0; beside `scontrol show hostnames` of Slurm 22.05.8, run by hand.
# Seen: three differences on lists that Slurm writes or takes.
#   n[001-003,5]: Slurm and python-hostlist keep the order of the list, ClusterShell puts n5 before n001.
#   n[01-3]: Slurm and python-hostlist say n01, n02, n03; ClusterShell raises NodeSetParseRangeError ("padding length
#     mismatch").
#   n[1-3,2]: Slurm says n2 twice, as for two tasks on a node; python-hostlist and ClusterShell drop the second.
# Means: what Slurm says of a job's nodes one by one (SLURM_JOB_CPUS_PER_NODE, GRES indices, SLURM_ARBITRARY_NODELIST) goes
#   by place in the list: zipped with ClusterShell's names it falls on other nodes where widths are mixed. Let
#   `scontrol show hostnames` expand such lists, or python-hostlist where no node is named twice.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ClusterShell==1.10.1 python-hostlist==2.3.0

cat > "$folder/stated" <<'STATED'
n[001-003,5]: ClusterShell n5 n001 n002 n003, python-hostlist n001 n002 n003 n5
n[5,001-003]: ClusterShell n5 n001 n002 n003, python-hostlist n5 n001 n002 n003
n[01-3]: ClusterShell NodeSetParseRangeError, python-hostlist n01 n02 n03
n[1-3,2]: ClusterShell n1 n2 n3, python-hostlist n1 n2 n3
n[09-11]: ClusterShell n09 n10 n11, python-hostlist n09 n10 n11
STATED

"$folder/venv/bin/python" - > "$folder/seen" <<'PYTHON'
from hostlist import expand_hostlist

from ClusterShell.NodeSet import NodeSet, NodeSetParseError

for listed in ("n[001-003,5]", "n[5,001-003]", "n[01-3]", "n[1-3,2]", "n[09-11]"):
    try:
        names = " ".join(NodeSet(listed))
    except NodeSetParseError as error:
        names = type(error).__name__
    print(f"{listed}: ClusterShell {names}, python-hostlist {' '.join(expand_hostlist(listed))}")
PYTHON

cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
