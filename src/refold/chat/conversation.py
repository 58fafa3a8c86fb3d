"""One chat: its session, its model and its user interface; how they are opened and exchanged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from refold import formats
from refold.chat.display import Note, UserInterface, explain_no_fold, explain_no_summary
from refold.chat.interrupts import Interrupts
from refold.clients.chat import ChatClient
from refold.core.compaction import circuit_breaker
from refold.core.compaction.budget import Budget
from refold.core.compaction.circuit_breaker import BREAKER
from refold.core.compaction.flow import Answer, Ask
from refold.core.compaction.policy import Policy
from refold.core.log.entries import bare_name
from refold.core.messages.normalize import normalize
from refold.core.models.windows import find_known, lookup
from refold.core.tokens.units import format_count
from refold.errors import StoreError
from refold.policies import presets
from refold.session import open as open_session
from refold.session.events import CompactionEnd, CompactionFailed, CompactionSkipped, Event, StoreRestored
from refold.session.session import Session
from refold.stores import Store

SHORT_NAME_CHARS: Final = 8
"""Characters of a fold's name that are shown and that `/unfold` takes; 8 hex digits tell thousands apart."""

Asker: TypeAlias = Callable[[Ask], Answer | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """The settings of a chat that `/model` and `/resume` do not change."""

    policy: Policy
    system: str = ""
    tools: bool = True
    window: int | None = None
    """The window that the user set; it wins over the window of the client."""
    folder: Path
    """The folder that tools may read and write; nothing outside of it."""
    open_client: Callable[[str], ChatClient]
    """Opens the chat client at an address."""
    open_asker: Callable[[str], Asker | None]
    """Opens the summariser for a chat with the model at an address; None if there is none."""
    make_policy: Callable[[str], Policy] = presets.get
    """Makes the policy of a name, with the knobs that the user set."""
    spending_limits: Mapping[str, Any] = field(default_factory=dict)
    """Limits on the cost of summaries, as options of `refold.open`."""

    @property
    def compacts(self) -> bool:
        """True if the session folds by itself."""
        return self.policy.trigger.line(1) is not None


@dataclass(slots=True)
class Explained:
    """What the user was told last, so that it is told once."""

    breaker: str = ""
    """Why the circuit breaker is open; it stays open for several turns."""
    failure: str = ""
    """Why the last compaction went without the model."""


class Page(Protocol):
    """A page of this chat in the browser."""

    @property
    def url(self) -> str:
        """Its address."""

    def close(self) -> None:
        """End it."""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """One chat. The session stores what is said; everything else here can be opened anew."""

    settings: ChatSettings
    store: Store
    ui: UserInterface
    address: str
    client: ChatClient
    session: Session
    interrupts: Interrupts = field(default_factory=Interrupts)
    notes: list[Note] = field(default_factory=list)
    """Notes from the session that were not shown yet."""
    next_line: str = ""
    """A line that the user typed at a question; it is done next."""
    quiet: bool = False
    """True while a command reports its fold itself."""
    warned: int = 0
    """1 if the user was warned that the context is filling, 2 that it is nearly full; each is told once."""
    explained: Explained = field(default_factory=Explained)
    page: Page | None = None
    """The page in the browser, once it was opened; it ends with the chat."""
    readable: set[Path] = field(default_factory=set)
    """Files that may hold secrets, and that the user let the model read."""

    @property
    def wire(self) -> str:
        """The format in which the session stores its messages."""
        return self.session.state.wire.name

    def budget(self) -> Budget:
        """Return how full the context is, with the system prompt and tools that were sent last."""
        return self.session.budget()

    @property
    def paused_until(self) -> str:
        """The time until which the circuit breaker lets nothing be folded by itself; "" if it is closed."""
        state = self.session.state
        allowed = circuit_breaker.allows(state.accounting.breaker, state.now())
        if allowed.yes or allowed.until is None or not self.settings.compacts:
            return ""
        return f"{datetime.fromtimestamp(allowed.until).astimezone():%H:%M}"

    def take_notes(self) -> list[Note]:
        """Return the notes that were not shown yet; each is returned once."""
        notes, self.notes = self.notes, []
        return notes

    def listen(self, event: Event) -> None:
        """Make a note of what the session does by itself."""
        if self.quiet:
            return
        if isinstance(event, CompactionEnd):
            fold = bare_name(event.fold)[:SHORT_NAME_CHARS]
            sizes = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
            counts = f"{event.messages_before:,} → {format_count(event.messages_after, 'message')}"
            where = f"the originals stay in session {self.session.name} ({self.store.address})"
            text = f"folded {fold}: {sizes}, {counts} ({', '.join(event.stages)}); {where}"
            self.notes.append(Note(f"{text}; /unfold brings them back", "dim"))
            self._note_failure("without a summary by the model", explain_no_summary(event.receipt))
        elif isinstance(event, CompactionFailed):
            self._note_failure("nothing was folded", event.reason)
        elif isinstance(event, StoreRestored):  # that it failed was told by a warning
            self.notes.append(Note("the store works again, and everything is stored", "dim"))
        elif isinstance(event, CompactionSkipped) and BREAKER in event.reason:
            why = event.reason[event.reason.index(BREAKER) :]
            if why != self.explained.breaker:
                self.notes.append(Note(f"nothing was folded: {why}", "yellow"))
            self.explained.breaker = why

    def _note_failure(self, what: str, reason: str) -> None:
        """Make a note of a failure unless it was told already; a fold without one ends it."""
        if reason and reason != self.explained.failure:
            self.notes.append(Note(f"{what}: {explain_no_fold(reason)}", "yellow"))
        self.explained.failure = reason

    def switch(self, name: str | None = None, address: str | None = None) -> None:
        """Go on in another session, or with another model; nothing changes if that cannot be opened."""
        client = self.client if address is None else self.settings.open_client(address)
        address = address or self.address
        try:
            session = _open_session(
                self.settings, self.store, name or self.session.name, address, client, self.interrupts
            )
        except BaseException:
            if client is not self.client:
                client.close()
            raise
        if client is not self.client:
            self.client.close()
        try:
            self.session.close()
        except StoreError as error:  # those messages are lost, and the user wants to go on elsewhere
            self.notes.append(Note(str(error), "red"))
        self.client, self.address, self.session = client, address, session
        session.subscribe(self.listen)

    def close(self) -> None:
        """Close the page, the client and the session; the store stays open."""
        if self.page is not None:
            self.page.close()
        self.client.close()
        self.session.close()


def open_conversation(
    settings: ChatSettings, store: Store, name: str, address: str, ui: UserInterface
) -> Conversation:
    """Open a chat with the model at an address, in a new or an existing session."""
    client, interrupts = settings.open_client(address), Interrupts()
    try:
        session = _open_session(settings, store, name, address, client, interrupts)
    except BaseException:
        client.close()
        raise
    conversation = Conversation(
        settings=settings,
        store=store,
        ui=ui,
        address=address,
        client=client,
        session=session,
        interrupts=interrupts,
    )
    session.subscribe(conversation.listen)
    return conversation


def _open_session(  # noqa: PLR0917  # one caller per half of a conversation, both in this file
    settings: ChatSettings, store: Store, name: str, address: str, client: ChatClient, interrupts: Interrupts
) -> Session:
    """Open the session of a chat, in the format of its messages; a new one has the format of the client."""
    # Another model may speak another wire, but what was said stays as it was recorded.
    probe = open_session(name, store=store)
    format_ = probe.state.wire.name if probe.view() else client.format
    ask = settings.open_asker(address)
    return open_session(
        name,
        store=store,
        model=_name_model(client),
        endpoint=client.name,
        window=settings.window or _find_client_window(settings.policy, client),
        policy=settings.policy,
        ask=None if ask is None else InterruptibleAsker(ask, interrupts),
        format=format_,
        **settings.spending_limits,
    )


def _name_model(client: ChatClient) -> str:
    """Return the model with the address of its server: the user may set windows and prices for it."""
    return client.name if "://" in client.name else client.model


def _find_client_window(policy: Policy, client: ChatClient) -> int | None:
    """Return the window of a client that knows better than the tables of models, such as a local one.

    A window of a table is left to the session, where a refusal may teach a smaller one.
    """
    listed, chosen = find_known(lookup, client.model), find_known(policy.window, _name_model(client))
    if listed is None or chosen is None or client.window not in (None, listed.tokens):
        return client.window
    return None if chosen.source == "overlay" or chosen.tokens == listed.tokens else client.window


@dataclass(frozen=True, slots=True)
class InterruptibleAsker:
    """A summariser that Ctrl-C interrupts."""

    ask: Asker
    interrupts: Interrupts

    def __getattr__(self, name: str) -> Any:
        """Its model, window and price."""
        return getattr(self.ask, name)

    def __call__(self, question: Ask) -> Answer | str:
        """Ask once."""
        with self.interrupts.interruptible():
            return self.ask(question)


def convert_messages(items: list[Any], source: str, target: str) -> list[Any]:
    """Convert messages from one format to another; the same list if both are the same."""
    if source == target:
        return items
    return list(formats.get(target).render(formats.get(source).parse(items)))


def convert_view(items: list[Any], source: str, target: str) -> list[Any]:
    """Convert a whole view to another format, and repair what that format refuses."""
    if source == target:
        return items
    wire = formats.get(target)
    normalized = normalize(formats.get(source).parse(items), shape=wire.shape)
    return list(wire.render(normalized.messages))
