"""The loop of a chat: read a line, do what it says, show how full the context is."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from refold.chat import commands, tools, turns
from refold.chat.commands import Leave, Retry
from refold.chat.conversation import Conversation
from refold.chat.display import FILLING, NEARLY_FULL, Note, UserInterface, context_line, context_warning
from refold.chat.events import ChatEvent, Interrupted
from refold.cli.exit_status import DONE, INTERRUPTED, REFUSED, status_of
from refold.errors import RefoldError


class TerminalInterface(UserInterface, Protocol):
    """The calls of the loop to a terminal or to plain lines."""

    @property
    def is_interactive(self) -> bool:
        """True if a person sits there, so that the chat goes on after a failure."""

    def attach(self, conversation: Conversation) -> None:
        """Show this conversation from now on."""

    def read(self) -> str | None:
        """Return the next message or command; None at the end of the input."""

    def show_event(self, event: ChatEvent) -> None:
        """Show an event of the turn."""

    def during_turn(self) -> AbstractContextManager[None]:
        """Prepare for a turn, and clean up however it ends."""

    def note(self, note: Note) -> None:
        """Show a note that is no part of the answer."""


def talk(conversation: Conversation, ui: TerminalInterface, *, show_context: bool) -> int:
    """Talk until the person leaves; returns the exit status.

    show_context   show the size of the context after each answer; always where nothing folds by itself
    """
    show_context = show_context or not conversation.settings.compacts
    while (line := _read_line(conversation, ui)) is not None:
        if not line.strip():
            continue
        try:
            with conversation.interrupts.active():
                status = _do_line(conversation, ui, line, show_context=show_context)
        except Leave:
            return DONE
        except KeyboardInterrupt:
            status = INTERRUPTED
            ui.note(Note("interrupted", "dim"))
        if status and not ui.is_interactive:
            return status
    return DONE


def _read_line(conversation: Conversation, ui: TerminalInterface) -> str | None:
    """Return the line that was typed at a question, shown again where it is said, or the next one."""
    line, conversation.next_line = conversation.next_line, ""
    if not line:
        return ui.read()
    ui.note(Note(f"› {line}"))
    return line


def _do_line(conversation: Conversation, ui: TerminalInterface, line: str, *, show_context: bool) -> int:
    """Run a command, or a turn with a message; then show notes and the size of the context."""
    if commands.is_command(line):
        try:
            commands.run_command(conversation, line)
        except Retry:
            if not turns.is_waiting(conversation):
                ui.note(Note("the last message has its answer: say something new"))
                return REFUSED
            events = turns.answer_last(conversation)
        except RefoldError as error:
            ui.note(Note(f"{error}" if ui.is_interactive else f"refold: {error}", "red"))
            return REFUSED
        else:
            return DONE
    else:
        events = turns.run_turn(conversation, commands.unescape_line(line))
    status = _run_turn(conversation, ui, events)
    for note in conversation.take_notes():
        ui.note(note)
    _show_size(conversation, ui, show_context=show_context)
    return status


def _show_size(conversation: Conversation, ui: TerminalInterface, *, show_context: bool) -> None:
    """Show the size of the context in one line, and once that it fills and that it is nearly full."""
    budget = tools.measure_now(conversation)
    if show_context:
        ui.note(context_line(budget))
    before, conversation.warned = conversation.warned, 0
    if budget.ratio >= FILLING:
        conversation.warned = 1 + (budget.ratio >= NEARLY_FULL)
    paused = conversation.paused_until
    warning = context_warning(budget, compacts=conversation.settings.compacts, paused=paused)
    is_said_above = show_context and budget.ratio < NEARLY_FULL
    if warning is not None and conversation.warned > before and not is_said_above:
        ui.note(warning)


def _run_turn(conversation: Conversation, ui: TerminalInterface, events: Iterable[ChatEvent]) -> int:
    """Show the events of a turn; an interruption or a failure ends this turn and nothing else."""
    status = DONE
    try:
        with ui.during_turn():
            for event in events:
                ui.show_event(event)
                status = INTERRUPTED if isinstance(event, Interrupted) else status
    except RefoldError as error:
        status = status_of(error)
        text = f"refold: {error}"
        if ui.is_interactive and turns.is_waiting(conversation):
            text += f"{'' if text.endswith('?') else ';'} /retry sends it again"
        ui.note(Note(text, "red"))
    except KeyboardInterrupt:
        status = INTERRUPTED
    return status
