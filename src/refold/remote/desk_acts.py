"""What a session does for other programs: hear, prepare, look back, mark, undo, write out; as plain data."""

from typing import Any, Final

from refold.core.overflow.detect import overflow
from refold.errors import AnswerFailed, FormatError
from refold.remote.desk import Desk
from refold.remote.plain import record

MOST_HITS: Final = 1_000


async def say(desk: Desk, session_id: str, message: Any) -> dict[str, Any]:
    """Add what somebody said: text of the user, a message, or several."""
    held = await desk.held(session_id)
    async with held.acting():
        return {"session_id": session_id, "handle": await held.session.say(message)}


async def prepare(
    desk: Desk,
    session_id: str,
    *,
    messages: list[Any] | None = None,
    system: Any = None,
    tools: list[Any] | None = None,
    prompt: str | None = None,
) -> dict[str, Any]:
    """Compact if it is time to, and give what to send."""
    if messages == []:  # the library takes it for a new beginning; sent by a program it is a slip
        raise FormatError(
            "is empty: leave it out to send what was said, or session/rewind to 'start'", path="messages"
        )
    held = await desk.held(session_id)
    async with held.acting():
        ready = await held.session.prepare(messages, system=system, tools=tools, prompt=prompt)
    return record(
        session_id=session_id,
        messages=ready.messages,
        budget=ready.budget,
        compacted=ready.outcome.compacted,
        reason=ready.outcome.reason,
        fold=ready.fold,
    )


async def observe(desk: Desk, session_id: str, *, response: Any = None, error: Any = None) -> dict[str, Any]:
    """Take in a provider's response, or its error as JSON or text."""
    if (response is None) == (error is None):
        raise FormatError("give either a response or an error", path="params")
    held = await desk.held(session_id)
    if error is not None and overflow(error) is None:
        error = AnswerFailed(str(error))
    async with held.acting():
        seen = await held.session.observe(response if error is None else error)
    return record(
        session_id=session_id,
        send_again=seen.send_again,
        messages=seen.messages,
        reason=seen.reason,
        usage=seen.usage,
        finish=seen.finish,
        budget=seen.budget,
        reverted=seen.reverted,
    )


async def view(desk: Desk, session_id: str) -> dict[str, Any]:
    """What the model sees."""
    held = await desk.held(session_id)
    async with held.looking():
        return record(session_id=session_id, messages=await held.session.view())


async def checkpoint(desk: Desk, session_id: str, *, name: str = "") -> dict[str, Any]:
    """Mark this place by a name."""
    held = await desk.held(session_id)
    async with held.acting():
        word = await held.session.checkpoint(name)
        return {"session_id": session_id, "name": word, "said": held.session.keeper.view.said}


async def unfold(desk: Desk, session_id: str, *, fold: str | None = None) -> dict[str, Any]:
    """Undo a fold, the latest by default; `fold` is None where nothing is folded."""
    held = await desk.held(session_id)
    async with held.acting():
        name = await held.session.unfold(fold)
        stats = await held.session.stats()
    return {
        "session_id": session_id,
        "fold": name,
        "message_count": stats.messages,
        "current_context_tokens": stats.current_context_tokens,
    }


async def rewind(desk: Desk, session_id: str, to: Any) -> dict[str, Any]:
    """Go back to a message, a checkpoint or an entry."""
    held = await desk.held(session_id)
    async with held.acting():
        return {"session_id": session_id, "said": await held.session.rewind(to)}


async def recall(desk: Desk, session_id: str, query: str, *, limit: int = 10) -> dict[str, Any]:
    """Search everything that was ever said."""
    if not 1 <= limit <= MOST_HITS:
        raise FormatError(f"takes a number from 1 to {MOST_HITS:,}", path="limit")
    held = await desk.held(session_id)
    async with held.looking():
        return record(session_id=session_id, hits=await held.session.recall(query, limit=limit))


async def original(desk: Desk, session_id: str, handle: Any) -> dict[str, Any]:
    """What was said, word for word."""
    held = await desk.held(session_id)
    async with held.looking():
        return record(session_id=session_id, messages=await held.session.original(handle))


async def folds(desk: Desk, session_id: str) -> dict[str, Any]:
    """Every fold of this branch, oldest first."""
    held = await desk.held(session_id)
    async with held.looking():
        return record(session_id=session_id, folds=await held.session.folds())


async def pin(desk: Desk, session_id: str, *, handle: Any = -1, pinned: bool = True) -> dict[str, Any]:
    """Keep a message in every view, or no longer."""
    held = await desk.held(session_id)
    async with held.acting():
        act = held.session.pin if pinned else held.session.unpin
        return {"session_id": session_id, "handle": await act(handle), "pinned": pinned}


async def export(desk: Desk, session_id: str, directory: str, *, form: str = "ripple") -> dict[str, Any]:
    """Write the session as files."""
    held = await desk.held(session_id)
    async with held.acting():
        return {"session_id": session_id, "files": await held.session.export(directory, form=form)}
