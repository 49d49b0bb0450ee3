"""Keys of a slurm.conf that a declaration does not hold, and what leaving them out does to waits.

Names and meanings: slurm.conf(5) of Slurm 22.05 and later. What changes no wait (addresses, log files, ports,
credentials) is in `NO_EFFECT` and is not reported.
"""

from collections.abc import Container, Iterator, Mapping

from cluster_logs.slurm_site.conf_text import Pair
from cluster_logs.slurm_site.declarations import ConfLine

# Words for "nothing of this": such a key has no effect.
_OFF = frozenset(
    {"", "(null)", "none", "n/a", "no", "0", "off", "infinite", "unlimited", "-1", "all", "any", "default"}
)
_OFF_PLUGINS = ("/none", "/default", "/flat")

SETTINGS: Mapping[str, str] = {
    "TopologyPlugin": "jobs go below few switches, and may wait for nodes there; the replay knows none",
    "TopologyParam": "jobs are placed by the network; the replay knows no switches",
    "DefMemPerCPU": "a job that asked for no memory gets this much; in the replay it takes none",
    "DefMemPerGPU": "a job that asked for no memory gets this much; in the replay it takes none",
    "DefMemPerNode": "a job that asked for no memory gets this much; in the replay it takes none",
    "MaxMemPerCPU": "a job that asks for more gets more cores for it; in the replay it does not",
    "MaxMemPerNode": "a job that asks for more is refused or waits",
    "EnforcePartLimits": "jobs beyond a partition's limits are refused at once; a log holds the ones taken",
    "FairShareDampeningFactor": "fair share (not fair tree) falls more slowly with usage",
    "PriorityUsageResetPeriod": "usage is forgotten at fixed times; in the replay it decays alone",
    "PriorityParameters": "priorities are calculated otherwise",
    "PrioritySiteFactorPlugin": "the site adds a factor of its own to priorities; the replay has none",
    "PrioritySiteFactorParameters": "the site adds a factor of its own to priorities; the replay has none",
    "JobSubmitPlugins": "jobs are changed as they come (partition, QOS, limit); a log holds the result",
    "Licenses": "jobs wait for licences; the replay has as many as they want",
    "BurstBufferType": "jobs wait until their data is staged in",
    "NodeFeaturesPlugins": "nodes are booted for features that jobs ask for; in the replay they stay as is",
    "PowerPlugin": "jobs wait for power; in the replay there is enough",
    "PowerParameters": "jobs wait for power; in the replay there is enough",
    "SuspendTime": "idle nodes go to sleep and jobs wait until they have booted; in the replay all are awake",
    "Prolog": "each node is prepared before a job runs; in the replay that takes no time",
    "PrologSlurmctld": "a job waits for this program before it runs; in the replay that takes no time",
    "Epilog": "nodes are cleared after a job; in the replay they are free at its end",
    "EpilogSlurmctld": "a job's nodes wait for this program; in the replay they are free at its end",
    "HealthCheckProgram": "nodes are drained when it says so; the replay has the nodes that are declared",
    "MCSPlugin": "nodes are shared by jobs of one label alone; in the replay by all",
    "ResvOverRun": "jobs may run beyond the end of their reservation",
    "DependencyParameters": "jobs that depend on others start otherwise; the replay knows no dependencies",
    "FederationParameters": "jobs may run on another cluster of the federation",
    "InactiveLimit": "interactive jobs without a sign of life are ended; a log holds the result",
}
PARTITIONS: Mapping[str, str] = {
    "AllowGroups": "others' jobs are refused there; a log holds the ones that were taken",
    "AllowUsers": "others' jobs are refused there; a log holds the ones that were taken",
    "DenyGroups": "their jobs are refused there; a log holds the ones that were taken",
    "DenyUsers": "their jobs are refused there; a log holds the ones that were taken",
    "Alternate": "jobs go there while the partition is down",
    "DefCpuPerGPU": "jobs there get so many cores a GPU unless they ask; the replay has one number for all",
    "DefMemPerCPU": "a job that asked for no memory gets this much; in the replay it takes none",
    "DefMemPerGPU": "a job that asked for no memory gets this much; in the replay it takes none",
    "DefMemPerNode": "a job that asked for no memory gets this much; in the replay it takes none",
    "Exclusive": "a node there runs jobs of one user at a time; in the replay of all, so they wait less",
    "ExclusiveUser": "a node there runs jobs of one user at a time; in the replay of all, so they wait less",
    "ExclusiveTopo": "a block of nodes runs one job at a time; in the replay several, so they wait less",
    "JobDefaults": "jobs there get so many cores or so much memory a GPU; the replay has one number for all",
    "LLN": "jobs go to the least loaded nodes, so fewer nodes are wholly free",
    "MaxCPUsPerNode": "so many cores of a node are its own; in the replay all, so its jobs wait less",
    "MaxCPUsPerSocket": "so many cores of a socket are its own; in the replay all, so its jobs wait less",
    "MaxMemPerCPU": "a job that asks for more gets more cores for it; in the replay it does not",
    "MaxMemPerNode": "a job that asks for more is refused or waits",
    "OverTimeLimit": "jobs there may run so much beyond their limit",
    "PowerDownOnIdle": "its nodes go to sleep when they are idle; in the replay they stay awake",
    "ReqResv": "jobs there need a reservation; in the replay they start without",
    "RootOnly": "jobs get there from other partitions alone",
    "SelectTypeParameters": "what jobs of the partition are given differs from the cluster's",
    "SuspendTime": "idle nodes go to sleep and jobs wait until they have booted; in the replay all are awake",
    "Topology": "jobs there go below few switches; the replay knows none",
}
NODES: Mapping[str, str] = {
    "TmpDisk": "jobs that ask for local disk wait for it; in the replay they ask for none",
    "CPUSpecList": "these CPUs run no jobs; in the replay they do",
    "TRESWeights": "nodes are chosen by it; in the replay by Weight alone",
}
# Options that nodes and partitions have and that change no wait.
_PARTITION_NO_EFFECT = frozenset(
    {"partitionname", "allocnodes", "cpubind", "disablerootjobs", "hidden", "resumetimeout", "suspendtimeout"}
    | {"tres", "totalcpus", "totalnodes", "nodesets", "priority"}
)
_NODE_NO_EFFECT = frozenset(
    {"nodename", "nodeaddr", "nodehostname", "bcastaddr", "port", "reason", "cpubind", "boards", "sockets"}
    | {
        "socketsperboard",
        "corespersocket",
        "threadspercore",
        "corespeccount",
        "memspeclimit",
        "restrictedcorespergpu",
    }
    | {"parameters", "topology"}
)
_SETTINGS_WITHOUT = """\
accountingstoragebackuphost accountingstorageexternalhost accountingstoragehost accountingstoragejobcomment
accountingstorageloc accountingstorageparameters accountingstoragepass accountingstorageport
accountingstoragetres accountingstoragetype accountingstorageuser accountingstoreflags
accountingstorejobcomment acctgatherenergytype acctgatherfilesystemtype acctgatherinfinibandtype
acctgatherinterconnecttype acctgathernodefreq acctgatherprofiletype allowspecresourcesusage authaltparameters
authalttypes authinfo authtype backupaddr backupcontroller batchstarttimeout bcastexclude bcastparameters
boot_time burstbufferparameters cachegroups certgenparameters certgentype certmgrparameters certmgrtype
checkpointtype clifilterparameters clifilterplugins clustername communicationparameters containerparameters
controladdr controlmachine corespecplugin cpufreqdef cpufreqgovernors credtype cryptotype dataparserparameters
datparserparameters debugflags defaultstoragehost defaultstorageloc defaultstoragepass defaultstorageport
defaultstoragetype defaultstorageuser defruntimeplugin disablerootjobs eiotimeout epilogmsgtime epilogtimeout
extsensorsfreq extsensorstype fastschedule firstjobid getenvtimeout gpufreqdef gresconf grestypes
groupupdateforce groupupdatetime hash_val hashplugin healthcheckinterval healthchecknodestate
healthchecktimeout httpparsertype interactivestepoptions jobacctgatherfrequency jobacctgatherparams
jobacctgathertype jobcheckpointdir jobcomphost jobcomploc jobcompparams jobcomppass jobcomppassscript
jobcompport jobcomptype jobcompuser jobcontainerplugin jobcontainertype jobcredentialprivatekey
jobcredentialpubliccertificate jobfileappend keepalivetime killonbadexit launchparameters launchtype location
logtimeformat maildomain mailprog maxarraysize maxbatchrequeue maxdbdmsgs maxjobid maxnodecount maxstepcount
maxtaskspernode mcsparameters memlimitenforce messagetimeout metricsauthusers metricsparameters metricstype
minjobage mpidefault mpiparams multiple_slurmd namespacetype next_job_id plugindir plugstackconfig poweraction
prepparameters prepplugins privatedata proctracktype program prologepilogtimeout prologflags prologtimeout
propagateprioprocess propagateresourcelimits propagateresourcelimitsexcept rebootprogram reconfigflags
requeueexit requeueexithold resumefailprogram resumeprogram resumerate resumetimeout resvepilog resvprolog
returntoservice routeplugin salllocdefaultcommand sallocdefaultcommand sbcastparameters schedulerport
schedulerrootfilter schedulertimeslice scronparameters serializerparameters serializerplugins slurm_conf
slurm_version slurmctldaddr slurmctlddebug slurmctldhost slurmctldhttpauthparameters slurmctldlogfile
slurmctldparameters slurmctldpidfile slurmctldplugstack slurmctldport slurmctldprimaryoffprog
slurmctldprimaryonprog slurmctldsyslogdebug slurmctldtimeout slurmddebug slurmdhttpauthparameters
slurmdlogfile slurmdparameters slurmdpidfile slurmdport slurmdspooldir slurmdsyslogdebug slurmdtimeout
slurmduser slurmeventhandlerlogfile slurmrestdhttpauthparameters slurmrestdparameters slurmschedlogfile
slurmschedloglevel slurmstepdparameters slurmuser srunepilog srunportrange srunprolog statesavelocation
suspendexcnodes suspendexcparts suspendexcstates suspendprogram suspendrate suspendtimeout switchparameters
switchtype taskepilog taskplugin taskpluginparam taskprolog tcptimeout tlsparameters tlstype tmpfs trackwckey
treewidth unkillablestepprogram unkillablesteptimeout urlparsertype usepam usepamslurm vsizefactor waittime
x11parameters
"""
NO_EFFECT = frozenset(_SETTINGS_WITHOUT.split())
_SELECT_WORDS: Mapping[str, str] = {
    "CR_LLN": "jobs go to the least loaded nodes, so fewer nodes are wholly free",
    "LL_SHARED_GRES": "shared GPUs are given out by load",
    "CR_PACK_NODES": "tasks are packed onto few of a job's nodes",
    "CR_ONE_TASK_PER_CORE": "a task takes a whole core",
    "ENFORCE_BINDING_GRES": "jobs get GPUs near their cores alone, and may wait for these",
    "ONE_TASK_PER_SHARING_GRES": "a task takes a shared GPU of its own",
}
# What scontrol shows where a site set nothing.
_DEFAULTS = {"fairsharedampeningfactor": "1", "exclusive": "node"}  # whole nodes: a declaration has that
_UNKNOWN = "not known here: what it changes is not either"
_BY_NAME = {name.lower(): name for table in (SETTINGS, PARTITIONS, NODES) for name in table}


