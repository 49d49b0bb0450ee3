#!/bin/sh
# Guess: a relative path in an `Include` line of Slurm's configuration is looked for beside slurm.conf, whichever file the
#   line stands in: slurm.conf(5), "INCLUDE MODIFIERS", says "in the same directory as the slurm.conf file".
# Version: Slurm 22.05.8 (Debian's slurm-wlm 22.05.8-4).
# Seen: it is looked for beside the file that the line stands in. slurm.conf includes sub/partitions.conf, and that says
#   `Include waits.conf`: with a waits.conf beside each of the two, the one in sub/ is read, and the other is not. No word of it.
# Means: files that include each other can be moved as a folder, and a tool that resolves all includes from slurm.conf's
#   folder reads other settings than slurmctld runs with. `scontrol show config` says what counts.
set -eu
command -v slurmctld > /dev/null || { echo "slurmctld is not installed (Debian: slurm-wlm)"; exit 77; }
slurmctld -V | grep -q ' 22\.05\.8$' || { echo "this is $(slurmctld -V), the finding is about 22.05.8"; exit 77; }
folder=$(mktemp -d)
trap 'kill "$(cat "$folder/pid" 2> /dev/null)" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
mkdir "$folder/sub" "$folder/state"
cat > "$folder/slurm.conf" <<CONF
ClusterName=mini
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=16931
SlurmUser=$(id -un)
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
NodeName=n1 CPUs=1
Include sub/partitions.conf
CONF
printf 'PartitionName=p Nodes=n1\nInclude waits.conf\n' > "$folder/sub/partitions.conf"
echo 'KillWait=11' > "$folder/waits.conf"
echo 'KillWait=22' > "$folder/sub/waits.conf"

cat > "$folder/stated" <<'STATED'
KillWait = 22 sec
STATED

export SLURM_CONF="$folder/slurm.conf"
slurmctld > "$folder/log" 2>&1
for _ in $(seq 60); do
    scontrol ping 2> /dev/null | grep -q 'is UP' && break
    sleep 0.5
done
scontrol show config | sed -n 's/^KillWait  */KillWait /p' > "$folder/seen"
cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
