"""Tell a process that waits for it that others have appended: NOTIFY, and only while somebody listens.

A notice is sent at the commit of an append, and commits with notices wait for each other in the whole
database. So a listener leaves a note in each scope that ends by itself, and an append looks at it in the
statement that moves the head. A notice holds nothing: any role of the database could hear it.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import sql

from refold.errors import StoreError
from refold.stores.postgres.connections import Connections
from refold.stores.sql_files import read_statement
from refold.stores.text import encode_text, name_hash

FindScopes: TypeAlias = Callable[[], Awaitable[Collection[str]]]
NOTE: Final = "changes:listened"
"""Key of the note: until when somebody listens, in seconds since the epoch by the server's clock."""
_LISTENED_SECONDS: Final = 60
"""How long appends send notices after the listener has last been there."""
_RENEW_SECONDS: Final = 20.0
"""How often the note is renewed; new scopes are found by then as well."""
_PROBE_SECONDS: Final = 5.0
"""How long a notice to oneself may take; behind a pooler of transactions it never comes."""
# As bytes, and not as a number: a note that is damaged must not make an append fail. Ten digits last to 2286.
_NOW: Final = "convert_to(extract(epoch FROM clock_timestamp())::bigint::text, 'UTF8')"
TELL: Final = read_statement("tell", NOW=_NOW)
"""Part of a statement that sends a notice if somebody listens."""
_LISTEN: Final = read_statement("listen")


def name_channel(scope: str) -> str:
    """Return the channel of a scope; names of channels have at most 63 bytes."""
    return f"refold_{name_hash(scope).hex()[:40]}"


def tell_values(scope: str) -> dict[str, Any]:
    """Return the values of `TELL` that are not those of every append."""
    return {"channel": name_channel(scope), "listened": name_hash(NOTE)}


async def watch(connections: Connections, find_scopes: FindScopes) -> AsyncGenerator[None, None]:
    """Yield when something may have been appended in one of some scopes, for as long as it is iterated.

    Yields once at the beginning and at each renewal too, so that nothing is missed that came meanwhile.
    Raises `StoreError` where no notices come, or no longer.
    """
    try:
        connection = await psycopg.AsyncConnection.connect(connections.parameters, autocommit=True)
        async with connection:
            heard: set[str] = set()
            while True:
                is_new = not heard
                for scope in await find_scopes():
                    await _listen(connection, scope, heard)
                if is_new and heard:
                    await _probe(connection, next(iter(heard)))
                yield
                until = time.monotonic() + _RENEW_SECONDS
                while (left := until - time.monotonic()) > 0:
                    if await _hear(connection, left):
                        yield
    except psycopg.Error as error:
        address = connections.address
        raise StoreError(f"{address.shown} sends no notices: {address.redact(str(error))}") from None


async def _listen(connection: "psycopg.AsyncConnection[Any]", scope: str, heard: set[str]) -> None:
    """Leave the note of a scope, and listen to its channel."""
    channel = name_channel(scope)
    if channel not in heard:
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        heard.add(channel)
    await connection.execute("SELECT set_config('refold.scope', %s, false)", [scope])
    await connection.execute(_LISTEN, [scope, name_hash(NOTE), encode_text(NOTE), _LISTENED_SECONDS])


async def _probe(connection: "psycopg.AsyncConnection[Any]", channel: str) -> None:
    """Send a notice to oneself; raises if it does not come."""
    await connection.execute("SELECT pg_notify(%s, '')", [channel])
    if not await _hear(connection, _PROBE_SECONDS):
        problem = "a notice to oneself did not come: a pooler in between must pool sessions"
        raise psycopg.OperationalError(problem)


async def _hear(connection: "psycopg.AsyncConnection[Any]", seconds: float) -> bool:
    """Wait for notices; True if one came. To the end of the generator: it holds the connection's lock."""
    return bool([notice async for notice in connection.notifies(timeout=seconds, stop_after=1)])
