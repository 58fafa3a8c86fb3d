"""What a session can do, as work that somebody drives: written once, for threads and for event loops."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from refold.calls.outcome import Outcome
from refold.core.compaction.budget import Budget
from refold.core.compaction.policy import Policy
from refold.core.log.entries import Entry, Kind
from refold.core.tokens.units import parse_tokens
from refold.session import operations
from refold.session.drivers import SessionFlow
from refold.session.results import FoldMade, Hit, Observed, Ready, Stats
from refold.session.state.session_state import SessionState
from refold.session.steps import background, compact, export, observe, recall, recall_tool
from refold.session.steps.context import RequestContext


class Acts:
    """The acts of one session; each gives work."""

    def __init__(self, state: SessionState, start: Callable[[RequestContext], None]) -> None:
        self.state = state
        self.around = RequestContext()
        self._start = start
        """Prepares a fold in the background."""

    def say(self, message: Any) -> SessionFlow[str]:
        """Add what somebody said: text of the user, or a message; gives its handle, such as `#12`."""
        return operations.say(self.state, message)

    def view(self) -> SessionFlow[list[Any]]:
        """What the model sees, in the shape the conversation is in."""
        return operations.view(self.state)

    def log(
        self, *, kinds: Collection[Kind] | None = None, first: int = 0, last: int | None = None
    ) -> SessionFlow[list[Entry]]:
        """The entries of this branch, oldest first; `first` and `last` are numbers of messages."""
        return operations.log(self.state, kinds=kinds, first=first, last=last)

    def budget(self) -> SessionFlow[Budget]:
        """How full the context is, with the system prompt and tools that were sent last."""
        return operations.budget(self.state, self.around)

    def needs_compaction(self) -> SessionFlow[bool]:
        """Whether it is time to compact."""
        found = yield from operations.budget(self.state, self.around)
        return found.should_compact

    def prepare(
        self,
        messages: Sequence[Any] | None = None,
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        prompt: str | None = None,
        files: Sequence[Any] | None = None,
    ) -> SessionFlow[Ready]:
        """Take in the caller's history, compact if it is time to, and give what to send.

        `messages` is the whole history as the caller holds it, or what `prepare` gave before and what came
        since; without it the session's own view is prepared. Only what is new is stored and counted.
        """
        around = self.around
        around.system, around.tools, around.prompt, around.files = system, tools, prompt, files
        ready = yield from compact.prepare(self.state, messages, around)
        if background.should_prepare_fold(self.state, ready.budget):
            if self.state.settings.background == "queue":
                yield from background.offer_to_queue(self.state, ready.budget)
            else:
                self._start(around)
        return ready

    def observe(self, answer: Any) -> SessionFlow[Observed]:
        """Take in a provider's response, or the exception that came instead.

        Usage is what the next estimate starts from. A refusal for size folds once without a model and says to
        send again: the result is true and has the messages. A second one for the same turn is `Overflow`.
        """
        return observe.observe(self.state, answer, self.around)

    def compact(
        self,
        strategy: str | Policy | None = None,
        *,
        keep: int | None = None,
        focus: str = "",
        target: int | str | None = None,
    ) -> SessionFlow[Outcome]:
        """Fold now, whether or not it is time to.

        strategy   a policy, its name or a strategy's id; the session's policy by default
        keep       how many of the last messages stay as they are
        focus      what a summary is to look at
        target     how large the context may be afterwards
        """
        goal = None if target is None else parse_tokens(target)
        return operations.compact(
            self.state, self.around, strategy=strategy, keep=keep, focus=focus, target=goal
        )

    def checkpoint(self, name: str = "") -> SessionFlow[str]:
        """Mark this place by a name; what follows is the current thread."""
        return operations.checkpoint(self.state, name)

    def unfold(self, fold: str | FoldMade | None = None) -> SessionFlow[str | None]:
        """Undo a fold, the latest by default; gives its name, or None where nothing is folded."""
        return operations.unfold(self.state, fold)

    def rewind(self, to: Any) -> SessionFlow[int]:
        """Go back to a message (`#12`), a checkpoint or an entry; what came after stays on its own branch."""
        return operations.rewind(self.state, to)

    def recall(self, query: str, *, limit: int = 10) -> SessionFlow[list[Hit]]:
        """Search everything that was ever said, folded or not; best hits first."""
        return recall.recall(self.state, query, limit=limit)

    def original(self, handle: Any) -> SessionFlow[list[Any]]:
        """What was said, word for word: `#12`, `#12-#57`, a hit, or a fold's name."""
        return recall.original(self.state, handle)

    def pin(self, handle: Any = -1) -> SessionFlow[str]:
        """Keep a message in every view, the last one by default."""
        return operations.pin(self.state, handle)

    def unpin(self, handle: Any = -1) -> SessionFlow[str]:
        """Let a pinned message be folded again."""
        return operations.pin(self.state, handle, pinned=False)

    def folds(self) -> SessionFlow[list[FoldMade]]:
        """Every fold of this branch, oldest first, also those that were undone."""
        return operations.folds(self.state)

    def stats(self) -> SessionFlow[Stats]:
        """What fills the context now, against what all requests cost together."""
        return operations.stats(self.state, self.around)

    def recall_tool(self, format: str | None = None) -> SessionFlow[dict[str, Any] | None]:  # noqa: A002  # the word users know
        """The definition of the tool `recall` for the model, or None while nothing is folded."""
        return recall_tool.recall_tool(self.state, format)

    def answer_recall(self, arguments: str | Mapping[str, Any]) -> SessionFlow[str]:
        """The text to answer with when the model calls the tool `recall`."""
        return recall_tool.answer_recall(self.state, arguments)

    def import_from(self, directory: str) -> SessionFlow[int]:
        """Read exported files into this session, in which nothing was said yet; gives how many messages."""
        return export.import_into(self.state, directory)

    def export(self, directory: str, *, form: str = "ripple") -> SessionFlow[list[str]]:
        """Write the session as files: `ripple` (messages.jsonl, history/) or `neurolink` (tagged.json)."""
        return export.export(self.state, directory, form)