def ignored_setting(pair: Pair, *, known_only: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and effect of a setting that no declaration holds; none where it changes no wait.

    `known_only`: a key that is not known here is none either.
    """
    key = pair.key.lower()
    if key == "selecttypeparameters":
        for word in pair.value.upper().split(","):
            if effect := _SELECT_WORDS.get(word.strip()):
                yield f"SelectTypeParameters: {word.strip()}", word.strip(), effect
    elif key == "jobrequeue":
        if pair.value.lower() in ("0", "no"):
            yield (
                "JobRequeue",
                pair.value,
                "a job that is preempted is cancelled unless it asks to be requeued",
            )
    elif key not in NO_EFFECT and not _is_off(pair):
        name = _BY_NAME.get(key, pair.key)
        if name in SETTINGS or not known_only:
            yield name, pair.value, SETTINGS.get(name, _UNKNOWN)


def ignored_options(
    line: ConfLine, kind: str, taken: Container[str], *, known_only: bool = False
) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and effect of what a line (`kind`: partition, node) says and no declaration holds."""
    table, no_effect = (PARTITIONS, _PARTITION_NO_EFFECT) if kind == "partition" else (NODES, _NODE_NO_EFFECT)
    for key, pair in line.options.items():
        if key not in taken and key not in no_effect and not _is_off(pair):
            name = _BY_NAME.get(key, pair.key)
            if name in table or not known_only:
                yield name, f"{kind} {line.name}: {pair.value}", table.get(name, _UNKNOWN)


def _is_off(pair: Pair) -> bool:
    value = pair.value.lower()
    return value in _OFF or value.endswith(_OFF_PLUGINS) or _DEFAULTS.get(pair.key.lower()) == value
