"""Commands that change other things than folds: pins, checkpoints, the head, the model, the session."""

import re
from typing import Final

from refold.chat.desk import Desk
from refold.chat.showing import Note, rough, size_line
from refold.core.tokens.units import plural
from refold.errors import RefoldError

_UNSAFE: Final = re.compile(r"[^\w. -]+")
"""What a name of a session may have and a folder beside it may not: it would lead elsewhere."""


def pin(desk: Desk, argument: str) -> None:
    """Keep a message in every view."""
    handle = desk.session.pin(argument or -1)
    desk.person.show(Note(f"{handle} stays in every view; /unpin {handle} lets it go"))


def unpin(desk: Desk, argument: str) -> None:
    """Let a message be folded again."""
    handle = desk.session.unpin(argument or -1)
    desk.person.show(Note(f"{handle} may be folded again"))


def checkpoint(desk: Desk, argument: str) -> None:
    """Mark this place."""
    name = desk.session.checkpoint(argument)
    told = "Future /compact will condense from here to end of current thread."
    desk.person.show(Note(f"Checkpoint set: {name}. {told} /rewind {name} comes back here."))


def rewind(desk: Desk, argument: str) -> None:
    """Move the head back, and say how to come back."""
    head = desk.store.head(desk.session.name)
    if not argument or head is None:
        names = ", ".join(desk.session.keeper.view.checkpoints) or "none yet"
        raise RefoldError(f"say where to: /rewind #12, /rewind start, or a checkpoint ({names})")
    said = desk.session.rewind(argument)
    now = desk.store.head(desk.session.name)
    if now is not None and now.name == head.name:
        desk.person.show(Note(f"stands behind #{said}, as before"))
        return
    desk.person.show(
        Note(f"stands behind #{said} now, before it was #{head.said}; /rewind {head.name} goes back there"),
        size_line(desk.budget()),
    )


def model(desk: Desk, argument: str) -> None:
    """Tell whom one talks to, or go on with somebody else."""
    if argument:
        desk.sit(address=argument)
    talker, budget = desk.talker, desk.budget()
    window = f"window {rough(budget.window)} ({budget.window_source})"
    tools = "tools" if desk.setting.tools and talker.tools else "no tools"
    desk.person.show(Note(f"{talker.name}: {window}, {talker.format}, {tools}"))


def resume(desk: Desk, argument: str) -> None:
    """Go on in another session."""
    if not argument:
        raise RefoldError("say which one: /resume NAME; /sessions lists them")
    desk.sit(name=argument)
    desk.person.show(*greeting(desk))


def greeting(desk: Desk) -> list[Note]:
    """What one comes to."""
    view = desk.session.keeper.view if desk.session.view() else None
    name = desk.session.name
    if view is None or not view.said:
        return [
            Note(f"session {name} begins, with {desk.talker.model}; /help tells what you can type", "dim")
        ]
    folds = sum(fold.standing for fold in desk.session.keeper.shortened())
    told = f"session {name} goes on: {plural(view.said, 'message')}, {plural(folds, 'fold')}"
    return [Note(told, "dim"), size_line(desk.budget())]


def export(desk: Desk, argument: str) -> None:
    """Write the session as files."""
    folder = argument or _UNSAFE.sub("-", desk.session.name).strip("-.") or "session"
    files = desk.session.export(folder)
    said = plural(desk.session.keeper.view.said, "message")
    desk.person.show(Note(f"{said} written to {folder}: {', '.join(files)}"))
