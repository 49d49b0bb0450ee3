"""What a study tunes: a policy, its settings, and those of what a release pins beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lucid_models.packing.tree import PackingSettings
from pipeline.search.tuning.space import LUCID


@dataclass(frozen=True)
class TuningBase:
    """What holds now: the policy and its settings, those of the packing model and of parts by their fields,
    the release that they are of, and until when its models have learned.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    packing: PackingSettings = field(default_factory=PackingSettings)
    release: int | None = None
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    policy: str = LUCID
    learned_until: datetime | None = None
