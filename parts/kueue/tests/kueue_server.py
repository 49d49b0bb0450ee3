"""An API server for tests: serves and patches objects over real HTTP on loopback, as Kubernetes does.

Lists come in pages of a snapshot (`limit`, `continue`; 410 when the snapshot is gone), every change gives an
object a new resourceVersion, a patch that names an old one is refused (409), and who may do what is read
from the roles of a manifest.
"""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from parts import kueue

Json = dict[str, Any]
RECORDED = Path(__file__).with_name("recorded")
RBAC = Path(str(kueue.__file__)).parent / "rbac.yaml"
TOKEN = "a-service-account-token"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"


def recorded(version: str = "v1beta2") -> Json:
    """A fresh copy of the recorded objects."""
    return json.loads((RECORDED / f"kueue_{version}.json").read_text())


class RefusedError(Exception):
    """An answer that is no success: its status and message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


@dataclass
class KueueServer:
    """The objects by collection, and what happened to them."""

    groups: Json
    lists: dict[str, dict[str, Json]]
    rules: list[Json]
    clock_s: float = 1_772_442_900.0  # 2026-03-02 09:15 UTC
    address: str = ""
    away: bool = False  # it closes connections without an answer
    requests: list[tuple[str, str]] = field(default_factory=list)
    before_patch: Callable[[str], None] | None = None
    before_page: Callable[[str, int], None] | None = None
    _version: int = 20_000
    _snapshots: dict[int, list[Json]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # What a test does to the cluster

    def put(self, collection: str, item: Json) -> None:
        """Add an object, or replace it."""
        with self._lock:
            self._version += 1
            item["metadata"]["resourceVersion"] = str(self._version)
            self.lists[collection][_key(item)] = item

    def change(self, collection: str, key: str, how: Callable[[Json], None]) -> None:
        """Change an object, as somebody else would."""
        with self._lock:
            item = deepcopy(self.lists[collection][key])
            how(item)
            self.put(collection, item)

    def delete(self, collection: str, key: str) -> None:
        """Delete an object."""
        with self._lock:
            del self.lists[collection][key]

    def workload(self, key: str) -> Json:
        """A workload as it is now."""
        with self._lock:
            return deepcopy(self.lists[WORKLOADS][key])

    def forget_snapshots(self) -> None:
        """From now on pages of lists that were begun are gone."""
        with self._lock:
            self._snapshots.clear()

    # What it answers

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Json:
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        path = unquote(parts.path)
        with self._lock:
            self.requests.append((method, target))
            if headers.get("Authorization") != f"Bearer {TOKEN}":
                raise RefusedError(401, "Unauthorized", "Unauthorized")
            if path == "/apis/kueue.x-k8s.io":
                return self.groups
            if path == "/apis/resource.k8s.io":
                return {"versions": [{"version": "v1beta1"}, {"version": "v1"}]}
            collection, namespace, name = _split(path)
            verb = {"GET": "get" if name else "list", "PATCH": "patch"}[method]
            self._authorize(verb, collection)
            if collection not in self.lists:
                raise RefusedError(404, "NotFound", "the server could not find the requested resource")
            if name is None:
                return self._page(collection, query)
            key = f"{namespace}/{name}"
            if method == "PATCH":
                assert headers["Content-Type"] == "application/merge-patch+json"
                return self._patch(collection, key, json.loads(body))
            return deepcopy(self._get(collection, key))

    def _get(self, collection: str, key: str) -> Json:
        if key not in self.lists[collection]:
            kind = collection.rpartition("/")[2]
            raise RefusedError(404, "NotFound", f'{kind}.kueue.x-k8s.io "{key.partition("/")[2]}" not found')
        return self.lists[collection][key]

    def _page(self, collection: str, query: dict[str, str]) -> Json:
        if "continue" in query:
            place = json.loads(base64.b64decode(query["continue"]))
            version, start = place["v"], place["start"]
        else:
            version, start = self._version, 0
            self._snapshots[version] = [
                deepcopy(item)
                for _, item in sorted(self.lists[collection].items())
                if _selected(item, query.get("fieldSelector", ""))
            ]
        if self.before_page is not None:
            self.before_page(collection, start)
        if version not in self._snapshots:
            raise RefusedError(410, "Expired", "The provided continue parameter is too old")
        items = self._snapshots[version]
        end = start + int(query.get("limit", len(items) or 1))
        metadata: Json = {"resourceVersion": str(version)}
        if end < len(items):
            metadata["continue"] = base64.b64encode(
                json.dumps({"v": version, "start": end}).encode()
            ).decode()
            metadata["remainingItemCount"] = len(items) - end
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[start:end]}

    def _patch(self, collection: str, key: str, patch: Json) -> Json:
        if self.before_patch is not None:
            self.before_patch(key)
        before = self._get(collection, key)
        wanted = patch.get("metadata", {}).pop("resourceVersion", before["metadata"]["resourceVersion"])
        name = key.partition("/")[2]
        if wanted != before["metadata"]["resourceVersion"]:
            raise RefusedError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on workloads.kueue.x-k8s.io "{name}": the object has been'
                " modified; please apply your changes to the latest version and try again",
            )
        after = _merged(before, patch)
        priority = after["spec"].get("priority")
        if priority is not None and not -(2**31) <= priority < 2**31:
            raise RefusedError(
                422,
                "Invalid",
                f'Workload.kueue.x-k8s.io "{name}" is invalid: spec.priority: Invalid value: {priority}',
            )
        if after != before:
            self.put(collection, after)
        return deepcopy(after)

    def _authorize(self, verb: str, collection: str) -> None:
        group, resource = _group(collection), collection.rpartition("/")[2]
        for rule in self.rules:
            if group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]:
                return
        raise RefusedError(
            403,
            "Forbidden",
            f'{resource}.{group} is forbidden: User "system:serviceaccount:lucid-live:lucid-live" cannot'
            f' {verb} resource "{resource}" in API group "{group}" at the cluster scope',
        )


def _key(item: Json) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]


def _split(path: str) -> tuple[str, str | None, str | None]:
    base, _, rest = path.partition("/namespaces/")
    if not rest:
        return path, None, None
    namespace, resource, name = rest.split("/")
    return f"{base}/{resource}", namespace, name


def _group(collection: str) -> str:
    return collection.split("/")[2] if collection.startswith("/apis/") else ""


def _selected(item: Json, selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        path, _, value = term.partition("!=")
        found: Any = item
        for part in path.split("."):
            found = found.get(part, "")
        if found == value:
            return False
    return True


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


@contextmanager
def serve(objects: Json | None = None) -> Iterator[KueueServer]:
    """Serve objects (the recorded ones) on a free port, with the rights that rbac.yaml gives."""
    objects = recorded() if objects is None else objects
    manifests = yaml.safe_load_all(RBAC.read_text())
    rules = next(item["rules"] for item in manifests if item["kind"] == "ClusterRole")
    server = KueueServer(
        groups=objects["/apis/kueue.x-k8s.io"],
        lists={path: {_key(item): item for item in items} for path, items in objects["lists"].items()},
        rules=rules,
    )

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._serve("GET")

        def do_PATCH(self) -> None:
            self._serve("PATCH")

        def _serve(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if server.away:
                self.close_connection = True
                return
            try:
                status, document = 200, server.answer(method, self.path, self.headers, body)
            except RefusedError as refused:
                status = refused.status
                document = {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "status": "Failure",
                    "message": str(refused),
                    "reason": refused.reason,
                    "code": status,
                }
            payload = json.dumps(document).encode()
            self.send_response_only(status)
            self.send_header("Date", formatdate(server.clock_s, usegmt=True))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        server.address = f"http://127.0.0.1:{listener.server_address[1]}"
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()
