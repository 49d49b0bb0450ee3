"""What an installation signs its schedulers believe: publication, rollback, renewal; where trust is named."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from live_scheduler.client import ReleaseClient
from live_scheduler.release import LiveRelease
from live_scheduler.settings_file import read_live_settings
from lucid_models.releases.lifecycle import publish_release, rollback_release
from lucid_models.releases.publications import renew_champion
from lucid_models.signing.key_store import KeyStore
from tests.command_line import Lucid
from tests.live_scheduler.live_release import keep_release

WITHOUT_CRYPTOGRAPHY = """
import sys
sys.modules["cryptography"] = None
from live_scheduler.client import ReleaseClient
client = ReleaseClient(sys.argv[1], "champion", sys.argv[2], cluster="small")
print(client.poll().describe())
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with keys."""
    folder = tmp_path / "state"
    monkeypatch.setenv("LUCID_STATE_DIR", str(folder))
    monkeypatch.delenv("LUCID_TRUST", raising=False)
    KeyStore(folder / "trust.json", folder / "keys").create()
    return folder


def test_publications_rollbacks_and_renewals_are_followed(
    shop: Any, state: Path, tmp_path: Path, lucid: Lucid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUCID_STATE_DIR", str(state))  # which the fixture `lucid` takes away
    small = {"tracking_uri": shop.uri, "cluster": "small"}
    trust = state / "trust.json"
    first, second = shop.approved(1), shop.approved(2)
    client = ReleaseClient(shop.uri, "champion", tmp_path / "client", cluster="small", trust=trust)
    numbers = []
    for change, version in (
        ("publish", first),
        ("publish", second),
        ("rollback", first),
        ("renew", first),
    ):
        if change == "publish":
            publish_release(**small, version=version)
        elif change == "rollback":
            rollback_release(**small)
        else:
            renew_champion(**small)
        release = client.poll()
        status = client.status()
        assert (status.mode, status.version, status.published) == ("following", version, True), status
        numbers.append(status.sequence)
        assert isinstance(release, LiveRelease)
        assert release.describe().endswith("(champion, cluster small)")
    assert numbers == sorted(set(numbers))
    # From a shell, by the trust file of the installation and by words.
    queue = tmp_path / "queue.csv"
    queue.write_text(
        "job_id,user,virtual_cluster,name,gpus,submit_time\na,u5,vc,train_u5,4,2020-04-12T00:00:00+00:00\n"
    )
    monkeypatch.setenv("LUCID_TRACKING_URI", shop.uri)
    rank = ("live", "rank", "--queue", str(queue), "--json")
    said = lucid(*rank)
    assert json.loads(said.out)["release"].endswith("(champion, cluster small)")
    said = lucid(*rank, "--trust", "unsigned")
    assert json.loads(said.out)["release"].endswith("(champion, cluster small, not signed)")
    said = lucid(*rank, "--trust", str(tmp_path / "none.json"))
    assert "There is no trust file at" in json.loads(said.out)["release"]


def test_without_cryptography_unsigned_releases_are_followed_and_signed_ones_say_what_is_missing(
    shop: Any, state: Path, tmp_path: Path
) -> None:
    publish_release(tracking_uri=shop.uri, cluster="small", version=shop.approved(1))
    for trust, words in (
        ("unsigned", "(champion, cluster small, not signed)"),
        (str(state / "trust.json"), "pip install 'lucid-mlops[verify]'"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_CRYPTOGRAPHY, shop.uri, str(tmp_path / trust[:8].strip("/"))],
            env=os.environ | {"LUCID_TRUST": trust},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert words in done.stdout, done.stderr


def test_settings_name_the_trust_file_or_have_it_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LUCID_TRUST", raising=False)
    settings = tmp_path / "live.toml"

    def trust(text: str, **given: str) -> str:
        settings.write_text(f'cluster = "small"\n{text}')
        return read_live_settings(settings, **given).trust

    assert trust("") == ""
    assert trust('trust = "unsigned"') == "unsigned"
    assert trust('trust = "keys/trust.json"') == str(tmp_path / "keys" / "trust.json")
    assert trust('trust = "/etc/lucid/trust.json"') == "/etc/lucid/trust.json"
    (tmp_path / "trust.json").write_text("{}")
    assert trust("") == str(tmp_path / "trust.json")
    assert trust("", trust="unsigned") == "unsigned"
    monkeypatch.setenv("LUCID_TRUST", "unsigned")
    assert trust("") == ""


def test_by_default_nothing_unsigned_is_followed(
    tmp_path: Path, small_model_files: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_release(tmp_path, small_model_files)
    monkeypatch.delenv("LUCID_TRUST")
    client = ReleaseClient("http://127.0.0.1:1", "champion", tmp_path, cluster="small")
    assert f"There is no trust file at {tmp_path / 'trust.json'}" in client.current.describe()
    assert client.status().trust == "signed"
