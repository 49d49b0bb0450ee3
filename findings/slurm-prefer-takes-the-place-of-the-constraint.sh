#!/bin/sh
# Guess: a node that a job would rather have (--prefer) stays apart from what it needs (--constraint) in all that Slurm shows of it.
# Version: Slurm 22.05.8 (Debian's slurm-wlm 22.05.8-4).
# Seen: only while the job waits: then squeue's %f and scontrol's Features hold the constraint, and scontrol has Prefer= beside it.
#   Once it runs, Prefer= is gone. On a node with the preferred feature, Features and %f hold the preference in the place of the
#   constraint, which is seen nowhere any more (a job of --constraint=a100 --prefer=v100 on a node without the feature a100).
#   On another node they hold the constraint, or nothing.
# Means: what a job accepts cannot be learnt from a row of a job that has started: a wish that was met looks like a need. Only
#   the queue, while it waits, or the line of its submission (sacct's SubmitLine) tells them apart.
set -eu
command -v slurmctld > /dev/null && command -v slurmd > /dev/null || { echo "Slurm is not installed (Debian: slurm-wlm)"; exit 77; }
slurmctld -V | grep -q ' 22\.05\.8$' || { echo "this is $(slurmctld -V), the finding is about 22.05.8"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "needs root, as slurmd does"; exit 77; }
folder=$(mktemp -d)
trap 'kill $(cat "$folder"/*.pid 2> /dev/null) 2> /dev/null || true; sleep 2; rm -rf "$folder"' EXIT
mkdir "$folder/state"
cat > "$folder/slurm.conf" <<CONF
ClusterName=mini
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=16951
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
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName=a1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=16952 CPUs=1 RealMemory=8000 Feature=a100
NodeName=v1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=16953 CPUs=1 RealMemory=8000 Feature=v100
PartitionName=p Nodes=a1,v1 Default=YES
CONF
cat > "$folder/stated" <<'STATED'
both busy, --prefer=v100: PENDING (null) Features=(null) Prefer=v100
both busy, --constraint=a100 --prefer=v100: PENDING a100 Features=a100 Prefer=v100
both idle, --prefer=v100: RUNNING v100 v1 Features=v100
both idle, --constraint=a100 --prefer=v100: RUNNING v100 v1 Features=v100
v1 busy, --prefer=v100: RUNNING (null) a1 Features=(null)
v1 busy, --constraint=a100 --prefer=v100: RUNNING a100 a1 Features=a100
STATED

export SLURM_CONF="$folder/slurm.conf"
slurmctld > "$folder/log" 2>&1
slurmd -N a1 >> "$folder/log" 2>&1
slurmd -N v1 >> "$folder/log" 2>&1
until_shown() {  # what to look for, and the command that shows it
    for _ in $(seq 120); do
        "$@" 2> /dev/null | grep -q "^$shown$" && return
        sleep 0.5
    done
}
submit() { timeout 60 sbatch --parsable --chdir="$folder" --output=/dev/null "$@" --wrap='sleep 300'; }
shown=2 until_shown sinfo -h -t idle -o %D
for busy in both neither v1; do
    for asked in "--prefer=v100" "--constraint=a100 --prefer=v100"; do
        [ $busy = neither ] || shown=RUNNING until_shown squeue -h -j "$(submit -w v1)" -o %T
        [ $busy != both ] || shown=RUNNING until_shown squeue -h -j "$(submit -w a1)" -o %T
        job=$(submit $asked)
        sleep 3
        case $busy in both) state=PENDING when='both busy' ;; neither) state=RUNNING when='both idle' ;; v1) state=RUNNING when='v1 busy' ;; esac
        shown=$state until_shown squeue -h -j "$job" -o %T
        echo "$when, $asked:" $(squeue -h -j "$job" -o '%T %f %N') $(scontrol show job "$job" | grep -oE '(Features|Prefer)=[^ ]*')
        scancel --user="$(id -un)"
        shown=2 until_shown sinfo -h -t idle -o %D
    done
done > "$folder/seen"
cat "$folder/seen"
diff "$folder/stated" "$folder/seen"
