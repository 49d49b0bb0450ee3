"""Rule sets: our own rules, and those of the authors' simulators to compare with job by job.

A rule set is data. It says how gangs are placed, how a run ends and with which settings each policy runs; a
policy's caller may change those settings, and the engine knows no policy by name. What the authors'
simulators do by mistake is a `Fault` with a name, so that each can be switched off by itself:
`lucid-artifact-without:lost_partner`. `docs/simulator_fidelity.md` says what each is worth.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from foundation.errors import UnknownNameError
from simulator.placement import Remainder

WITHOUT = "-without:"  # between an artifact's name and the faults to leave out, separated by commas
ALL = "all"


@dataclass(frozen=True)
class Rules:
    """What differs from one simulator to another.

    - `remainder`: the node that takes the remainder of a job larger than a node.
    - `step_s`: the ends of runs fall on multiples of it, upwards; None: where they are.
    - `restores_partner`: whether the second job of a pair runs at full speed again, and may share again, once
      the first has ended. The first always does when the second has.
    - `pair_speed_max`: no job of a pair runs faster than this; None: as fast as was measured.
    - `full_speed_models`: a pair with one of these models runs at full speed, whatever was measured.
    - `labelled_scores`: sharing scores are the labels of the published table, not a model's predictions.
    - `negative_estimates`: policies order by estimates below 0 as they are; without, they are refused.
    - `fractional`: elastic policies share the GPUs of a virtual cluster in fractions, as one pool without
      nodes (`simulator.elastic`); others cannot run.
    - `policy_settings`: settings by policy.
    - `faults`: the names of the artifact's faults that are in it.
    """

    name: str
    remainder: Remainder = "fullest"
    step_s: float | None = None
    restores_partner: bool = True
    pair_speed_max: float | None = None
    full_speed_models: tuple[str, ...] = ()
    labelled_scores: bool = False
    negative_estimates: bool = False
    fractional: bool = False
    policy_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """What an artifact's simulator does and should not: `meaning`, and how it changes rules and settings."""

    name: str
    meaning: str
    policy_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)

    def added_to(self, rules: Rules) -> Rules:
        """Return the rules with this fault."""
        settings = {policy: dict(values) for policy, values in rules.policy_settings.items()}
        for policy, values in self.policy_settings.items():
            settings[policy] = {**settings.get(policy, {}), **values}
        return replace(
            rules, **{**self.rules, "policy_settings": settings, "faults": (*rules.faults, self.name)}
        )


@dataclass(frozen=True)
class Artifact:
    """An authors' simulator: its rules without faults, and its faults in the order of their effect."""

    sound: Rules
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """The name of the rule set with all faults."""
        return self.sound.name

    def rules(self, without: Collection[str] = ()) -> Rules:
        """Return the rule set with all faults but those named; raises UnknownNameError for an unknown one."""
        known = [fault.name for fault in self.faults]
        for name in without:
            if name not in (*known, ALL):
                raise UnknownNameError(f"fault of {self.name}", name, (*known, ALL))
        left_out = set(known) if ALL in without else set(without)
        rules = self.sound
        for fault in self.faults:
            if fault.name not in left_out:
                rules = fault.added_to(rules)
        if left_out:
            said = ALL if len(left_out) == len(known) else ",".join(n for n in known if n in left_out)
            rules = replace(rules, name=f"{self.name}{WITHOUT}{said}")
        return rules


DEFAULT = Rules("default")

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
        "preempt whoever gets none.",
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
    Rules(
        "lucid-artifact",
        step_s=1.0,
        pair_speed_max=1.0,
        labelled_scores=True,
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
            "Lucid packs jobs that are too large for the profiler by figures that nobody measured.",
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
    Rules("helios-artifact", step_s=1.0, policy_settings={"srtf": _HELIOS_PREEMPTION}),
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
HELIOS_ARTIFACT = HELIOS_SIMULATOR.rules()

# The PCS artifact's simulator: a pool of GPUs, no nodes, and nothing costs a running job time. What it does
# otherwise than the paper says is in docs/predictability.md.
PCS_SIMULATOR = Artifact(
    Rules("pcs-artifact", fractional=True),
    (
        Fault(
            "forgetful_predictions",
            "Themis foretells ends as if what is left of each job were all of it, which makes fair times too "
            "short, and as if no lease ended before the first job does.",
            {"themis": {"forgetful": True}},
        ),
    ),
)
PCS_ARTIFACT = PCS_SIMULATOR.rules()

ARTIFACTS: Mapping[str, Artifact] = {
    artifact.name: artifact for artifact in (LUCID_SIMULATOR, HELIOS_SIMULATOR, PCS_SIMULATOR)
}
RULES: Mapping[str, Rules] = {
    rules.name: rules for rules in (DEFAULT, LUCID_ARTIFACT, HELIOS_ARTIFACT, PCS_ARTIFACT)
}


def load_rules(name: str) -> Rules:
    """Return a rule set by name; raises UnknownNameError with the alternatives.

    `lucid-artifact-without:lost_partner,free_profiling` is an artifact without some of its faults,
    `lucid-artifact-without:all` without any.
    """
    if name in RULES:
        return RULES[name]
    artifact, without, faults = name.partition(WITHOUT)
    if not without or artifact not in ARTIFACTS:
        partial = (f"{known}{WITHOUT}FAULT,..." for known in ARTIFACTS)
        raise UnknownNameError("rule set", name, (*RULES, *partial))
    return ARTIFACTS[artifact].rules(faults.split(","))
