"""Headers that every answer carries: browsers load nothing from elsewhere, guess no types, learn where a page
may be framed, and give other sites nothing of the address.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

_Message = MutableMapping[str, Any]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[Any, Any, _Send], Awaitable[None]]

_ALWAYS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
# Answers for programs: a browser that shows one runs and loads nothing of it.
FOR_PROGRAMS = {**_ALWAYS, "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
# Pages of ours, each a file of its own: styles and pictures are in it, and no script.
FOR_PAGES = {
    **_ALWAYS,
    "Content-Security-Policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
}
# A whole site of which we are a part: it loads what it likes, and is framed by itself alone.
FOR_A_SITE = {**_ALWAYS, "Content-Security-Policy": "frame-ancestors 'self'"}


class SecurityHeaders:
    """An ASGI app that adds headers to the answers of another, where it does not set them itself."""

    def __init__(self, app: _App, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
        ]

    async def __call__(self, scope: Any, receive: Any, send: _Send) -> None:
        """Answer one request."""

        async def send_with_headers(message: _Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message.get("headers", ())}
                added = [(name, value) for name, value in self._headers if name not in given]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        await self._app(scope, receive, send_with_headers)
