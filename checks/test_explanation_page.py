"""docs/explanations.md holds what its command wrote: every part filled, every picture there."""

import re
from decimal import Decimal

from checks.tree import DOCS, page, part

PAGE = page("explanations")
PARTS = ("a run time", "a new user", "a forecast", "a sharing score", "monotone constraints")


def test_every_part_was_written_and_every_picture_is_there() -> None:
    assert all(len(part(PAGE, name)) > 100 for name in PARTS)
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", PAGE)
    assert len(pictures) >= 4
    assert all((DOCS / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_the_account_on_the_page_adds_up() -> None:
    """What a reader sums up from the printed sentences is the printed estimate."""
    sentences = [line for line in PAGE.splitlines() if line.startswith("> ") and " because " in line]
    told = [line for line in sentences if "usually run" in line]
    assert len(told) >= 3
    for line in told:
        estimate, rest = line.removeprefix("> ").split(" because ")
        total = Decimal(re.search(r"usually runs? ([\d.,]+) ", rest)[1].replace(",", ""))
        for verb, number in re.findall(r"(adds?|takes? off) ([\d.,]*\d)", rest):
            total += (1 if verb.startswith("add") else -1) * Decimal(number.replace(",", ""))
        assert total == Decimal(estimate.split()[0].replace(",", "")), line


def test_a_user_who_is_new_is_said_to_be() -> None:
    assert "user u99 is new" in part(PAGE, "a new user")
    assert "user u99 and name first_try are new" in part(PAGE, "a new user")
