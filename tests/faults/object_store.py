"""An object store in memory: as much of S3 as the lake asks for, and faults when it is told to."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape


@dataclass
class ObjectStore:
    """Its objects, and its faults: each answer comes late, or every so many requests are refused."""

    port: int
    objects: dict[str, bytes] = field(default_factory=dict)
    written: dict[str, datetime] = field(default_factory=dict)
    delay_s: float = 0.0
    refuse: tuple[int, str] | None = None  # status and S3's code, such as (503, "SlowDown")
    refuse_every: int = 1
    fails_after: int = 0  # requests that are answered before any is refused
    cut_off: bool = False  # bodies end in the middle
    requests: int = 0
    refused: int = 0
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def uri(self) -> str:
        """What AWS_ENDPOINT_URL names."""
        return f"http://127.0.0.1:{self.port}"

    def put(self, name: str, whole: bytes) -> str:
        """Keep an object; its tag."""
        self.objects[name], self.written[name] = whole, datetime.now(UTC)
        return tag_of(whole)

    def is_refused(self) -> bool:
        """Count a request; whether it is one of those that are refused."""
        with self.lock:
            self.requests += 1
            due = self.requests > self.fails_after and self.requests % self.refuse_every == 0
            refused = self.refuse is not None and due
            self.refused += refused
        return refused


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: ObjectStore

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _serve(self) -> None:
        body = self._body()
        time.sleep(self.store.delay_s)
        if self.store.is_refused():
            status, code = self.store.refuse or (500, "InternalError")
            error = f"<Error><Code>{code}</Code><Message>{code} of the test</Message></Error>"
            self._answer(status, error.encode())
            return
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
        _, bucket, key = [*unquote(address.path).split("/", 2), ""][:3]
        with self.store.lock:
            if not key:
                self._bucket(bucket, query, body)
            elif "uploads" in query or "uploadId" in query:
                self._upload(f"{bucket}/{key}", query, body)
            else:
                self._object(f"{bucket}/{key}", body)

    def _bucket(self, bucket: str, query: dict[str, str], body: bytes) -> None:
        objects = self.store.objects
        if "delete" in query:
            for found in ElementTree.fromstring(body).iter():
                if found.tag.endswith("Key"):
                    objects.pop(f"{bucket}/{found.text}", None)
            self._answer(200, b"<DeleteResult/>")
        elif self.command == "GET":
            self._answer(200, self._listing(bucket, query))
        else:
            self._answer(200)

    def _listing(self, bucket: str, query: dict[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        rows, folders = [], set()
        for name in sorted(self.store.objects):
            key = name.removeprefix(f"{bucket}/")
            if name == key or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            size = len(self.store.objects[name])
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
                f"<LastModified>{self.store.written[name]:%Y-%m-%dT%H:%M:%S.%fZ}</LastModified></Contents>"
            )
        rows += [
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(folders)
        ]
        count = len(rows)
        rows = rows[: int(query.get("max-keys", 1_000))] if query.get("max-keys") else rows
        return f"<ListBucketResult><KeyCount>{count}</KeyCount>{''.join(rows)}</ListBucketResult>".encode()

    def _upload(self, name: str, query: dict[str, str], body: bytes) -> None:
        uploads = self.store.uploads
        if "uploads" in query:
            made = str(self.store.requests)
            uploads[made] = {}
            answer = (
                f"<InitiateMultipartUploadResult><UploadId>{made}</UploadId></InitiateMultipartUploadResult>"
            )
            self._answer(200, answer.encode())
        elif self.command == "PUT":
            uploads[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, headers={"ETag": tag_of(body)})
        elif self.command == "POST":
            parts = uploads[query["uploadId"]]  # kept: a client that heard no answer asks again
            made = self.store.put(name, b"".join(parts[number] for number in sorted(parts)))
            tag = f"<ETag>{escape(made)}</ETag>"
            answer = f"<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>"
            self._answer(200, answer.encode())
        else:
            uploads.pop(query["uploadId"], None)
            self._answer(204)

    def _object(self, name: str, body: bytes) -> None:
        objects = self.store.objects
        if self.command == "PUT":
            source = self.headers.get("x-amz-copy-source")
            tag = self.store.put(name, objects[unquote(source).lstrip("/")] if source else body)
            copied = b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>" if source else b""
            self._answer(200, copied, {"ETag": tag})
        elif self.command == "DELETE":
            objects.pop(name, None)
            self._answer(204)
        elif name not in objects:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._send_object(objects[name], format_datetime(self.store.written[name], usegmt=True))

    def _send_object(self, whole: bytes, written: str) -> None:
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if not asked:
            self._answer(200, whole, {"ETag": tag_of(whole), "Last-Modified": written})
            return
        first, _, last = asked.partition("-")
        begin = int(first) if first else max(0, len(whole) - int(last))
        end = min(len(whole) - 1, int(last)) if first and last else len(whole) - 1
        headers = {"Content-Range": f"bytes {begin}-{end}/{len(whole)}", "ETag": tag_of(whole)}
        self._answer(206, whole[begin : end + 1], headers | {"Last-Modified": written})

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/xml", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.store.cut_off and len(body) > 1:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        self.wfile.write(body)

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return _unpacked(body) if "x-amz-decoded-content-length" in self.headers else body


def _unpacked(body: bytes) -> bytes:
    """The payload of AWS' own chunks, which are signed or followed by a checksum."""
    payload = b""
    while body:
        head, _, body = body.partition(b"\r\n")
        size = int(head.split(b";")[0], 16)
        if not size:
            break
        payload, body = payload + body[:size], body[size + 2 :]
    return payload


def tag_of(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run a store."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    store = ObjectStore(server.server_port)
    server.RequestHandlerClass = type("Handler", (_Handler,), {"store": store})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
