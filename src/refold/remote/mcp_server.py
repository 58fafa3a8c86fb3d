"""Sessions as tools of the Model Context Protocol, with the official library; an extra, refold[mcp].

    context_stats    how full the context of a session is
    compact_now      fold it now
    recall_search    find what was said, folded or not
    recall_expand    what was said, word for word

Only who serves them loads this module: it needs the library at once.
"""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable
from contextlib import suppress
from typing import Annotated, Any, Final, TypeAlias

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from refold import __version__
from refold.errors import RefoldError
from refold.remote import desk_acts
from refold.remote.desk import Defaults, Desk
from refold.remote.protocol import failure_of
from refold.stores import Store

INSTRUCTIONS: Final = (
    "Refold keeps long conversations inside the context window. Parts that were folded away stay in its log:"
    " find them with recall_search and read them word for word with recall_expand."
)
MOST_CHARS: Final = 20_000
"""What one answer shows of what was said; the model can ask for a smaller stretch."""
HIT_CHARS: Final = 2_000

Session: TypeAlias = Annotated[
    str | None, Field(description="The session's name; the one that changed last where absent.")
]


class Tools:
    """The tools of a desk; `session` is meant where a call names none."""

    def __init__(self, desk: Desk, session: str | None) -> None:
        self._desk = desk
        self._session = session

    async def context_stats(self, session_id: Session = None) -> dict[str, Any]:
        """How full the context is: tokens, window, level, folds, what all requests cost together."""
        return await _told(self._desk.stats(await self._named(session_id)))

    async def compact_now(
        self,
        session_id: Session = None,
        keep_recent: Annotated[
            int | None, Field(description="Tokens of the newest messages to keep.", ge=0)
        ] = None,
        focus: Annotated[str, Field(description="What a summary is to look at.")] = "",
    ) -> dict[str, Any]:
        """Fold the older part of the conversation now; everything stays in the log and can be recalled."""
        name = await self._named(session_id)
        done = await _told(self._desk.compact(name, keep_recent=keep_recent, focus=focus))
        return {key: value for key, value in done.items() if key != "receipt"}

    async def recall_search(
        self,
        query: Annotated[str, Field(description="Words to look for.")],
        session_id: Session = None,
        limit: Annotated[int, Field(description="How many hits at most.", ge=1, le=100)] = 10,
    ) -> dict[str, Any]:
        """Search everything that was ever said, folded away or not; best hits first."""
        name = await self._named(session_id)
        found = await _told(desk_acts.recall(self._desk, name, query, limit=limit))
        return {**found, "hits": [_shown(hit) for hit in found["hits"]]}

    async def recall_expand(
        self,
        entry_id: Annotated[
            str, Field(description="A handle (#12 or #12-#57), a fold or an entry, as other tools name it.")
        ],
        session_id: Session = None,
    ) -> dict[str, Any]:
        """What was said, word for word."""
        found = await _told(desk_acts.original(self._desk, await self._named(session_id), entry_id))
        whole = json.dumps(found["messages"], ensure_ascii=False)
        if len(whole) <= MOST_CHARS:
            return found
        shown = {"text": whole[:MOST_CHARS], "clipped": True, "characters": len(whole)}
        return {"session_id": found["session_id"], **shown}

    async def _named(self, given: str | None) -> str:
        if given or self._session:
            return given or self._session or ""
        names = await self._desk.names()
        if not names:
            raise ToolError("there is no session in this store yet")
        return names[0]


async def _told(act: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await act
    except RefoldError as error:
        raise ToolError(str(failure_of(error))) from None


def _shown(hit: dict[str, Any]) -> dict[str, Any]:
    return {**hit, "text": hit["text"][:HIT_CHARS], "clipped": len(hit["text"]) > HIT_CHARS}


def build(desk: Desk, session: str | None) -> MCPServer[Any]:
    """The server of a desk."""
    server: MCPServer[Any] = MCPServer(
        "refold", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR"
    )
    tools = Tools(desk, session)
    for act in (tools.context_stats, tools.compact_now, tools.recall_search, tools.recall_expand):
        server.add_tool(act)
    return server


def serve(store: Store, defaults: Defaults, session: str | None) -> None:
    """Serve on standard input and output until the input ends."""
    asyncio.run(_served(store, defaults, session))


async def _served(store: Store, defaults: Defaults, session: str | None) -> None:
    desk = Desk(store, defaults, lambda _event: None)
    loop = asyncio.get_running_loop()
    caught: asyncio.Future[int] = loop.create_future()

    def catch(number: int) -> None:
        if not caught.done():
            caught.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError):  # not on Windows, not outside the main thread
            loop.add_signal_handler(number, catch, number)
    serving = asyncio.create_task(build(desk, session).run_stdio_async())
    try:
        either: set[asyncio.Future[Any]] = {serving, caught}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not caught.done():
            await serving
            return
    finally:
        await desk.close()
    store.close()
    os._exit(128 + caught.result())  # a thread of the library waits for input; no loop ends before it does
