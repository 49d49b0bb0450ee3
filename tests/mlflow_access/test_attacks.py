"""What accounts try that is another part's, on the real server with live releases of two clusters."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.evidence import Evidence
from tests.mlflow_access.conftest import MARS, VENUS, GuardedMlflow

pytestmark = pytest.mark.thorough("small models are trained, and the real server stocked with two releases")

API = "/api/2.0/mlflow"
FILES = "/api/2.0/mlflow-artifacts/artifacts"
Request = tuple[str, str, dict[str, Any]]


class Stock:
    """What lies on the server, as its admin sees it."""

    def __init__(self, mlflow: GuardedMlflow) -> None:
        self._admin = mlflow.client("admin")

    def version(self, cluster: str) -> dict[str, Any]:
        query = {"name": f"lucid-release-{cluster}", "alias": "champion"}
        found = self._admin.get(f"{API}/registered-models/alias", params=query)
        document: dict[str, Any] = found.raise_for_status().json()["model_version"]
        return document

    def tag(self, cluster: str, key: str) -> str:
        return next(tag["value"] for tag in self.version(cluster)["tags"] if tag["key"] == key)

    def experiment(self, name: str) -> str:
        found = self._admin.get(f"{API}/experiments/get-by-name", params={"experiment_name": name})
        return str(found.raise_for_status().json()["experiment"]["experiment_id"])

    def verdict_file(self, cluster: str) -> str:
        run = self.tag(cluster, "verdict_run_id")
        return f"{FILES}/{self.experiment('lucid-release-validation')}/{run}/artifacts/verdict.json"

    def model_file(self, cluster: str) -> str:
        run = self.version(cluster)["run_id"]
        return f"{FILES}/{self.experiment('lucid-release')}/{run}/artifacts/release/manifest.json"

    def everything(self) -> Any:
        """What must not change: models with their aliases and tags, versions, experiments and files."""
        asked = (
            (f"{API}/registered-models/search", {}),
            (f"{API}/model-versions/search", {}),
            (f"{API}/experiments/search", {"max_results": 1000}),
        )
        return [
            *(self._admin.get(path, params=query).raise_for_status().json() for path, query in asked),
            *(
                self._admin.get(file).raise_for_status().content
                for cluster in (VENUS, MARS)
                for file in (self.verdict_file(cluster), self.model_file(cluster))
            ),
        ]


@pytest.fixture
def stock(stocked: GuardedMlflow) -> Stock:
    return Stock(stocked)


def release(cluster: str, **more: Any) -> dict[str, Any]:
    return {"name": f"lucid-release-{cluster}", **more}


def alias(name: str) -> Callable[[Stock], list[Request]]:
    return lambda stock: [
        ("POST", f"{API}/registered-models/alias", {"json": release(VENUS, alias=name, version="1")}),
        ("DELETE", f"{API}/registered-models/alias", {"json": release(VENUS, alias=name)}),
    ]


def version_tag(*keys: str) -> Callable[[Stock], list[Request]]:
    return lambda stock: [
        request
        for key in keys
        for request in (
            (
                "POST",
                f"{API}/model-versions/set-tag",
                {"json": release(VENUS, version="1", key=key, value="approved")},
            ),
            ("DELETE", f"{API}/model-versions/delete-tag", {"json": release(VENUS, version="1", key=key)}),
        )
    ]


def born_approved(stock: Stock) -> list[Request]:
    made = stock.version(VENUS)
    new = {"source": made["source"], "run_id": made["run_id"]}
    return [
        (
            "POST",
            f"{API}/model-versions/create",
            {"json": release(VENUS, tags=[{"key": key, "value": "approved"}], **new)},
        )
        for key in ("verdict", "verdict_sha256", "publication", "mlflow.prompt.is_prompt")
    ]


def files_of(*which: str) -> Callable[[Stock], list[Request]]:
    def requests(stock: Stock) -> list[Request]:
        files = {"verdict": stock.verdict_file(VENUS), "release": stock.model_file(VENUS)}
        return [
            request
            for name in which
            for path in (files[name], files[name].replace("/api/", "/ajax-api/"))
            for request in (
                ("PUT", path, {"content": b"{}"}),
                ("PUT", path.replace("/artifacts/", "/artifacts/../artifacts/", 1), {"content": b"{}"}),
                ("PUT", path.replace("artifacts/", "artifacts/%2e%2e/artifacts/"), {"content": b"{}"}),
                ("DELETE", path, {}),
                ("DELETE", path.partition("/artifacts/release")[0].removesuffix("/verdict.json"), {}),
                (
                    "POST",
                    path.replace("artifacts/", "mpu/create/", 1),
                    {"json": {"path": "x", "num_parts": 1}},
                ),
            )
        ]

    return requests


def first_champion(stock: Stock) -> list[Request]:
    made = stock.version(VENUS)
    new = {"source": made["source"], "run_id": made["run_id"]}
    return [
        ("POST", f"{API}/experiments/create", {"json": {"name": "lucid-release-validation-2"}}),
        ("POST", f"{API}/registered-models/create", {"json": release("earth")}),
        ("POST", f"{API}/model-versions/create", {"json": release("earth", **new)}),
        ("POST", f"{API}/registered-models/alias", {"json": release("earth", alias="champion", version="1")}),
    ]


def run_of(experiment: str) -> Callable[[Stock], list[Request]]:
    def requests(stock: Stock) -> list[Request]:
        number = stock.experiment(experiment)
        run = stock.tag(VENUS, "verdict_run_id")
        named = {"run_id": run, "run_uuid": stock.version(VENUS)["run_id"]}
        return [
            ("POST", f"{API}/runs/create", {"json": {"experiment_id": number}}),
            ("POST", f"{API}/runs/create", {"json": {"experimentId": number}}),
            ("POST", f"{API}/runs/set-tag", {"json": {"run_id": run, "key": "cluster", "value": MARS}}),
            ("POST", f"{API}/runs/set-tag", {"json": {"runUuid": run, "key": "cluster", "value": MARS}}),
            ("POST", f"{API}/runs/set-tag", {"json": {**named, "key": "cluster", "value": MARS}}),
            ("POST", f"{API}/runs/update", {"json": {"run_id": run, "status": "RUNNING"}}),
            ("POST", f"{API}/experiments/update", {"json": {"experiment_id": number, "new_name": "x"}}),
            ("POST", f"{API}/experiments/delete", {"json": {"experiment_id": number}}),
        ]

    return requests


def registry_itself(stock: Stock) -> list[Request]:
    venus = release(VENUS)
    return [
        ("DELETE", f"{API}/registered-models/alias", {"json": {**venus, "alias": "champion"}}),
        ("POST", f"{API}/registered-models/rename", {"json": {**venus, "new_name": "x"}}),
        ("DELETE", f"{API}/registered-models/delete", {"json": venus}),
        ("DELETE", f"{API}/model-versions/delete", {"json": {**venus, "version": "1"}}),
        ("POST", f"{API}/registered-models/set-tag", {"json": {**venus, "key": "migrated", "value": "x"}}),
        ("POST", f"{API}/registered-models/create", {"json": {"name": "other"}}),
        (
            "POST",
            f"{API}/registered-models/create",
            {
                "json": {
                    "name": "lucid-release-earth",
                    "tags": [{"key": "mlflow.prompt.is_prompt", "value": "true"}],
                }
            },
        ),
        ("POST", f"{API}/webhooks", {"json": {"name": "x", "url": "https://example.org", "events": []}}),
        (
            "POST",
            "/api/3.0/mlflow/gateway/secrets/create",
            {"json": {"secret_name": "x", "secret_value": [{"key": "api_key", "value": "v"}]}},
        ),
        ("POST", "/ajax-api/3.0/mlflow/demo/generate", {"json": {}}),
    ]


def of_another_cluster(stock: Stock) -> list[Request]:
    mars = release(MARS)
    run = {"run_uuid": stock.tag(MARS, "verdict_run_id"), "path": "verdict.json"}
    own = {"run_uuid": stock.version(VENUS)["run_id"], "path": "release/manifest.json"}
    return [
        ("GET", f"{API}/registered-models/alias", {"params": {**mars, "alias": "champion"}}),
        ("GET", f"{API}/registered-models/get", {"params": mars}),
        (
            "GET",
            "/model-versions/get-artifact",
            {"params": {**mars, "version": "1", "path": "manifest.json"}},
        ),
        ("GET", "/get-artifact", {"params": run}),
        ("GET", "/get-artifact", {"params": own}),
        ("GET", f"{API}/model-versions/search", {}),
        ("POST", f"{API}/runs/search", {"json": {"experiment_ids": ["1"]}}),
        ("GET", FILES, {}),
        ("GET", stock.model_file(VENUS), {}),
        ("POST", "/graphql", {"json": {"query": "query { __typename }"}}),
        ("GET", "/", {}),
    ]


VERDICT_TAGS = ("verdict", "verdict_sha256", "verdict_run_id", "verdict_sentence", "judgement")
PUBLISHED_TAGS = ("went_live", "rolled_back", "publication", "turned_down")
# What is tried -> (the accounts that try it, their requests).
ATTACKS: dict[str, tuple[tuple[str, ...], Callable[[Stock], list[Request]]]] = {
    "first champion by a scheduler's account": (("schedule", "pages"), first_champion),
    "champion or previous moved by an account of another part": (
        ("train", "judge", "schedule", "pages"),
        lambda stock: alias("champion")(stock) + alias("previous")(stock) + alias("Champion")(stock),
    ),
    "verdict tagged by an account of another part": (
        ("train", "publish", "schedule", "pages"),
        version_tag(*VERDICT_TAGS),
    ),
    "publication tagged by an account of another part": (
        ("train", "judge", "schedule", "pages"),
        version_tag(*PUBLISHED_TAGS),
    ),
    "pinned digest of a live release changed": (
        ("train", "judge", "publish", "schedule", "pages"),
        version_tag("manifest_sha256", "content_sha256", "cluster"),
    ),
    "release registered with a verdict of its maker's": (("train", "judge", "publish"), born_approved),
    "files of a verdict or of a live release written or deleted": (
        ("train", "judge", "publish", "schedule", "pages", "upkeep"),
        files_of("verdict", "release"),
    ),
    "run of the gate made or changed by an account of another part": (
        ("train", "publish", "schedule", "pages"),
        run_of("lucid-release-validation"),
    ),
    "run of a publication made by an account of another part": (
        ("train", "judge", "schedule", "pages"),
        lambda stock: [
            ("POST", f"{API}/experiments/create", {"json": {"name": "lucid-publications"}}),
            (
                "POST",
                f"{API}/experiments/create",
                {"json": {"name": "lucid-training", "artifact_location": "/"}},
            ),
        ],
    ),
    "registry, webhooks, gateway changed by a service's account": (
        ("train", "judge", "publish", "schedule", "pages"),
        registry_itself,
    ),
    "another cluster's release, or a run, read by a scheduler's account": (("schedule",), of_another_cluster),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.evidence(table="faults", rows=("35",))
@pytest.mark.evidence(
    table="security",
    rows=(
        "first champion by a scheduler's account",
        "champion or previous moved by an account of another part",
        "verdict tagged by an account of another part",
        "publication tagged by an account of another part",
        "pinned digest of a live release changed",
        "release registered with a verdict of its maker's",
        "files of a verdict or of a live release written or deleted",
        "run of the gate made or changed by an account of another part",
        "run of a publication made by an account of another part",
        "registry, webhooks, gateway changed by a service's account",
        "another cluster's release, or a run, read by a scheduler's account",
    ),
)
def test_it_is_refused_and_changes_nothing(
    stocked: GuardedMlflow, stock: Stock, attack: str, evidence: Evidence
) -> None:
    accounts, requests = ATTACKS[attack]
    before = stock.everything()
    tried = 0
    for account in accounts:
        for method, path, parts in requests(stock):
            answer = stocked.client(account).request(method, path, **parts)
            assert answer.status_code in (400, 403, 404, 405), (account, method, path, parts, answer.text)
            # What MLflow itself refuses, such as `runUuid`, it has to refuse to its admin too.
            if answer.status_code != 403:
                admins = stocked.client("admin").request(method, path, **parts)
                assert admins.status_code == answer.status_code, (account, method, path, parts, answer.text)
            tried += 1
    assert stock.everything() == before
    who = ", ".join(accounts)
    said = f"{tried} requests as {who}: each refused by MLflow, nothing is changed."
    evidence("security", attack, said)
    if attack == "first champion by a scheduler's account":
        evidence("faults", "35", said)


def test_a_finished_run_of_a_release_is_not_written_over(stocked: GuardedMlflow, stock: Stock) -> None:
    """By the account that made it either, nor opened again."""
    run = stock.version(VENUS)["run_id"]
    train = stocked.client("train")
    assert train.put(stock.model_file(VENUS), content=b"{}").status_code == 403
    for path, body in (
        ("update", {"run_id": run, "status": "RUNNING"}),
        ("set-tag", {"run_id": run, "key": "x", "value": "y"}),
        ("log-batch", {"run_id": run, "params": [{"key": "x", "value": "y"}]}),
    ):
        answer = train.post(f"{API}/runs/{path}", json=body)
        assert answer.status_code == 403, path
        assert "has ended" in answer.json()["message"]


def test_another_site_cannot_use_the_login_of_a_browser(stocked: GuardedMlflow) -> None:
    answer = stocked.client("admin").post(
        "/graphql", json={"query": "query { __typename }"}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status_code == 403
    assert "another site" in answer.json()["message"]


def test_a_web_socket_is_refused(guarded_mlflow: GuardedMlflow) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    answer: httpx.Response = guarded_mlflow.client(None).get("/graphql", headers=upgrade)
    assert answer.status_code in (401, 403)
