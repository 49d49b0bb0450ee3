#!/bin/sh
# Guess: slurm-usage, which charts a cluster's use of its GPUs, counts a node's GPUs from what `sinfo --format=%N,%G` says.
# Version: slurm-usage 3.1.0; the lines of sinfo are those of Slurm 22.05.8, run by hand, with names of types added to two.
# Seen: a node that has a second kind of GRES beside its GPUs (shard, mps, a MIG profile), or GPUs of two types, counts as a node
#   without GPUs, as the comma between the kinds is taken for the one between two columns. Nothing is said of it. GPUs
#   with a type, or bound to sockets, are counted.
# Means: once an administrator lets jobs share GPUs, these nodes vanish from the chart of GPU use, while the GPU hours of
#   jobs on them are still counted. Read GRES as the last column, or one kind at a time; a comma is never a safe separator.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check slurm-usage==3.1.0

mkdir "$folder/bin"
cat >"$folder/bin/sinfo" <<'SINFO'
#!/bin/sh
case "$*" in
    *%G*) printf '%s\n' 'n1,gpu:4' 'n2,gpu:2,shard:8' 'n3,gpu:a100:4(S:0-1)' 'n4,gpu:a100:2,gpu:a100_1g.5gb:7' ;;
    *) printf '%s\n' n1,64 n2,64 n3,64 n4,64 ;;
esac
SINFO
chmod +x "$folder/bin/sinfo"
cat >"$folder/stated" <<'STATED'
n1 4
n2 0
n3 4
n4 0
STATED
cd "$folder"
PATH="$folder/bin:$PATH" HOME="$folder" "$folder/env/bin/python" - >"$folder/seen" <<'PYTHON'
import slurm_usage

for node, counts in sorted(slurm_usage._get_node_info_from_slurm().items()):
    print(node, counts["gpus"])
PYTHON
cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
