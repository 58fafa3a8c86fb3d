"""Commands that change a chat: pins, checkpoints, the place in the log, the model, the session."""

import re
from typing import Final

from refold import formats
from refold.chat import tools
from refold.chat.conversation import SHORT_NAME_CHARS, Conversation
from refold.chat.display import Note, context_line, format_tokens
from refold.core.log.entries import bare_name
from refold.core.messages.speakers import find_user_turns
from refold.core.tokens.units import format_count
from refold.errors import RefoldError
from refold.policies.systems.strategies import list_strategies

LAST_TURNS: Final = 2
"""Turns that a continued chat shows; with their lines they fit a terminal of 24 lines in most chats."""
TURN_LINES: Final = 8
"""Lines of each message in them; `/recall #12` shows all of it."""
RECENT_MESSAGES: Final = 60
"""Messages among which these turns are looked for: a turn with 25 rounds of tools has 52."""
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
    policy = conversation.settings.policy
    effect = "Future /compact will condense from here to end of current thread."
    if not policy.begins_at_checkpoint:
        threads = " or ".join(f"/compact {strategy.id}" for strategy in list_strategies()[:2])
        effect = f"{threads} condenses from here on; /compact by {policy.name} takes older messages too."
    conversation.ui.show(Note(f"Checkpoint set: {name}. {effect} /rewind {name} comes back here."))


def rewind(conversation: Conversation, argument: str) -> None:
    """Go back in the log, and show how to return."""
    session = conversation.session
    before = conversation.store.head(session.name)
    if not argument or before is None:
        listed = dict.fromkeys(checkpoint.name for checkpoint in session.checkpoints())
        names = ", ".join(listed) or "none yet"
        raise RefoldError(f"say where to: /rewind #12, /rewind start, or a checkpoint ({names})")
    said = session.rewind(argument)
    now = conversation.store.head(session.name)
    if now is not None and now.name == before.name:
        conversation.ui.show(Note(f"stands behind #{said}, as before"))
        return
    back = f"/rewind {before.name} goes back there"
    again = [bare_name(fold)[:SHORT_NAME_CHARS] for fold in said.folded_again]
    conversation.ui.show(
        Note(f"stands behind #{said} now, before it was #{before.said}; {back}"),
        *(Note(f"fold {name}, which was undone, stands again: /unfold {name} undoes it") for name in again),
        context_line(tools.measure_now(conversation)),
    )


def model(conversation: Conversation, argument: str) -> None:
    """Show the model of the chat, or go on with another one."""
    if argument:
        conversation.switch(address=argument)
    client, budget = conversation.client, tools.measure_now(conversation)
    window = f"window {format_tokens(budget.window)} ({budget.window_source})"
    has_tools = "tools" if conversation.settings.tools and client.tools else "no tools"
    conversation.ui.show(Note(f"{client.name}: {window}, {client.format}, {has_tools}"))


def resume(conversation: Conversation, argument: str) -> None:
    """Go on in another session."""
    if not argument:
        raise RefoldError("say which one: /resume NAME; /sessions lists them")
    conversation.switch(name=argument)
    conversation.ui.show(*greet(conversation))


def greet(conversation: Conversation) -> list[Note]:
    """Return the first lines of a chat: the session, new or continued with its last turns."""
    session = conversation.session
    said = session.state.view.said if session.view() else 0
    if not said:
        hint = "/help tells what you can type"
        return [Note(f"session {session.name} begins, with {conversation.client.model}; {hint}", "dim")]
    folds = sum(fold.standing for fold in session.state.shortening_folds())
    counts = f"{format_count(said, 'message')}, {format_count(folds, 'fold')}"
    line = Note(f"session {session.name} goes on: {counts}", "dim")
    return [line, *_last_turns(conversation), context_line(tools.measure_now(conversation))]


def _last_turns(conversation: Conversation) -> list[Note]:
    """Return the last turns as they were said, folded or not, each message cut to a few lines."""
    session = conversation.session
    said = session.state.view.said
    items = session.original(f"#{max(1, said - RECENT_MESSAGES + 1)}-#{said}")
    messages = formats.get(conversation.wire).parse(items)
    turns = find_user_turns(messages)[-LAST_TURNS:]
    notes = []
    for message in messages[turns[0] if turns else 0 :]:
        lines = message.text.strip().splitlines()
        if lines and message.role in ("user", "assistant"):
            rest = len(lines) - TURN_LINES
            more = [f"[and {format_count(rest, 'more line')}]"] if rest > 0 else []
            sign = "› " if message.is_user_turn else ""
            notes.append(Note(sign + "\n".join([*lines[:TURN_LINES], *more]), "dim"))
    return notes


def export(conversation: Conversation, argument: str) -> None:
    """Write the session as files."""
    session = conversation.session
    folder = argument or _UNSAFE_IN_FILE_NAME.sub("-", session.name).strip("-.") or "session"
    files = session.export(folder)
    count = format_count(session.state.view.said, "message")
    conversation.ui.show(Note(f"{count} written to {folder}: {', '.join(files)}"))
