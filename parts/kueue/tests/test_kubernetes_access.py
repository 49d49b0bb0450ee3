"""How an API server is reached: service accounts, kubeconfigs, certificates."""

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from foundation.errors import BadInputError, LucidError, NotFoundError, ServiceUnavailableError
from parts.kueue.api_client import (
    ApiClient,
    ClusterAccess,
    access_from_kubeconfig,
    access_in_pod,
    find_access,
)
from parts.kueue.quantities import parse_quantity, whole
from tests.evidence import Evidence

NOW = datetime.now(UTC)


class Authority:
    """A certificate authority of a test's own."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(name, self.key, authority=True)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """A certificate for this machine, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return certificate.public_bytes(serialization.Encoding.PEM), private

    def _sign(self, name: str, key: Any, *, authority: bool = False) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if authority else self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - timedelta(days=1))
            .not_valid_after(NOW + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
            )
        )
        return builder.sign(self.key, hashes.SHA256())


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("cluster")


@contextmanager
def secure_server(authority: Authority, folder: Path, *, asks_clients: bool = False) -> Iterator[str]:
    certificate, key = authority.issue("server")
    pem = folder / "server.pem"
    pem.write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    if asks_clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authority.pem.decode())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = self.headers.get("Authorization", "nobody").encode()
            body = b'{"who": "%s"}' % text
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            pass  # a client that does not trust us hangs up

    with Quiet(("127.0.0.1", 0), Handler) as listener:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.server_address[1]}"
        listener.shutdown()
        thread.join()


def write_kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    path = folder / "config"
    document = {
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "one", "user": "me"}}],
        "clusters": [{"name": "one", "cluster": cluster}],
        "users": [{"name": "me", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.evidence(table="faults", rows=("45",))
def test_a_pod_uses_its_service_account_and_follows_its_token(
    authority: Authority, tmp_path: Path, evidence: Evidence
) -> None:
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "token").write_text("first\n")
    with secure_server(authority, tmp_path) as address:
        host, port = address.removeprefix("https://").split(":")
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        client = ApiClient(access_in_pod(environment, tmp_path))
        assert client.get("/") == {"who": "Bearer first"}
        (tmp_path / "token").write_text("second\n")  # Kubernetes replaces it about every hour
        assert client.get("/") == {"who": "Bearer second"}
        client.close()
    six = access_in_pod({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert six.server == "https://[fd00::1]:443"
    evidence(
        "faults",
        "45",
        "A service account's token of Kubernetes is read anew whenever it was renewed.",
    )


def test_a_server_that_another_authority_vouches_for_is_not_spoken_to(
    authority: Authority, tmp_path: Path
) -> None:
    with secure_server(authority, tmp_path) as address:
        user = {"token": "secret"}
        own = {"server": address, "certificate-authority-data": encoded(authority.pem)}
        assert ApiClient(access_from_kubeconfig(write_kubeconfig(tmp_path, own, user))).get("/") == {
            "who": "Bearer secret"
        }
        other = {**own, "certificate-authority-data": encoded(Authority("other").pem)}
        stranger = ApiClient(access_from_kubeconfig(write_kubeconfig(tmp_path, other, user)))
        with pytest.raises(ServiceUnavailableError, match="certificate"):
            stranger.get("/")
        nobody = ApiClient(access_from_kubeconfig(write_kubeconfig(tmp_path, {"server": address}, user)))
        with pytest.raises(ServiceUnavailableError, match="certificate"):
            nobody.get("/")


def test_a_client_certificate_is_presented(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("lucid")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    with secure_server(authority, tmp_path, asks_clients=True) as address:
        cluster = {"server": address, "certificate-authority": "ca.crt"}  # beside the kubeconfig
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
        client = ApiClient(access_from_kubeconfig(write_kubeconfig(tmp_path, cluster, user)))
        assert client.get("/") == {"who": "nobody"}


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"server": "https://k", "insecure-skip-tls-verify": True}, {"token": "x"}, "not to verify"),
        ({"server": "https://k"}, {"exec": {"command": "aws"}}, "logs in by 'exec'"),
        ({"server": "http://10.0.0.1:8080"}, {"token": "x"}, "Use https"),
        ({"server": "https://k", "certificate-authority-data": "%"}, {"token": "x"}, "not base64"),
        ({"server": "https://k", "certificate-authority-data": "bm9uZQ=="}, {}, "cannot be read"),
        ({"server": "https://k"}, {"tokenFile": "absent"}, "absent cannot be read"),
        ({}, {"token": "x"}, "no kubeconfig that can be used"),
    ],
)
def test_a_kubeconfig_that_is_not_safe_or_not_whole_is_refused(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    with pytest.raises(LucidError, match=message):
        access_from_kubeconfig(write_kubeconfig(tmp_path, cluster, user))


def test_contexts_are_named_when_one_is_missing(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, {"server": "https://k"}, {"token": "x"})
    with pytest.raises(NotFoundError, match=r"no context 'other'. It has: lab"):
        access_from_kubeconfig(path, "other")
    path.write_text("- not\n- a kubeconfig")
    with pytest.raises(BadInputError, match="no kubeconfig"):
        access_from_kubeconfig(path)
    with pytest.raises(NotFoundError, match="cannot be read"):
        access_from_kubeconfig(tmp_path / "absent")


def test_finds_what_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    path = write_kubeconfig(tmp_path, {"server": "https://from-kubeconfig"}, {"token": "x"})
    monkeypatch.setenv("KUBECONFIG", f"{path}:/elsewhere")
    assert find_access().server == "https://from-kubeconfig"
    assert find_access(path, "lab").token() == "x"


def test_a_token_goes_over_plain_http_on_this_machine_only() -> None:
    assert ClusterAccess("http://127.0.0.1:8001", None, lambda: "x").server
    with pytest.raises(BadInputError):
        ClusterAccess("http://example.org", None, lambda: "x")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("8", 8),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        ("64Gi", 64 * 2**30),
        ("2k", 2000),
        ("1e3", 1000),
        ("2E", 2 * 10**18),
        ("-1", -1),
        (".5", Fraction(1, 2)),
        ("3.", 3),
    ],
)
def test_amounts_are_read_as_kubernetes_writes_them(text: str, amount: Fraction) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "eight", "1 ", "1KB", "1e", "0x8", "NaN", None, "1e1000"])
def test_what_is_no_amount_is_refused(text: object) -> None:
    with pytest.raises(BadInputError):
        parse_quantity(text)


@given(st.integers(0, 10**6))
def test_gpus_are_whole(count: int) -> None:
    assert whole(parse_quantity(str(count))) == whole(parse_quantity(f"{count * 1000}m")) == count
    with pytest.raises(BadInputError, match="no number of GPUs"):
        whole(parse_quantity(f"{count}.5"))
