"""Where a chat takes place: the session, whom one talks to, and how both are opened and exchanged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from refold import formats
from refold.chat.showing import Note, Person
from refold.chat.stopping import Stops
from refold.clients.talking import Talker
from refold.core.compaction.budget import Budget
from refold.core.compaction.flow import Answer, Ask
from refold.core.compaction.policy import Policy
from refold.core.messages.normalize import settle
from refold.core.tokens.units import plural
from refold.session import open as open_session
from refold.session.events import CompactionEnd, CompactionFailed, Event
from refold.session.facade import Session
from refold.stores import Store

SHORT: Final = 8
"""Characters of a fold's name that are shown; `/unfold` takes them."""

Asker = Callable[[Ask], Answer | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a chat was begun; what `/model` and `/resume` do not change."""

    policy: Policy
    system: str = ""
    tools: bool = True
    window: int | None = None
    """Given by the person; wins over what the talker says."""
    folder: Path
    """What the tools may read; nothing outside of it."""
    talker: Callable[[str], Talker]
    """Opens whom to talk to, by address."""
    asker: Callable[[str], Asker | None]
    """Who summarises where one talks to that address; None for nobody."""
    caps: Mapping[str, Any] = field(default_factory=dict)
    """What summaries may cost, as `refold.open` takes it."""

    @property
    def compacts(self) -> bool:
        """Whether folds are made without being asked for."""
        return self.policy.trigger.line(1) is not None


@dataclass(slots=True, kw_only=True)
class Desk:
    """One chat. The session keeps what is said; everything here can be opened anew from it."""

    setting: Setting
    store: Store
    person: Person
    address: str
    talker: Talker
    session: Session
    stops: Stops = field(default_factory=Stops)
    news: list[Note] = field(default_factory=list)
    """What the session told that nobody has seen yet."""
    quiet: bool = False
    """Whether a command tells of its fold itself."""
    warned: bool = False
    """Whether the person knows that the context is filling; a full one is told again and again."""

    @property
    def wire(self) -> str:
        """The shape in which the session keeps its messages."""
        return self.session.keeper.wire.name

    def budget(self) -> Budget:
        """How full the context is, with the system prompt and tools that were sent last."""
        return self.session.budget()

    def told(self) -> list[Note]:
        """What is new, once."""
        news, self.news = self.news, []
        return news

    def listen(self, event: Event) -> None:
        """Keep a word on what the session does by itself."""
        if isinstance(event, CompactionEnd) and not self.quiet:
            self.news.append(Note(self._folded(event), "dim"))
        elif isinstance(event, CompactionFailed) and not self.quiet:
            self.news.append(Note(f"nothing was folded: {event.reason}", "dim"))

    def _folded(self, event: CompactionEnd) -> str:
        short = event.fold.removeprefix("b2:")[:SHORT]
        sizes = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
        counts = f"{event.messages_before:,} → {plural(event.messages_after, 'message')}"
        stages = ", ".join(event.stages)
        where = f"the originals stay in session {self.session.name} ({self.store.address})"
        return f"folded {short}: {sizes}, {counts} ({stages}); {where}; /unfold brings them back"

    def sit(self, name: str | None = None, address: str | None = None) -> None:
        """Go on in another session, or with somebody else; where that cannot be opened all stays as it is."""
        talker = self.talker if address is None else self.setting.talker(address)
        try:
            session = opened(
                self.setting,
                self.store,
                name or self.session.name,
                address=address or self.address,
                talker=talker,
                stops=self.stops,
            )
        except BaseException:
            if talker is not self.talker:
                talker.close()
            raise
        if talker is not self.talker:
            self.talker.close()
        self.session.close()
        self.talker, self.address, self.session = talker, address or self.address, session
        session.subscribe(self.listen)

    def close(self) -> None:
        """Let go of everything but the store."""
        self.talker.close()
        self.session.close()


def take_seat(setting: Setting, store: Store, name: str, address: str, person: Person) -> Desk:
    """Open a chat: the talker at this address in the session of this name, whether or not it is there."""
    talker = setting.talker(address)
    stops = Stops()
    try:
        session = opened(setting, store, name, address=address, talker=talker, stops=stops)
    except BaseException:
        talker.close()
        raise
    desk = Desk(
        setting=setting,
        store=store,
        person=person,
        address=address,
        talker=talker,
        session=session,
        stops=stops,
    )
    session.subscribe(desk.listen)
    return desk


def opened(
    setting: Setting, store: Store, name: str, *, address: str, talker: Talker, stops: Stops
) -> Session:
    """The session as the chat needs it: in the shape it has, else in that of the talker."""
    ask = setting.asker(address)
    return open_session(
        name,
        store=store,
        model=talker.model,
        endpoint=talker.name,
        window=setting.window or talker.window,
        policy=setting.policy,
        ask=None if ask is None else Breakable(ask, stops),
        format=_shape(store, name) or talker.format,
        **setting.caps,
    )


def _shape(store: Store, name: str) -> str | None:
    """The shape of what was said in a session; None where nothing was."""
    probe = open_session(name, store=store)
    return probe.keeper.wire.name if probe.view() else None


@dataclass(frozen=True, slots=True)
class Breakable:
    """Somebody to ask, whom one may stop waiting for."""

    ask: Asker
    stops: Stops

    def __getattr__(self, name: str) -> Any:
        """What it tells of itself: its model, window and price."""
        return getattr(self.ask, name)

    def __call__(self, question: Ask) -> Answer | str:
        """Ask once."""
        with self.stops.breakable():
            return self.ask(question)


def turned(items: list[Any], source: str, target: str) -> list[Any]:
    """Messages of one wire as another has them; the very list where both are the same."""
    if source == target:
        return items
    return list(formats.get(target).render(formats.get(source).parse(items)))


def sent(items: list[Any], source: str, target: str) -> list[Any]:
    """A whole view as another wire takes it: what the one allows and the other refuses is mended as well."""
    if source == target:
        return items
    wire = formats.get(target)
    settled = settle(formats.get(source).parse(items), shape=wire.shape)
    return list(wire.render(settled.messages))
