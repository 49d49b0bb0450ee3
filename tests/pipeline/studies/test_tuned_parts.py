"""What is tuned of parts is what installed ones offer, and the core names none."""

import pytest

from foundation import parts
from foundation.errors import UnknownNameError
from lucid_models.packing.tree import PackingSettings
from pipeline.studies.tuning.space import policy_part, search_space, tried_settings
from pipeline.studies.tuning.tuned_part import tuned_policies


def test_without_parts_lucid_is_tuned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "installed_parts", lambda: ())
    space = search_space({}, PackingSettings(), nodes=100, parts={"loaning": {"headroom": 0.02}})
    assert {parameter.name for parameter in space.parameters} == set(tried_settings())
    assert (space.parts, tuned_policies()) == ((), {})
    assert policy_part({"profiling_limit_s": 60.0, "headroom": 0.1}) == {
        "profiling_limit_s": 60.0,
        "headroom": 0.1,
    }
    with pytest.raises(UnknownNameError, match="headroom"):
        search_space({}, PackingSettings(), nodes=100, chosen={"headroom": [0.1]})
