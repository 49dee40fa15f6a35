"""A connection that asks nothing is closed: half a request each would take every place of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

HEAD_SECONDS = 10.0  # for a request to arrive up to its body


class Impatient(H11Protocol):
    """HTTP/1.1 whose requests must begin in time; their bodies are for the guard and the routes to judge."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look(before=transport)  # what no request is

    def _look(self, before: Any) -> None:
        """Close where nothing has been asked since the last look, and nothing is being answered."""
        now = self.cycle
        if now is before and (now is None or now.response_complete):
            self.transport.close()
        else:
            self.loop.call_later(HEAD_SECONDS, self._look, now)
