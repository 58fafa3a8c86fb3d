"""Refold's policies as methods of CompactBench (an Apache-2.0 package), and a reader that needs no model.

    compactbench run --method path/to/refold/evals/compactbench.py:Refold --provider ...

A method gives a text and a state in six sections. The text is the view that the policy makes; where a talk is
so short that nothing is gained by folding it, the text is empty and nobody is asked: the ledger alone tells
it (`states`). `Reader` is the stand-in of `reader` as a provider: no model, and the same for every method.
"""

from typing import Any, ClassVar, Final

from compactbench.compactors import Compactor  # type: ignore[import-not-found,unused-ignore]
from compactbench.contracts import CompactionArtifact  # type: ignore[import-not-found,unused-ignore]
from compactbench.providers import (  # type: ignore[import-not-found,unused-ignore]
    CompletionRequest,
    CompletionResponse,
    Provider,
)

from refold.calls.compact import acompact
from refold.core.facts.ledger import LEDGER_SHARE
from refold.evals.methods import Wire, count_tokens, iter_texts
from refold.evals.reader.stand_in import reply
from refold.evals.reader.states import make_state

SHARE: Final = 0.5
"""Tokens of the view, as a share of the talk's."""
LEAST: Final = 400
"""Tokens below which no talk is folded: the words around a summary would take more than they save."""
TEXT_CHARS: Final = 8_000
"""What CompactBench takes of a text."""
TEXT_TOKENS: Final = TEXT_CHARS // 5
"""So that a text is not cut: English has four characters to a token, and its marks take some."""


class Refold(Compactor):  # type: ignore[misc,unused-ignore]  # CompactBench wants it so
    """The house policy; CompactBench's provider is asked for the summary."""

    name: ClassVar[str] = "refold"
    version: ClassVar[str] = "1.0.0"
    policy: ClassVar[str] = "refold"
    asks: ClassVar[bool] = True

    async def compact(
        self, transcript: Any, config: dict[str, Any] | None = None, previous_artifact: Any = None
    ) -> Any:
        """The artifact of a talk; earlier artifacts are not needed, for the talk is whole."""
        del config, previous_artifact
        messages = [{"role": turn.role.value, "content": turn.content} for turn in transcript.turns]
        return CompactionArtifact(
            summaryText=await self._text(messages),
            structured_state=make_state(messages, max(LEAST, int(count_tokens(messages) * LEDGER_SHARE))),
            selectedSourceTurnIds=[turn.id for turn in transcript.turns],
            methodMetadata={"method": self.name, "version": self.version, "policy": self.policy},
        )

    async def _text(self, messages: Wire) -> str:
        """The view that the policy makes; nothing where the talk is short."""
        size = count_tokens(messages)
        if size <= LEAST:
            return ""
        done = await acompact(
            messages,
            ask=self._ask if self.asks else None,
            policy=self.policy,
            window=max(8_000, size * 4),
            target=max(LEAST, min(int(size * SHARE), TEXT_TOKENS)),
            force=True,
            must_fit=False,
        )
        return "\n\n".join(map(_spoken, done.messages))[:TEXT_CHARS]

    async def _ask(self, question: Any) -> str:
        request = CompletionRequest(
            model=self.model,
            prompt=str(question),
            system=question.system or None,
            max_tokens=question.max_tokens or 2_048,
        )
        return str((await self.provider.complete(request)).text)


def _spoken(message: dict[str, Any]) -> str:
    """A message with its speaker, without whom nobody knows what was asked and what was answered."""
    text = "\n".join(iter_texts(message))
    return text if text.startswith("<") else f"{str(message.get('role', '')).upper()}: {text}"


class RefoldWithoutModel(Refold):
    """The same without a model."""

    name: ClassVar[str] = "refold-without-model"
    asks: ClassVar[bool] = False


class Opal(Refold):
    """The preset of that name."""

    name: ClassVar[str] = "refold-opal"
    policy: ClassVar[str] = "opal"


class Neurolink(Refold):
    """The preset of that name."""

    name: ClassVar[str] = "refold-neurolink"
    policy: ClassVar[str] = "neurolink"


class Reader(Provider):  # type: ignore[misc,unused-ignore]  # CompactBench wants it so
    """Answers without a model: `refold.evals.reader.stand_in`."""

    key: ClassVar[str] = "refold-reader"

    async def complete(self, request: Any) -> Any:
        """What the stand-in says."""
        text = reply(request.prompt, as_json=bool(request.response_format))
        return CompletionResponse(
            text=text,
            prompt_tokens=len(request.prompt) // 4,
            completion_tokens=len(text) // 4,
            model=request.model,
        )
