"""The rule sets of the authors' simulators, to compare with job by job.

What the authors' simulators do by mistake is a `Fault` with a name, so that each can be switched off by
itself: `lucid-artifact-without:lost_partner`. `docs/simulator_fidelity.md` says what each is worth.
"""

from experiments.artifact_rules.artifact import Artifact, ArtifactRules, Fault
from experiments.artifact_rules.fresh_queue import FreshQueueQssf
from experiments.artifact_rules.lucid_ways import ArtifactLucid

# What a preemption costs in the Lucid artifact, up to a node and above.
_LUCID_PREEMPTION = {"preemption_s": 40.0, "preemption_multi_node_s": 60.0}
# In the Helios artifact: one GPU, up to a node, above.
_HELIOS_PREEMPTION = {
    "preemption_single_gpu_s": 7.0,
    "preemption_s": 30.0,
    "preemption_multi_node_s": 60.0,
}

FRESH_QUEUE_BY_GPUS = Fault(
    "fresh_queue_by_gpus",
    "QSSF orders a queue in which every job arrived this very second by GPUs alone.",
    {"qssf": {"fresh_queue": "gpus"}},
)
FREEST_REMAINDER = Fault(
    "freest_remainder",
    "The remainder of a job larger than a node goes to the node with most free GPUs, an idle one if there is "
    "one.",
    rules={"remainder": "freest"},
)


def _quota_walk(*policies: str) -> Fault:
    return Fault(
        "quota_walk",
        "Preemptive policies hand out the number of GPUs by priority, whether or not gangs then fit, and "
        "preempt the jobs that get none.",
        {policy: {"selection": "quota"} for policy in policies},
    )


def _late_completion(*policies: str) -> Fault:
    return Fault(
        "late_completion",
        f"Jobs hold their GPUs for a second after their work is done ({', '.join(policies)}).",
        {policy: {"completion_s": 1.0} for policy in policies},
    )


# The Lucid artifact's simulator, as it runs on Philly.
LUCID_SIMULATOR = Artifact(
    ArtifactRules(
        "lucid-artifact",
        ends_on_s=1.0,
        pair_speed_max=1.0,
        labelled_scores=True,
        policies={"lucid": ArtifactLucid, "qssf": FreshQueueQssf},
        policy_settings={
            "srtf": _LUCID_PREEMPTION,
            "tiresias": _LUCID_PREEMPTION,
            "lucid": {
                "profiling_nodes": 2,
                "profiling_share_max": 1.0,
                "profiling_max_gpus": 4,
                "profiling_limit_s": 80.0,
                "profiling_limit_min_s": 80.0,
                "profiling_in_place": False,
                "profiling_scales": False,
                "borrowed_nodes_max": 0,
                "sharing": "default",
                "dynamic_sharing": False,
                "gpu_memory_mib": 24_576.0,
                "partner_min_remaining_s": 0.0,
                "priority_ratio_max": 2.0,
                "overtaking_bound_s": 0.0,
            },
        },
    ),
    (
        FRESH_QUEUE_BY_GPUS,
        _quota_walk("srtf", "tiresias"),
        FREEST_REMAINDER,
        _late_completion("srtf", "tiresias", "lucid"),
        Fault(
            "free_profiling",
            "Lucid's profiling takes no time: a job is in its virtual cluster's queue from its submission, "
            "even while the profiler still has it.",
            {"lucid": {"free_profiling": True}},
        ),
        Fault(
            "packs_unmeasured",
            "Lucid packs jobs that are too large for the profiler by figures that were not measured.",
            {"lucid": {"packs_unmeasured": True}},
        ),
        Fault(
            "packs_before_idle",
            "Lucid packs a job with a running one before it looks for idle GPUs.",
            {"lucid": {"packs_before_idle": True}},
        ),
        Fault(
            "first_partner",
            "Lucid takes the first partner that the packing rules allow, in the order of starts, and not the "
            "best.",
            {"lucid": {"first_partner": True}},
        ),
        Fault(
            "lost_partner",
            "When the first-started job of a pair ends first, the other stays slow and unpackable for good: "
            "a job's id is compared with a job.",
            rules={"restores_partner": False},
        ),
        Fault(
            "uncapped_speeds",
            "Jobs of a pair may run faster than alone, up to 1.5 times, where the measurement says so.",
            rules={"pair_speed_max": None},
        ),
        Fault(
            "full_speed_models",
            "A pair with NeuMF, ResNet-50, BERT or Transformer runs at full speed, whatever was measured.",
            rules={"full_speed_models": ("NeuMF", "ResNet50", "BERT", "Transformer")},
        ),
    ),
)

# The Helios artifact's simulator (its QSSF service), with its consolidated placement.
HELIOS_SIMULATOR = Artifact(
    ArtifactRules(
        "helios-artifact",
        ends_on_s=1.0,
        policies={"qssf": FreshQueueQssf},
        policy_settings={"srtf": _HELIOS_PREEMPTION},
    ),
    (
        FRESH_QUEUE_BY_GPUS,
        _quota_walk("srtf"),
        FREEST_REMAINDER,
        _late_completion("srtf"),
        Fault(
            "negative_estimates",
            "QSSF starts jobs with an estimate below 0 before all others: the noise that makes "
            "estimates is not bounded.",
            rules={"negative_estimates": True},
        ),
    ),
)

LUCID_ARTIFACT = LUCID_SIMULATOR.rules()
