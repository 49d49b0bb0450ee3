"""A site's declaration beside its cluster in the lake."""

from pathlib import Path

import pytest

from cluster_logs.lake import Lake
from cluster_logs.removal import holdings, remove_cluster
from cluster_logs.site.rules import PriorityRules, SiteRules
from cluster_logs.site.stored_site import FIRST_IN_FIRST_OUT, site_uri, store_site, stored_site
from cluster_logs.synthetic.generator import synthesize, write_to_lake
from foundation.errors import BadInputError

DECLARED = SiteRules(priority=PriorityRules(type="multifactor", weight_age=1_000))


def test_a_declaration_is_kept_and_replaced(tmp_path: Path) -> None:
    lake = str(tmp_path)
    assert stored_site(lake, "one") is None
    uri = store_site(FIRST_IN_FIRST_OUT, lake, "one")
    assert "[scheduler]" in Path(uri).read_text()
    store_site(DECLARED, lake, "one")
    assert stored_site(lake, "one") == DECLARED
    assert stored_site(lake, "two") is None


def test_a_file_that_a_person_broke_is_named(tmp_path: Path) -> None:
    store_site(DECLARED, str(tmp_path), "one")
    place = Path(site_uri(str(tmp_path), "one"))
    place.write_text("[priority\n")
    with pytest.raises(BadInputError, match=r"site\.toml cannot be read"):
        stored_site(str(tmp_path), "one")
    place.write_text('[priority]\nweight_age = "much"\n')
    with pytest.raises(BadInputError, match=r"site\.toml: Priority: weight_age is 'much'"):
        stored_site(str(tmp_path), "one")


def test_it_goes_with_its_cluster(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    made = synthesize("helios-venus", days=1, seed=0)
    write_to_lake(made, lake, "one")
    assert stored_site(lake.uri, "one") == FIRST_IN_FIRST_OUT  # what made the starts
    assert holdings(lake.uri, "one").files["sites"] == 1
    remove_cluster(lake.uri, "one")
    assert stored_site(lake.uri, "one") is None
