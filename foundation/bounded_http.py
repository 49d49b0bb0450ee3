"""HTTP of ours: every answer is bounded in bytes and in time as a whole, uncompressed, and of the host asked.

httpx's timeouts are of one read: a server that sends a byte a second is never too late for them, neither in
its headers nor in its body. Here each wait on the socket is given what is left of the whole request's time.
The body is asked for as it is (`Accept-Encoding: identity`), since a few kB of gzip make gigabytes. Redirects
are not followed, and proxies of the environment are not used: a token goes to the host that it is for.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from foundation import strict_json
from foundation.deadlines import within
from foundation.errors import BadInputError, ServiceUnavailableError

if TYPE_CHECKING:
    import httpx

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PLAIN_HOSTS = "LUCID_PLAIN_HTTP_HOSTS"
_IDENTITY = ("", "identity")


class AnswerTooLargeError(ServiceUnavailableError):
    """An answer held more bytes than were asked for."""


@dataclass(frozen=True)
class AnswerLimits:
    """What one answer may take: bytes of its body, and seconds from the request's start to its last byte."""

    most_bytes: int
    within_s: float


class BoundedClient:
    """An httpx client with whole and bounded answers; safe to use from several threads.

    `limits` hold for each request that names none; `wait_s` is the longest silence (None: all of the time).
    """

    def __init__(
        self,
        base_url: str = "",
        *,
        limits: AnswerLimits,
        wait_s: float | None = None,
        verify: Any = True,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
    ) -> None:
        """Raises BadInputError for an address that cannot be one."""
        import httpx

        from foundation.deadline_transport import DeadlineTransport

        self.limits = limits
        try:
            self.http = httpx.Client(
                base_url=base_url,
                auth=auth,
                timeout=limits.within_s if wait_s is None else wait_s,
                trust_env=False,
                follow_redirects=False,
                headers=dict(headers or {}),
                transport=DeadlineTransport(verify),
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise BadInputError(
                f"{base_url!r} is no address: {error}.", remedy="Give http://HOST:PORT."
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def get(self, url: str, *, limits: AnswerLimits | None = None, **request: Any) -> "httpx.Response":
        """`request` with GET."""
        return self.request("GET", url, limits=limits, **request)

    def request(
        self,
        method: str,
        url: str,
        *,
        limits: AnswerLimits | None = None,
        received: Callable[[int], object] | None = None,
        **request: Any,
    ) -> "httpx.Response":
        """Return an answer, whatever its status, with its body read; `request` is as httpx takes it.

        `received` is called with how many bytes of the body have come, again and again while more come.
        Raises ServiceUnavailableError for an answer that is not to be had, AnswerTooLargeError if it is too
        large.
        """
        import httpx

        own_limits = limits or self.limits
        try:
            prepared = self.http.build_request(method, url, **request)
            prepared.headers["Accept-Encoding"] = "identity"
            with within(own_limits.within_s, "a request") as deadline:
                answer = self.http.send(prepared, stream=True)
                try:
                    _refuse_encoding(answer)
                    body = b"".join(_bounded(answer, own_limits, received))
                finally:
                    answer.close()
        except httpx.TimeoutException as error:
            raise ServiceUnavailableError(
                f"{_origin(prepared.url)} did not answer in time ({str(error) or type(error).__name__}; "
                f"at most {deadline.allowed} as a whole)."
            ) from error
        except httpx.HTTPError as error:
            raise ServiceUnavailableError(f"{_origin(prepared.url)} did not answer: {error!r}.") from error
        except httpx.InvalidURL as error:
            raise ServiceUnavailableError(f"{url!r} is no address: {error}.") from error
        return httpx.Response(answer.status_code, headers=answer.headers, content=body, request=prepared)


def json_of(answer: "httpx.Response", *, strict: bool = True) -> Any:
    """Return an answer's JSON; raises ServiceUnavailableError when it is none, or nested without end.

    Not `strict`: a server that is believed anyway, with long answers, may say a key twice.
    """
    try:
        return strict_json.loads(answer.content) if strict else answer.json()
    except (ValueError, RecursionError) as error:
        raise ServiceUnavailableError(
            f"{_origin(answer.request.url)} answered {answer.status_code}, but not with JSON: {error!r}.",
            remedy="Check the address.",
        ) from error


def refuse_readable_secret(url: str, setting: str, *, secret: bool) -> None:
    """Refuse to send a password or token where others on the way can read it.

    Plain HTTP is for this machine, and for the hosts that LUCID_PLAIN_HTTP_HOSTS names (with commas; such as
    a container's neighbours). `setting` is where the address came from. Raises BadInputError, also for an
    address with a password in it, since addresses are logged.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise BadInputError(
            f"The address of {parts.hostname} in {setting} holds a password.",
            remedy="Give user and password, or a token, by their environment variables.",
        )
    allowed = {host.strip().lower() for host in os.environ.get(PLAIN_HOSTS, "").split(",")}
    if not secret or parts.scheme != "http" or (parts.hostname or "") in LOOPBACK | allowed:
        return
    raise BadInputError(
        f"{setting} is {url!r}: a password or token would cross the network readable.",
        remedy="Use https, or an ssh tunnel; or name a host that is reached privately: "
        f"{PLAIN_HOSTS}={parts.hostname}.",
    )


def without_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which libraries of others keep to themselves what is for this machine."""
    named = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    hosts = [host.strip() for host in named.split(",") if host.strip()]
    value = ",".join([*hosts, *(host for host in ("127.0.0.1", "localhost") if host not in hosts)])
    return {"NO_PROXY": value, "no_proxy": value}


def _refuse_encoding(answer: "httpx.Response") -> None:
    encoding = answer.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _IDENTITY:
        raise ServiceUnavailableError(
            f"{_origin(answer.request.url)} answered with the encoding {encoding[:40]!r}, not as it is.",
            remedy="Let it, or the proxy before it, honour Accept-Encoding.",
        )


def _bounded(
    answer: "httpx.Response", limits: AnswerLimits, tell: Callable[[int], object] | None
) -> Iterator[bytes]:
    length = answer.headers.get("Content-Length", "")
    size = int(length[:20]) if length.isascii() and length.isdigit() else 0
    parts = iter(answer.iter_raw())
    received = 0
    while True:
        if max(size, received) > limits.most_bytes:
            raise AnswerTooLargeError(
                f"{_origin(answer.request.url)} answered with more than the {limits.most_bytes:,} bytes that "
                f"{answer.request.url.path} may hold."
            )
        part = next(parts, None)
        if part is None:
            return
        received += len(part)
        if tell is not None:
            tell(received)
        yield part


def _origin(url: "httpx.URL") -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
