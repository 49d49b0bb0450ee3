#!/bin/sh
# Guess: on a cluster whose features are named after its GPUs, a job with --constraint=v100 gets a v100.
# Version: Slurm 22.05.8 (Debian's slurm-wlm 22.05.8-4).
# Seen: it gets a node with that feature, and there the first GPUs of gres.conf: on a node that has two types, and both
#   features, a job of --gres=gpu:1 --constraint=v100 is given an a100. Asking for the type (--gres=gpu:v100:1) gives a v100. For the
#   first, scontrol -d lists the other type too, with a count of 0 and no index.
# Means: where nodes mix types, a constraint says little of the GPU: take a job's speed by the type that was given, and what
#   it accepts from the type in GRES. A reader of `GRES=` has to take a type with the count 0 for none.
set -eu
command -v slurmctld > /dev/null && command -v slurmd > /dev/null || { echo "Slurm is not installed (Debian: slurm-wlm)"; exit 77; }
slurmctld -V | grep -q ' 22\.05\.8$' || { echo "this is $(slurmctld -V), the finding is about 22.05.8"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "needs root, as slurmd does"; exit 77; }
folder=$(mktemp -d)
trap 'kill $(cat "$folder"/*.pid 2> /dev/null) 2> /dev/null || true; sleep 2; rm -rf "$folder"' EXIT
mkdir "$folder/state" "$folder/dev"
touch "$folder/dev/nvidia0" "$folder/dev/nvidia1" "$folder/dev/nvidia2" "$folder/dev/nvidia3"
cat > "$folder/slurm.conf" <<CONF
ClusterName=mini
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=16941
SlurmUser=root
SlurmdUser=root
MpiDefault=none
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName=m1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=16942 CPUs=8 RealMemory=8000 Gres=gpu:a100:2,gpu:v100:2 Feature=a100,v100
PartitionName=p Nodes=m1 Default=YES
CONF
cat > "$folder/gres.conf" <<CONF
AutoDetect=off
NodeName=m1 Name=gpu Type=a100 File=$folder/dev/nvidia[0-1]
NodeName=m1 Name=gpu Type=v100 File=$folder/dev/nvidia[2-3]
CONF
cat > "$folder/stated" <<'STATED'
--gres=gpu:1 --constraint=v100: GRES=gpu:a100:1(IDX:0),gpu:v100:0(IDX:)
--gres=gpu:v100:1: GRES=gpu:v100:1(IDX:2)
STATED

export SLURM_CONF="$folder/slurm.conf"
slurmctld > "$folder/log" 2>&1
slurmd -N m1 >> "$folder/log" 2>&1
for _ in $(seq 60); do
    sinfo -h -o %T 2> /dev/null | grep -q '^idle$' && break
    sleep 0.5
done
for asked in "--gres=gpu:1 --constraint=v100" "--gres=gpu:v100:1"; do
    job=$(timeout 60 sbatch --parsable --chdir="$folder" --output=/dev/null $asked --wrap='sleep 60')
    for _ in $(seq 60); do
        squeue -h -j "$job" -o %T | grep -q '^RUNNING$' && break
        sleep 0.5
    done
    scontrol -d show job "$job" > "$folder/job"
    echo "$asked: $(grep -o ' GRES=.*' "$folder/job" | tr -d ' ')"
    scancel "$job"
done > "$folder/seen"
cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
