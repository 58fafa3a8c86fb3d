"""Commands that change a chat: pins, checkpoints, the place in the log, the model, the session."""

import re
from typing import Final

from refold.chat.conversation import Conversation
from refold.chat.display import Note, context_line, format_tokens
from refold.core.tokens.units import format_count
from refold.errors import RefoldError

_UNSAFE_IN_FILE_NAME: Final = re.compile(r"[^\w. -]+")
"""Characters of a session name that may not be in the name of a folder, such as slashes."""


def pin(conversation: Conversation, argument: str) -> None:
    """Keep a message in every view."""
    handle = conversation.session.pin(argument or -1)
    conversation.ui.show(Note(f"{handle} stays in every view; /unpin {handle} lets it go"))


def unpin(conversation: Conversation, argument: str) -> None:
    """Let a message be folded again."""
    handle = conversation.session.unpin(argument or -1)
    conversation.ui.show(Note(f"{handle} may be folded again"))


def checkpoint(conversation: Conversation, argument: str) -> None:
    """Mark this place in the log."""
    name = conversation.session.checkpoint(argument)
    effect = "Future /compact will condense from here to end of current thread."
    conversation.ui.show(Note(f"Checkpoint set: {name}. {effect} /rewind {name} comes back here."))


def rewind(conversation: Conversation, argument: str) -> None:
    """Go back in the log, and show how to return."""
    session = conversation.session
    before = conversation.store.head(session.name)
    if not argument or before is None:
        names = ", ".join(session.state.view.checkpoints) or "none yet"
        raise RefoldError(f"say where to: /rewind #12, /rewind start, or a checkpoint ({names})")
    said = session.rewind(argument)
    now = conversation.store.head(session.name)
    if now is not None and now.name == before.name:
        conversation.ui.show(Note(f"stands behind #{said}, as before"))
        return
    back = f"/rewind {before.name} goes back there"
    conversation.ui.show(
        Note(f"stands behind #{said} now, before it was #{before.said}; {back}"),
        context_line(conversation.budget()),
    )


def model(conversation: Conversation, argument: str) -> None:
    """Show the model of the chat, or go on with another one."""
    if argument:
        conversation.switch(address=argument)
    client, budget = conversation.client, conversation.budget()
    window = f"window {format_tokens(budget.window)} ({budget.window_source})"
    tools = "tools" if conversation.settings.tools and client.tools else "no tools"
    conversation.ui.show(Note(f"{client.name}: {window}, {client.format}, {tools}"))


def resume(conversation: Conversation, argument: str) -> None:
    """Go on in another session."""
    if not argument:
        raise RefoldError("say which one: /resume NAME; /sessions lists them")
    conversation.switch(name=argument)
    conversation.ui.show(*greet(conversation))


def greet(conversation: Conversation) -> list[Note]:
    """Return the first lines of a chat: the session, new or continued."""
    session = conversation.session
    said = session.state.view.said if session.view() else 0
    if not said:
        hint = "/help tells what you can type"
        return [Note(f"session {session.name} begins, with {conversation.client.model}; {hint}", "dim")]
    folds = sum(fold.standing for fold in session.state.shortening_folds())
    counts = f"{format_count(said, 'message')}, {format_count(folds, 'fold')}"
    line = Note(f"session {session.name} goes on: {counts}", "dim")
    return [line, context_line(conversation.budget())]


def export(conversation: Conversation, argument: str) -> None:
    """Write the session as files."""
    session = conversation.session
    folder = argument or _UNSAFE_IN_FILE_NAME.sub("-", session.name).strip("-.") or "session"
    files = session.export(folder)
    count = format_count(session.state.view.said, "message")
    conversation.ui.show(Note(f"{count} written to {folder}: {', '.join(files)}"))
