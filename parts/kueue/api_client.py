"""The few requests that the adapter makes of a Kubernetes API server.

A list comes in pages of one snapshot of the collection (`limit`, `continue`); when the server no longer has
that snapshot (410 Gone) the list is read again from its start, so that no two pages are of different moments.
A change names the version of the object that it was decided on: the server refuses it (409 Conflict) when the
object has changed since. (Kubernetes, "API concepts": retrieving large results sets in chunks; updates.)

The server is reached from a pod's service account, or by a kubeconfig file. Its certificate is always
verified. Tokens are read anew from their file, since Kubernetes replaces them about every hour. Kubeconfigs
that call a program for a token (`exec`) are refused: a daemon gets a service account of its own
(`rbac.yaml`).
"""

import base64
import binascii
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from foundation.bounded_http import AnswerLimits, BoundedClient, json_of
from foundation.errors import BadInputError, LucidError, NotFoundError, ServiceUnavailableError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
Json = dict[str, Any]
PAGE = 500
# etcd holds objects of at most 1.5 MiB; those of a page are far smaller on average.
MOST_BYTES = 256 * 1024 * 1024
MOST_PAGES = 2_000
_RESTARTS = 3


class ApiRefusalError(LucidError):
    """The server answered, and refused a request; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ClusterAccess:
    """An API server's address, what to verify it with (None: plain HTTP on loopback), and how to log in."""

    server: str
    tls: ssl.SSLContext | None
    token: Callable[[], str | None]

    def __post_init__(self) -> None:
        """Refuse to send a token where others can read it."""
        parts = urlsplit(self.server)
        if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            return
        raise BadInputError(
            f"The API server's address is {self.server!r}.",
            remedy="Use https, or http to a proxy on this machine (kubectl proxy).",
        )


def find_access(kubeconfig: Path | None = None, context: str | None = None) -> ClusterAccess:
    """Return the access that a file describes; without one the pod's own, KUBECONFIG or ~/.kube/config.

    Raises NotFoundError when there is none of these, BadInputError for what cannot be used.
    """
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        return access_in_pod(os.environ, SERVICE_ACCOUNT)
    if kubeconfig is None:
        first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
        kubeconfig = Path(first) if first else Path.home() / ".kube" / "config"
    return access_from_kubeconfig(kubeconfig, context)


def access_in_pod(environment: Mapping[str, str], folder: Path) -> ClusterAccess:
    """Return the access that every pod is given: the address in its environment, files in a folder."""
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:  # an IPv6 address
        host = f"[{host}]"
    authority = _read(folder / "ca.crt")
    return ClusterAccess(
        f"https://{host}:{port}", _tls(authority, folder / "ca.crt"), _from_file(folder / "token")
    )


def access_from_kubeconfig(path: Path, context: str | None = None) -> ClusterAccess:
    """Return the access of a kubeconfig's context (None: its current one)."""
    try:
        document = yaml.safe_load(_read(path))
        wanted = context or document["current-context"]
        current = _named(document, "contexts", "context", wanted, path)
        cluster = _named(document, "clusters", "cluster", current["cluster"], path)
        user = _named(document, "users", "user", current["user"], path) if current.get("user") else {}
        server = str(cluster["server"]).rstrip("/")
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInputError(f"{path} is no kubeconfig that can be used: {error!r}.") from error
    if cluster.get("insecure-skip-tls-verify"):
        raise BadInputError(
            f"{path} says not to verify {server} (insecure-skip-tls-verify).",
            remedy="Give its certificate-authority instead.",
        )
    for way in ("exec", "auth-provider", "username"):
        if user.get(way):
            raise BadInputError(
                f"The user of the context {wanted!r} in {path} logs in by {way!r}.",
                remedy="Give a token, tokenFile or client certificate: rbac.yaml makes a service account.",
            )
    authority = _data_or_file(cluster, "certificate-authority", path)
    tls = _tls(authority, path) if server.startswith("https://") else None
    if tls is not None:
        _present_certificate(tls, user, path)
    return ClusterAccess(server, tls, _login(user, path))


def _named(document: Any, group: str, kind: str, name: str, path: Path) -> Mapping[str, Any]:
    for entry in document[group]:
        if entry["name"] == name:
            content: Mapping[str, Any] = entry[kind]
            return content
    raise NotFoundError(
        f"{path} has no {kind} {name!r}.",
        remedy=f"It has: {', '.join(sorted(entry['name'] for entry in document[group])) or 'none'}.",
    )


