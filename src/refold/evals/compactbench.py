"""Refold's policies as methods of CompactBench (an Apache-2.0 package), and a reader that needs no model.

    compactbench run --method path/to/refold/evals/compactbench.py:Refold --provider ...

A method gives a text and a state in six sections. The text is the view that the policy makes; where a talk is
so short that nothing is gained by folding it, the text is empty and the ledger alone tells it. `Reader`
answers CompactBench's questions with the lines of the artifact that share most words with them: a floor that
needs no model, and the same for every method.
"""

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from compactbench.compactors import Compactor  # type: ignore[import-not-found,unused-ignore]
from compactbench.contracts import CompactionArtifact  # type: ignore[import-not-found,unused-ignore]
from compactbench.providers import (  # type: ignore[import-not-found,unused-ignore]
    CompletionRequest,
    CompletionResponse,
    Provider,
)

from refold.compacting import acompact
from refold.evals.answers import COMMON
from refold.evals.states import state_of
from refold.evals.ways import texts, tokens

SHARE: Final = 0.5
"""Tokens of the view, as a share of the talk's."""
LEAST: Final = 400
"""Tokens below which no talk is folded: the words around a summary would take more than they save."""
TEXT_CHARS: Final = 8_000
"""What CompactBench takes of a text."""
_WORD: Final = re.compile(r"[^\W\d_]{3,}")


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
        done = await acompact(
            messages,
            ask=self._ask if self.asks else None,
            policy=self.policy,
            window=max(8_000, tokens(messages) * 4),
            target=max(LEAST, int(tokens(messages) * SHARE)),
            force=True,
            must_fit=False,
        )
        short = tokens(messages) <= LEAST
        text = "" if short else "\n\n".join("\n".join(texts(message)) for message in done.messages)
        return CompactionArtifact(
            summaryText=text[:TEXT_CHARS],
            structured_state=state_of(messages),
            selectedSourceTurnIds=[turn.id for turn in transcript.turns],
            methodMetadata={"method": self.name, "version": self.version, "policy": self.policy},
        )

    async def _ask(self, question: Any) -> str:
        request = CompletionRequest(
            model=self.model,
            prompt=str(question),
            system=question.system or None,
            max_tokens=question.max_tokens or 2_048,
        )
        return str((await self.provider.complete(request)).text)


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
    """Answers a question with the lines of the prompt that share most words with it."""

    key: ClassVar[str] = "refold-reader"

    async def complete(self, request: Any) -> Any:
        """The best lines; a request for a summary gets the last lines of the talk."""
        context, _, question = str(request.prompt).rpartition("QUESTION:")
        told = context.partition("prior conversation:")[2].rpartition("Based only on")[0] or question
        lines = [line for line in told.split("\n") if line.strip()]
        text = "\n".join(best(lines, question) if context else lines[-12:])
        return CompletionResponse(
            text=text,
            prompt_tokens=len(request.prompt) // 4,
            completion_tokens=len(text) // 4,
            model=request.model,
        )


def best(lines: Iterable[str], question: str) -> list[str]:
    """The three lines that share most words with a question, each read with its heading, in their order."""
    wanted = _telling(question)
    heading: set[str] = set()
    ranked: list[tuple[int, int, str]] = []
    for place, line in enumerate(lines):
        if line.startswith(("#", "<")) or line.endswith(":"):
            heading = _telling(line)
        else:
            ranked.append((-len(wanted & (_telling(line) | heading)), place, line))
    return [line for _, _, line in sorted(sorted(ranked)[:3], key=lambda one: one[1])]


def _telling(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - COMMON
