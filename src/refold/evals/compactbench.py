"""Make our policies methods of CompactBench (an Apache-2.0 package), with a reader that needs no model.

    compactbench run --method path/to/refold/evals/compactbench.py:Refold --provider ...

A method returns a text and a state in six sections. The text is the view that the policy makes. For a talk
too short to fold, the text is empty and no model is asked: only the ledger fills the state (`reader.states`).
`Reader` is the stand-in of `reader.stand_in` as a provider: no model, and the same for every method.
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
from refold.policies import presets

SHARE: Final = 0.5
"""Tokens of the view, as a share of the talk."""
LEAST: Final = 400
"""Tokens below which no talk is folded: the wrapper of a summary would take more than it saves."""
TEXT_CHARS: Final = 8_000
"""Characters that CompactBench accepts of a text."""
TEXT_TOKENS: Final = TEXT_CHARS // 5
"""Tokens up to which a text is not cut: English has about four characters a token, plus markup."""


class Refold(Compactor):  # type: ignore[misc,unused-ignore]  # CompactBench wants it so
    """The default policy; CompactBench's provider writes the summary."""

    name: ClassVar[str] = "refold"
    version: ClassVar[str] = "1.0.0"
    policy: ClassVar[str] = "refold"
    asks: ClassVar[bool] = True

    async def compact(
        self, transcript: Any, config: dict[str, Any] | None = None, previous_artifact: Any = None
    ) -> Any:
        """Return the artifact of a talk; earlier artifacts are not needed, because the talk is whole."""
        del config, previous_artifact
        messages = [{"role": turn.role.value, "content": turn.content} for turn in transcript.turns]
        return CompactionArtifact(
            summaryText=await self._text(messages),
            structured_state=make_state(messages, max(LEAST, int(count_tokens(messages) * LEDGER_SHARE))),
            selectedSourceTurnIds=[turn.id for turn in transcript.turns],
            methodMetadata={"method": self.name, "version": self.version, "policy": self.policy},
        )

    async def _text(self, messages: Wire) -> str:
        """Return the view that the policy makes; nothing if the talk is short."""
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
        spoken: list[str] = []
        for message in done.messages:  # with its speaker, so that question and answer can be told apart
            text = "\n".join(iter_texts(message))
            spoken.append(text if text.startswith("<") else f"{str(message.get('role', '')).upper()}: {text}")
        return "\n\n".join(spoken)[:TEXT_CHARS]

    async def _ask(self, question: Any) -> str:
        request = CompletionRequest(
            model=self.model,
            prompt=str(question),
            system=question.system or None,
            max_tokens=question.max_tokens or 2_048,
        )
        return str((await self.provider.complete(request)).text)


class RefoldWithoutModel(Refold):
    """The default policy without a model."""

    name: ClassVar[str] = "refold-without-model"
    asks: ClassVar[bool] = False


def __getattr__(name: str) -> type[Refold]:
    """Return the preset of a name as a method: `compactbench.py:Opal`."""
    preset = name.lower()
    if preset not in presets.PRESETS:
        raise AttributeError(f"no method {name!r} here")
    method = type(name, (Refold,), {"name": f"refold-{preset}", "policy": preset})
    globals()[name] = method  # CompactBench compares classes, so that each is made once
    return method


class Reader(Provider):  # type: ignore[misc,unused-ignore]  # CompactBench wants it so
    """Answers without a model: `refold.evals.reader.stand_in`."""

    key: ClassVar[str] = "refold-reader"

    async def complete(self, request: Any) -> Any:
        """Return the answer of the stand-in."""
        text = reply(request.prompt, as_json=bool(request.response_format))
        return CompletionResponse(
            text=text,
            prompt_tokens=len(request.prompt) // 4,
            completion_tokens=len(text) // 4,
            model=request.model,
        )
