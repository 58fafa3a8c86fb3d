"""One turn: what the person says goes out, the answer comes in word by word, tools run, until it is done.

Whatever ends a turn early (Ctrl-C, a failure, the end of the process) leaves a log that can be gone on with:
words that came are said with a mark, and what is left open is closed before the next words.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Final

from refold.chat import tools
from refold.chat.desk import Desk, sent, turned
from refold.chat.happenings import Again, Answered, Asking, Happening, Stopped, Thought, Used, Using, Words
from refold.chat.showing import Note
from refold.clients.talking import Called, Reply
from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.errors import AnswerFailed

ROUNDS: Final = 25
"""How often a model may call tools in one turn; one that is not done by then goes in circles."""
INTERRUPTED: Final = "[interrupted]"
"""What stands behind words that the person did not let end."""
BROKE_OFF: Final = "[the answer broke off]"
NO_ANSWER: Final = "[no answer]"


def turn(desk: Desk, words: str) -> Iterator[Happening]:
    """Say something and have it answered."""
    settle(desk)
    desk.session.say(turned([desk.talker.user(words)], desk.talker.format, desk.wire))
    yield from answer(desk)


def answer(desk: Desk) -> Iterator[Happening]:
    """Have what was said last answered."""
    for _ in range(ROUNDS):
        reply = yield from _asked(desk)
        if reply is None or not reply.calls:
            return
        if not (yield from _used(desk, reply.calls)):
            return
    yield Note(f"stopped after {ROUNDS} rounds of tools; say so if it shall go on", "yellow")


def settle(desk: Desk) -> None:
    """Close what an earlier turn left open: calls without results, words without an answer."""
    desk.session.view()
    messages = desk.session.keeper.shelf.messages
    answered = {result.call_id for message in messages for result in message.results}
    left = [call for message in messages for call in message.calls if call.id not in answered]
    for call in left:
        desk.session.say(Message("tool", (_unanswered(call),)))
    if not left and messages and messages[-1].is_user_turn and not messages[-1].is_summary:
        desk.session.say(Message("assistant", (Text(NO_ANSWER),)))


def waiting(desk: Desk) -> bool:
    """Whether the last words have no answer yet."""
    items = desk.session.view()
    return bool(items) and desk.session.keeper.shelf.messages[-1].role in ("user", "tool")


def _unanswered(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, (Text(INTERRUPTED),), name=call.name, is_error=True)


def _asked(desk: Desk) -> Generator[Happening, None, Reply | None]:
    """Send what the model is to see, once more where it was refused for its size."""
    offered = tools.offered(desk)
    specs = [tool.spec for tool in offered]
    try:
        ready = desk.session.prepare(system=desk.setting.system or None, tools=specs or None)
    except KeyboardInterrupt:
        yield Stopped("")
        return None
    yield from desk.told()
    messages = ready.messages
    while True:
        try:
            reply = yield from _streamed(desk, messages, specs)
        except AnswerFailed as error:
            observed = desk.session.observe(error)
            if not observed:
                _keep(desk, error.partial.text if error.partial else "", BROKE_OFF)
                raise
        else:
            if reply is None:
                return None
            observed = desk.session.observe(reply.response)
            if not observed:
                if reply.text.strip() or reply.calls:  # nobody takes an empty message back
                    desk.session.say(turned(list(reply.messages), desk.talker.format, desk.wire))
                yield Answered(reply)
                yield from _remarks(reply)
                return reply
        messages = observed.messages or []
        yield Again(observed.reason)
        yield from desk.told()


def _streamed(
    desk: Desk, messages: list[Any], specs: list[dict[str, Any]]
) -> Generator[Happening, None, Reply | None]:
    """The words as they come; None where the person stopped them."""
    said: list[str] = []
    yield Asking()
    view = sent(messages, desk.wire, desk.talker.format)
    with closing(desk.talker.talk(view, system=desk.setting.system or None, tools=specs)) as stream:  # type: ignore[type-var]
        try:
            while True:
                with desk.stops.breakable():
                    part = next(stream)
                if isinstance(part, Reply):
                    return part
                if part.reasoning:
                    yield Thought(part.reasoning)
                if part.text:
                    said.append(part.text)
                    yield Words(part.text)
        except KeyboardInterrupt:
            _keep(desk, "".join(said), INTERRUPTED)
            yield Stopped("".join(said))
            return None
        except StopIteration:
            raise AnswerFailed(f"{desk.talker.name} ended without an answer") from None


def _remarks(reply: Reply) -> Iterator[Note]:
    """What a person should know of how an answer ended."""
    if reply.finish == "length":
        yield Note("the answer was cut off where it was as long as it may be", "yellow")
    elif reply.finish == "refusal":
        yield Note("the model refused", "yellow")
    elif not reply.text.strip() and not reply.calls:
        yield Note("the model said nothing; /retry asks it again", "yellow")


def _keep(desk: Desk, words: str, mark: str) -> None:
    """Say what had come of an answer, with a mark; nothing where nothing had."""
    if words.strip():
        desk.session.say(Message("assistant", (Text(f"{words.rstrip()}\n\n{mark}"),)))


def _used(desk: Desk, calls: tuple[Called, ...]) -> Generator[Happening, None, bool]:
    """Run the tools that the model wants and say what they gave; whether the turn goes on."""
    given: list[tuple[Called, str, bool]] = []
    stopped = False
    for call in calls:
        text, failed = INTERRUPTED, True
        if not stopped:
            yield Using(call)
            try:
                text, failed = tools.run(desk, call)
            except KeyboardInterrupt:
                stopped = True
            yield Used(call, text, failed)
        given.append((call, text, failed))
    results = list(desk.talker.results(given))
    desk.session.say(turned(results, desk.talker.format, desk.wire))
    if stopped:
        yield Stopped("")
    return not stopped
