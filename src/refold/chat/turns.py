"""One turn of a chat: send what the user says, stream the reply, run tools, until the model is done.

A turn that ends early (Ctrl-C, a failure, the end of the process) leaves a log that the next turn can
continue: text that came is recorded with a mark, and open calls are closed before the next words.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Final

from refold.chat import tools
from refold.chat.conversation import Conversation, convert_messages, convert_view
from refold.chat.display import Note
from refold.chat.events import (
    ChatEvent,
    Interrupted,
    ReasoningReceived,
    ReplyReceived,
    RequestSent,
    Retried,
    TextReceived,
    ToolFinished,
    ToolStarted,
)
from refold.clients.chat import Reply, RequestedCall
from refold.core.messages.message import Message, Text, ToolResult
from refold.errors import AnswerFailed
from refold.session import operations

MAX_ROUNDS: Final = 25
"""Rounds of tool calls in one turn. A model that needs more goes in circles; too few would stop
long work, and the user can let it go on."""
INTERRUPTED: Final = "[interrupted]"
"""The mark behind text that the user interrupted."""
BROKE_OFF: Final = "[the answer broke off]"
NO_ANSWER: Final = "[no answer]"


def run_turn(conversation: Conversation, words: str) -> Iterator[ChatEvent]:
    """Say something and have it answered."""
    close_unanswered(conversation)
    client = conversation.client
    _record(conversation, convert_messages([client.user(words)], client.format, conversation.wire))
    yield from answer_last(conversation)


def answer_last(conversation: Conversation) -> Iterator[ChatEvent]:
    """Have the last message answered; a reply that did not end is taken back, onto a branch of its own."""
    if has_partial_reply(conversation):
        conversation.session.rewind(f"#{conversation.session.state.view.said - 1}")
    for _ in range(MAX_ROUNDS):
        reply = yield from _request_reply(conversation)
        if reply is None or not reply.calls:
            return
        if not (yield from _run_tools(conversation, reply.calls)):
            return
    yield Note(f"stopped after {MAX_ROUNDS} rounds of tools; say so if it shall go on", "yellow")


def close_unanswered(conversation: Conversation) -> None:
    """Close what an earlier turn left open: calls without results, a user message without a reply.

    Providers refuse a history with an open call, and some refuse two user messages in a row.
    """
    session = conversation.session
    session.run_flow(operations.view(session.state), at_once=False)  # a store that hangs holds no turn
    messages = session.state.loaded.messages
    answered = {result.call_id for message in messages for result in message.results}
    open_calls = [call for message in messages for call in message.calls if call.id not in answered]
    for call in open_calls:
        result = ToolResult(call.id, (Text(INTERRUPTED),), name=call.name, is_error=True)
        _record(conversation, Message("tool", (result,)))
    if not open_calls and messages and messages[-1].is_user_turn and not messages[-1].is_summary:
        _record(conversation, Message("assistant", (Text(NO_ANSWER),)))


def is_waiting(conversation: Conversation) -> bool:
    """True if the last message has no reply yet, or one that did not end."""
    is_partial = has_partial_reply(conversation)
    last = conversation.session.state.loaded.messages[-1:]
    return is_partial or any(message.role in ("user", "tool") for message in last)


def has_partial_reply(conversation: Conversation) -> bool:
    """True if the last message is the part of a reply that was interrupted or broke off."""
    session = conversation.session
    session.run_flow(operations.view(session.state), at_once=False)
    last, marks = session.state.loaded.messages[-1:], (f"\n\n{INTERRUPTED}", f"\n\n{BROKE_OFF}")
    return any(message.role == "assistant" and message.text.endswith(marks) for message in last)


def _request_reply(conversation: Conversation) -> Generator[ChatEvent, None, Reply | None]:
    """Send the view and record the reply; send a folded view if it was refused for its size."""
    session, client = conversation.session, conversation.client
    system = conversation.settings.system or None
    specs = _offered_specs(conversation)
    try:
        ready = session.prepare(system=system, tools=specs or None)
        if ready.fold is not None and (offered := _offered_specs(conversation)) != specs:
            specs = offered  # the first fold brings the tool that recalls it
            ready = session.prepare(system=system, tools=specs or None)
    except KeyboardInterrupt:
        yield Interrupted("")
        return None
    yield from conversation.take_notes()
    messages = ready.messages
    while True:
        try:
            reply = yield from _stream_reply(conversation, messages, specs)
        except AnswerFailed as error:
            observed = session.observe(error)
            if not observed:
                _record_partial(conversation, error.partial.text if error.partial else "", BROKE_OFF)
                note = Note(f"not asked again: {observed.reason}", "yellow")
                yield from [note] if observed.outcome is not None else []  # none if no fold was tried
                raise
        else:
            if reply is None:
                return None
            observed = session.observe(reply.response)
            if not observed:
                if reply.text.strip() or reply.calls:  # providers refuse an empty message in the history
                    messages = convert_messages(list(reply.messages), client.format, conversation.wire)
                    _record(conversation, messages)
                yield ReplyReceived(reply)
                yield from _remarks(reply)
                return reply
        messages, specs = observed.messages or [], _offered_specs(conversation)
        yield Retried(observed.reason)
        yield from conversation.take_notes()


def _offered_specs(conversation: Conversation) -> list[dict[str, Any]]:
    return [tool.spec for tool in tools.offered_tools(conversation)]


def _stream_reply(
    conversation: Conversation, messages: list[Any], specs: list[dict[str, Any]]
) -> Generator[ChatEvent, None, Reply | None]:
    """Yield the text as it comes and return the reply; None if the user interrupted it."""
    client, pieces = conversation.client, list[str]()
    yield RequestSent()
    view = convert_view(messages, conversation.wire, client.format)
    with closing(client.chat(view, system=conversation.settings.system or None, tools=specs)) as stream:  # type: ignore[type-var]
        try:
            while True:
                with conversation.interrupts.interruptible():
                    part = next(stream)
                if isinstance(part, Reply):
                    return part
                if part.reasoning:
                    yield ReasoningReceived(part.reasoning)
                if part.text:
                    pieces.append(part.text)
                    yield TextReceived(part.text)
        except KeyboardInterrupt:
            _record_partial(conversation, "".join(pieces), INTERRUPTED)
            yield Interrupted("".join(pieces))
            return None
        except StopIteration:
            raise AnswerFailed(f"{client.name} ended without an answer") from None


def _remarks(reply: Reply) -> Iterator[Note]:
    """Notes on how a reply ended, if it did not end well."""
    if reply.finish == "length":
        yield Note("the answer hit the length limit and is cut off", "yellow")
    elif reply.finish == "refusal":
        yield Note("the model refused", "yellow")
    elif not reply.text.strip() and not reply.calls:
        yield Note("the model said nothing; /retry asks it again", "yellow")


def _record(conversation: Conversation, message: Any) -> None:
    """Record what was said; the chat goes on if the store fails, and a warning says so."""
    conversation.session.say(message, durable=False)


def _record_partial(conversation: Conversation, words: str, mark: str) -> None:
    """Record the text of a reply that did not end, with a mark; nothing if there is no text."""
    if words.strip():
        _record(conversation, Message("assistant", (Text(f"{words.rstrip()}\n\n{mark}"),)))


def _run_tools(
    conversation: Conversation, calls: tuple[RequestedCall, ...]
) -> Generator[ChatEvent, None, bool]:
    """Run the tools of a reply and record their results; return True if the turn goes on."""
    outcomes: list[tuple[RequestedCall, str, bool]] = []
    is_interrupted = False
    for call in calls:
        text, failed = INTERRUPTED, True
        if not is_interrupted:
            yield ToolStarted(call)
            try:
                text, failed = tools.run_tool(conversation, call)
            except KeyboardInterrupt:
                is_interrupted = True
            yield ToolFinished(call, text, failed)
        outcomes.append((call, text, failed))
    results = list(conversation.client.results(outcomes))
    _record(conversation, convert_messages(results, conversation.client.format, conversation.wire))
    if is_interrupted:
        yield Interrupted("")
    return not is_interrupted
