"""What a session can do, as work that somebody drives: written once, for threads and for event loops."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from refold.calls.outcome import Outcome
from refold.core.compaction.budget import Budget
from refold.core.compaction.policy import Policy
from refold.core.log.entries import Entry, Kind
from refold.core.tokens.units import tokens
from refold.session import acts, background, deciding, exporting, observing, recalling, tools
from refold.session.budgets import Around
from refold.session.effects import Work
from refold.session.keeper import Keeper
from refold.session.values import FoldMade, Hit, Observed, Ready, Stats


class Acts:
    """The acts of one session; each gives work."""

    def __init__(self, keeper: Keeper, start: Callable[[Around], None]) -> None:
        self.keeper = keeper
        self.around = Around()
        self._start = start
        """Prepares a fold in the background."""

    def say(self, message: Any) -> Work[str]:
        """Add what somebody said: text of the user, or a message; gives its handle, such as `#12`."""
        return acts.say(self.keeper, message)

    def view(self) -> Work[list[Any]]:
        """What the model sees, in the shape the conversation is in."""
        return acts.view(self.keeper)

    def log(
        self, *, kinds: Collection[Kind] | None = None, first: int = 0, last: int | None = None
    ) -> Work[list[Entry]]:
        """The entries of this branch, oldest first; `first` and `last` are numbers of messages."""
        return acts.log(self.keeper, kinds=kinds, first=first, last=last)

    def budget(self) -> Work[Budget]:
        """How full the context is, with the system prompt and tools that were sent last."""
        return acts.budget(self.keeper, self.around)

    def needs_compaction(self) -> Work[bool]:
        """Whether it is time to compact."""
        found = yield from acts.budget(self.keeper, self.around)
        return found.should_compact

    def prepare(
        self,
        messages: Sequence[Any] | None = None,
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        prompt: str | None = None,
        files: Sequence[Any] | None = None,
    ) -> Work[Ready]:
        """Take in the caller's history, compact if it is time to, and give what to send.

        `messages` is the whole history as the caller holds it, or what `prepare` gave before and what came
        since; without it the session's own view is prepared. Only what is new is stored and counted.
        """
        around = self.around
        around.system, around.tools, around.prompt, around.files = system, tools, prompt, files
        ready = yield from deciding.prepare(self.keeper, messages, around)
        if background.is_time(self.keeper, ready.budget):
            if self.keeper.settings.background == "queue":
                yield from background.offer(self.keeper, ready.budget)
            else:
                self._start(around)
        return ready

    def observe(self, answer: Any) -> Work[Observed]:
        """Take in a provider's response, or the exception that came instead.

        Usage is what the next estimate starts from. A refusal for size folds once without a model and says to
        send again: the result is true and has the messages. A second one for the same turn is `Overflow`.
        """
        return observing.observe(self.keeper, answer, self.around)

    def compact(
        self,
        strategy: str | Policy | None = None,
        *,
        keep: int | None = None,
        focus: str = "",
        target: int | str | None = None,
    ) -> Work[Outcome]:
        """Fold now, whether or not it is time to.

        strategy   a policy, its name or a strategy's id; the session's policy by default
        keep       how many of the last messages stay as they are
        focus      what a summary is to look at
        target     how large the context may be afterwards
        """
        goal = None if target is None else tokens(target)
        return acts.compact(self.keeper, self.around, strategy=strategy, keep=keep, focus=focus, target=goal)

    def checkpoint(self, name: str = "") -> Work[str]:
        """Mark this place by a name; what follows is the current thread."""
        return acts.checkpoint(self.keeper, name)

    def unfold(self, fold: str | FoldMade | None = None) -> Work[str | None]:
        """Undo a fold, the latest by default; gives its name, or None where nothing is folded."""
        return acts.unfold(self.keeper, fold)

    def rewind(self, to: Any) -> Work[int]:
        """Go back to a message (`#12`), a checkpoint or an entry; what came after stays on its own branch."""
        return acts.rewind(self.keeper, to)

    def recall(self, query: str, *, limit: int = 10) -> Work[list[Hit]]:
        """Search everything that was ever said, folded or not; best hits first."""
        return recalling.recall(self.keeper, query, limit=limit)

    def original(self, handle: Any) -> Work[list[Any]]:
        """What was said, word for word: `#12`, `#12-#57`, a hit, or a fold's name."""
        return recalling.original(self.keeper, handle)

    def pin(self, handle: Any = -1) -> Work[str]:
        """Keep a message in every view, the last one by default."""
        return acts.pin(self.keeper, handle)

    def unpin(self, handle: Any = -1) -> Work[str]:
        """Let a pinned message be folded again."""
        return acts.pin(self.keeper, handle, pinned=False)

    def folds(self) -> Work[list[FoldMade]]:
        """Every fold of this branch, oldest first, also those that were undone."""
        return acts.folds(self.keeper)

    def stats(self) -> Work[Stats]:
        """What fills the context now, against what all requests cost together."""
        return acts.stats(self.keeper, self.around)

    def recall_tool(self, format: str | None = None) -> Work[dict[str, Any] | None]:  # noqa: A002  # the word users know
        """The definition of the tool `recall` for the model, or None while nothing is folded."""
        return tools.recall_tool(self.keeper, format)

    def answer_recall(self, arguments: str | Mapping[str, Any]) -> Work[str]:
        """The text to answer with when the model calls the tool `recall`."""
        return tools.answer_recall(self.keeper, arguments)

    def import_from(self, directory: str) -> Work[int]:
        """Read exported files into this session, in which nothing was said yet; gives how many messages."""
        return exporting.import_into(self.keeper, directory)

    def export(self, directory: str, *, form: str = "ripple") -> Work[list[str]]:
        """Write the session as files: `ripple` (messages.jsonl, history/) or `neurolink` (tagged.json)."""
        return exporting.export(self.keeper, directory, form)
