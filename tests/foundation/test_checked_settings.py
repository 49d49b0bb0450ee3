"""Settings check themselves by what their fields are declared to be."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest

from foundation.checked_settings import Between, CheckedSettings, OneOf
from foundation.errors import BadInputError, UnknownNameError


@dataclass(frozen=True)
class Plain(CheckedSettings):
    noun = "setting of a kettle"
    subject = "The kettle's "

    power_w: float = 2_000.0
    heat: Literal["low", "high"] = "low"
    cups: Annotated[int, Between(1, 12)] = 4
    tilt_deg: Annotated[float, Between(-5, 5)] = 0.0
    lid: Annotated[str, OneOf("kind of lid", ("hinged", "loose"))] = "hinged"
    quiet: bool = False
    least_s: float | None = None


@dataclass(frozen=True)
class Timed(Plain):
    hold_s: Annotated[float, Between(0)] = 0.0


def test_what_is_allowed_comes_back_from_json() -> None:
    settings = Timed(power_w=0, heat="high", cups=12, tilt_deg=-5, lid="loose", quiet=True, hold_s=1e9)
    assert Timed.from_data(json.loads(json.dumps(settings.to_data()))) == settings
    assert Timed.from_data({}) == Timed()


def test_a_number_is_read_as_its_field_is_declared_however_it_was_written() -> None:
    whole, broken = Timed(power_w=60, tilt_deg=-1, least_s=3), Timed(60.0, tilt_deg=-1.0)
    assert json.dumps(whole.to_data() | {"least_s": None}) == json.dumps(broken.to_data())
    assert isinstance(whole.least_s, float)
    assert json.dumps(Timed(cups=2.0).to_data()) == json.dumps(Timed(cups=2).to_data())
    assert Timed(quiet=True).quiet is True


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"power_w": -1}, "The kettle's power_w is -1. Use 0 or more."),
        ({"power_w": float("inf")}, "The kettle's power_w is inf. Use 0 or more."),
        ({"cups": 13}, "The kettle's cups is 13. Use a whole number from 1 to 12."),
        ({"cups": 2.5}, "The kettle's cups is 2.5. Use a whole number from 1 to 12."),
        ({"cups": True}, "The kettle's cups is True. Use a whole number from 1 to 12."),
        ({"tilt_deg": "steep"}, "The kettle's tilt_deg is 'steep'. Use a number from -5 to 5."),
        ({"tilt_deg": float("nan")}, "The kettle's tilt_deg is nan. Use a number from -5 to 5."),
        ({"hold_s": -0.5}, "The kettle's hold_s is -0.5. Use a number from 0 on."),
        ({"heat": "none"}, "The kettle's heat is 'none'. Choose one of: low, high."),
        ({"lid": "glass"}, "Unknown kind of lid 'glass'. Choose one of: hinged, loose."),
        ({"least_s": -1.0}, "The kettle's least_s is -1.0. Use 0 or more."),
        ({"power_w": "much"}, "The kettle's power_w is 'much'. Use a number from 0 on."),
    ],
)
def test_what_is_not_allowed_is_named_with_what_is(chosen: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInputError) as refused:
        Timed.from_data(chosen)
    assert str(refused.value) == says


def test_a_name_that_is_no_setting_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown setting of a kettle 'cup'.*cups"):
        Plain.from_data({"cup": 3})