def _login(user: Mapping[str, Any], path: Path) -> Callable[[], str | None]:
    if user.get("tokenFile"):
        return _from_file(path.parent / user["tokenFile"])
    token = str(user["token"]) if user.get("token") else None
    return lambda: token


def _from_file(path: Path) -> Callable[[], str]:
    _read(path)  # a missing file is an error now rather than at the first request
    return lambda: _read(path).decode().strip()


def _tls(authority: bytes | None, source: Path) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise BadInputError(f"The certificate authority of {source} cannot be read: {error}.") from error
    # Set from Python 3.13 on: it refuses certificates without the key identifiers of RFC 5280, which clusters
    # have and kubectl accepts. Chain and name are verified as before.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _present_certificate(tls: ssl.SSLContext, user: Mapping[str, Any], path: Path) -> None:
    certificate = _data_or_file(user, "client-certificate", path)
    key = _data_or_file(user, "client-key", path)
    if certificate is None or key is None:
        return
    # The library reads certificates from files only; this one is private and gone at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            tls.load_cert_chain(file.name)
        except ssl.SSLError as error:
            raise BadInputError(f"The client certificate of {path} cannot be read: {error}.") from error


def _data_or_file(entry: Mapping[str, Any], name: str, path: Path) -> bytes | None:
    if entry.get(f"{name}-data"):
        try:
            return base64.b64decode(entry[f"{name}-data"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadInputError(f"{name}-data in {path} is not base64.") from error
    return _read(path.parent / entry[name]) if entry.get(name) else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}.") from error


class ApiClient:
    """One API server; every method raises ServiceUnavailableError when it does not answer in time."""

    def __init__(self, access: ClusterAccess, *, timeout_s: float = 10.0, page: int = PAGE) -> None:
        """`timeout_s` is the longest that one answer may take as a whole."""
        self._access = access
        self._page = page
        self._http = BoundedClient(
            access.server,
            limits=AnswerLimits(MOST_BYTES, timeout_s),
            verify=access.tls if access.tls is not None else True,
            headers={"Accept": "application/json", "User-Agent": "lucid-live"},
        )
        self._clock_s: float | None = None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def now_s(self) -> float:
        """Return the server's clock at its last answer (this machine's before the first)."""
        return time.time() if self._clock_s is None else self._clock_s

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Json:
        """Return an object or a page of a list; raises ApiRefusalError."""
        return self._request("GET", path, parameters=parameters)

    def list_all(self, path: str, **selectors: str) -> list[Json]:
        """Return all objects of a collection at one moment; raises ApiRefusalError."""
        for _ in range(_RESTARTS):
            try:
                return self._pages(path, selectors)
            except ApiRefusalError as error:
                if error.status != 410:
                    raise
        raise ServiceUnavailableError(f"{self._access.server} lost its place in {path} {_RESTARTS} times.")

    def merge_patch(self, path: str, body: Json) -> Json:
        """Change fields of an object, and return it as it is now; raises ApiRefusalError."""
        return self._request("PATCH", path, body=body)

    def _pages(self, path: str, selectors: Mapping[str, str]) -> list[Json]:
        items: list[Json] = []
        parameters = {**selectors, "limit": str(self._page)}
        for _ in range(MOST_PAGES):
            answer = self.get(path, parameters)
            items += answer.get("items") or []
            rest = (answer.get("metadata") or {}).get("continue")
            if not rest:
                return items
            parameters["continue"] = rest
        raise ServiceUnavailableError(f"{self._access.server} gave {MOST_PAGES} pages of {path} and no end.")

    def _request(
        self, method: str, path: str, *, parameters: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        headers = {"Content-Type": "application/merge-patch+json"} if body is not None else {}
        token = self._access.token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        answer = self._http.request(method, path, params=parameters, json=body, headers=headers)
        document = json_of(answer, strict=False)  # megabytes at each pass, from the cluster's own server
        if "date" in answer.headers:
            self._clock_s = _clock(answer.headers["date"]) or self._clock_s
        if answer.is_success and isinstance(document, dict):
            return document
        message = str(document.get("message") if isinstance(document, dict) else "") or answer.reason_phrase
        # 401: the token expired, 429: too many requests. Both pass.
        if answer.status_code >= 500 or answer.status_code in (401, 429):
            raise ServiceUnavailableError(f"{self._access.server} answered {answer.status_code}: {message}")
        raise ApiRefusalError(answer.status_code, message)


def _clock(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
