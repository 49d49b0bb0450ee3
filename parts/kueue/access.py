"""How to reach an API server: from a pod's service account, or from a kubeconfig file.

The server's certificate is always verified. Tokens are read anew from their file, since Kubernetes replaces
them about every hour. Kubeconfigs that call a program for a token (`exec`) are refused: a daemon gets a
service account of its own (`rbac.yaml`).
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from foundation.errors import BadInputError, NotFoundError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


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
