"""Who may ask: this machine, by the right name and port, from the page itself, with the token of this start.

A server on loopback is reached by every page that the browser has open. A foreign page may send a form, or
let its own name point at 127.0.0.1 and then call itself the same origin. So each request is held to the
exact host and port, to the origin of the page, and to a cookie that only the address with the token sets.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
# On every answer: a page that runs nothing but its own files, is framed by no other and leaks no address.
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Guard:
    """The names, the port and the token of one start of the server."""

    port: int
    hosts: tuple[str, ...] = LOOPBACK
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie(self) -> str:
        """The name of the cookie; cookies know no ports, and two servers may run."""
        return f"mercer_{self.port}"

    @property
    def allowed(self) -> frozenset[str]:
        """The values that a Host header may have."""
        return frozenset(f"{host}:{self.port}" for host in self.hosts)

    @property
    def url(self) -> str:
        """The address that opens the page, once for each browser."""
        return f"http://{self.hosts[0]}:{self.port}/?token={self.token}"

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Why a request is not from the page of this server, in words; None where it may be."""
        if headers.get("host", "").lower() not in self.allowed:
            return "This address is not one of the server's own."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{name}" for name in self.allowed}:
            return "This request was made by another page."
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "This request was made by another site."
        return None

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request brings the cookie."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return found is not None and self._same(found.value)

    def invited(self, query: str) -> bool:
        """Whether the address has the token."""
        return self._same(parse_qs(query).get("token", [""])[0])

    def _same(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def set_cookie(self) -> str:
        """The header that a first visit is answered with: no script reads it, no other site sends it."""
        return f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"


def decoded(headers: Any) -> dict[str, str]:
    """Headers of an ASGI request by their names; of one that is there twice, both, which match nothing."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        joint = "; " if name == "cookie" else ", "
        found[name] = f"{found[name]}{joint}{value}" if name in found else value
    return found
