"""Sessions as tools of the Model Context Protocol, with its official library (the extra refold[mcp]).

    context_stats    how full the context of a session is
    compact_now      fold it now
    recall_search    find messages, folded or not
    recall_expand    read messages word for word

Only `refold mcp` imports this module, because it needs the library.
"""

import asyncio
import json
import os
import re
import signal
from collections.abc import Awaitable
from contextlib import suppress
from typing import Annotated, Any, Final, TypeAlias

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import Field, ValidationError

from refold import __version__
from refold.arguments import suggest
from refold.core.messages.text_cutting import find_telling_word
from refold.errors import RefoldError
from refold.remote import operations
from refold.remote.protocol import to_failure
from refold.remote.registry import Defaults, SessionRegistry
from refold.stores import Store

INSTRUCTIONS: Final = (
    "Refold keeps long conversations inside the context window. Parts that were folded away stay in its log:"
    " find them with recall_search and read them word for word with recall_expand."
)
MOST_CHARS: Final = 20_000
"""Most characters of one answer, about 5,000 tokens: an expansion must not fill the window that a fold just
emptied. The model can ask for a smaller range, or for what follows."""
HIT_CHARS: Final = 2_000
"""Most characters of one hit: ten hits then have the size of one answer, and of more hits each has less."""

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")

Session: TypeAlias = Annotated[
    str | None, Field(description="The session's name; the one that changed last where absent.")
]


class Tools:
    """The tools; `session` is the default of calls that name none."""

    def __init__(self, registry: SessionRegistry, session: str | None) -> None:
        self._registry = registry
        self._session = session

    async def context_stats(self, session_id: Session = None) -> dict[str, Any]:
        """How full the context is: tokens, window, level, folds, what all requests cost together."""
        return await _run(operations.read_stats(self._registry, await self._choose(session_id)))

    async def compact_now(
        self,
        session_id: Session = None,
        keep_recent: Annotated[
            int | None, Field(description="Tokens of the newest messages to keep.", ge=0)
        ] = None,
        focus: Annotated[str, Field(description="What a summary is to look at.")] = "",
    ) -> dict[str, Any]:
        """Fold the older part of the conversation now; everything stays in the log and can be recalled."""
        name = await self._choose(session_id)
        result = await _run(operations.compact(self._registry, name, keep_recent=keep_recent, focus=focus))
        return {key: value for key, value in result.items() if key != "receipt"}

    async def recall_search(
        self,
        query: Annotated[str, Field(description="Words to look for.")],
        session_id: Session = None,
        limit: Annotated[int, Field(description="How many hits at most.", ge=1, le=100)] = 10,
    ) -> dict[str, Any]:
        """Search everything that was ever said, folded away or not; best hits first."""
        name = await self._choose(session_id)
        result = await _run(operations.recall(self._registry, name, query, limit=limit))
        most, hits = min(HIT_CHARS, MOST_CHARS // max(1, len(result["hits"]))), []
        for hit in result["hits"]:
            text = hit["text"]
            word = find_telling_word(text, query) or 0
            start = max(0, min(word - most // 4, len(text) - most))  # more of what follows the word
            hits.append({**hit, "text": text[start : start + most], "clipped": len(text) > most})
        return {**result, "hits": hits}

    async def recall_expand(
        self,
        entry_id: Annotated[
            str, Field(description="A handle (#12 or #12-#57), a fold or an entry, as other tools name it.")
        ],
        session_id: Session = None,
        offset: Annotated[int, Field(description="Where to go on in a long answer.", ge=0)] = 0,
    ) -> dict[str, Any]:
        """What was said, word for word; with a call its result. A long answer has a `next_offset`."""
        name = await self._choose(session_id)
        result = await _run(operations.expand_handle(self._registry, name, entry_id))
        text = json.dumps(result["messages"], ensure_ascii=False)
        if len(text) <= MOST_CHARS and not offset:
            return result
        end = offset + MOST_CHARS
        clipped = {"text": text[offset:end], "clipped": True, "characters": len(text)}
        more = {"next_offset": end} if end < len(text) else {}
        return {"session_id": result["session_id"], **clipped, **more}

    async def _choose(self, session_id: str | None) -> str:
        """Return the session of a call: the one it names, the default, or the most recently changed one."""
        if name := session_id or self._session:
            return name
        names = await self._registry.names()
        if not names:
            raise ToolError("there is no session in this store yet")
        return names[0]


async def _run(act: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Await an operation; an error of refold becomes an error of the tool."""
    try:
        result = json.dumps(await act, ensure_ascii=False)
        # Half a surrogate pair is no text, and the library sends nothing that has one.
        return dict(json.loads(_HALF_PAIR.sub("\ufffd", result)))
    except RefoldError as error:
        message = str(to_failure(error)).partition(": session/open")[0]  # which is no tool of this server
        raise ToolError(message) from None


class CheckedTool(Tool):
    """A tool that tells wrong arguments in one line."""

    async def run(self, *arguments: Any, **options: Any) -> Any:
        """Run the tool."""
        try:
            return await super().run(*arguments, **options)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            known, faults = self.parameters["properties"], []
            for each in error.__cause__.errors(include_url=False)[:3]:
                name, kind = str(each["loc"][0]), each["type"]
                if kind == "extra_forbidden":
                    faults.append(f"there is no argument {name[:80]!r}; {suggest(name, known)}")
                else:
                    must = each["msg"].replace("Input should be", "must be")
                    faults.append(f"{name}: " + ("is missing" if kind == "missing" else must))
            raise ToolError(f"Error executing tool {self.name}: {'; '.join(faults)}") from None


def build_server(registry: SessionRegistry, session: str | None) -> MCPServer[Any]:
    """Build the server with its four tools."""
    acts = Tools(registry, session)
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    # Everything stays in the log and a fold can be undone; a model may be asked for the summary.
    folds = ToolAnnotations(read_only_hint=False, destructive_hint=False)
    named = (acts.context_stats, acts.compact_now, acts.recall_search, acts.recall_expand)
    tools = [
        CheckedTool.from_function(act, annotations=folds if act == acts.compact_now else reads)
        for act in named
    ]
    for tool in tools:
        # A misspelt `session_id` would be passed over, and another session folded.
        arguments = tool.fn_metadata.arg_model
        arguments.model_config["extra"] = "forbid"
        arguments.model_rebuild(force=True)
        tool.parameters = arguments.model_json_schema()
    return MCPServer("refold", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR", tools=tools)


def serve(store: Store, defaults: Defaults, session: str | None) -> None:
    """Serve on standard input and output until the input ends."""
    asyncio.run(_serve(store, defaults, session))


async def _serve(store: Store, defaults: Defaults, session: str | None) -> None:
    registry = SessionRegistry(store, defaults, lambda _event: None)
    loop = asyncio.get_running_loop()
    caught: asyncio.Future[int] = loop.create_future()

    def catch(number: int) -> None:
        if not caught.done():
            caught.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError):  # not on Windows, not outside the main thread
            loop.add_signal_handler(number, catch, number)
    serving = asyncio.create_task(build_server(registry, session).run_stdio_async())
    try:
        either: set[asyncio.Future[Any]] = {serving, caught}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not caught.done():
            await serving
            return
    finally:
        await registry.close()
    store.close()
    os._exit(128 + caught.result())  # a thread of the library waits for input, and the loop would wait for it
