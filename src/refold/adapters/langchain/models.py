"""What LangChain's own objects say: a chat model's name and window, a summarizer's settings."""

from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately

from refold.core.compaction.flow import Answer, Ask
from refold.core.compaction.policy import Policy
from refold.errors import warn_caller
from refold.policies import presets

_TARGET_SHARE: Final = 0.65
"""Size after a fold as a share of the trigger: 55 % to 85 %, as the default policy has it."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a chat model of LangChain says of itself."""

    name: str
    """Provider and name, such as `openai:gpt-4o`; empty if it does not say."""
    endpoint: str | None
    window: int | None


def read_model(model: Any) -> ModelFacts:
    """Read the name, the endpoint and the window of a chat model."""
    params = model._get_ls_params() if hasattr(model, "_get_ls_params") else {}  # noqa: SLF001  # LangChain's own middleware asks it too
    name = params.get("ls_model_name") or getattr(model, "model_name", None) or getattr(model, "model", None)
    provider = params.get("ls_provider") or ""
    bases = (getattr(model, field, None) for field in ("openai_api_base", "anthropic_api_url", "base_url"))
    profile = getattr(model, "profile", None)
    window = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    known = name if isinstance(name, str) else ""
    return ModelFacts(
        name=f"{provider}:{known}" if provider and known else known,
        endpoint=next((base for base in bases if isinstance(base, str) and base), None),
        window=window if isinstance(window, int) and window > 0 else None,
    )


@dataclass(frozen=True, slots=True)
class ModelAnswerer:
    """A chat model of LangChain that writes summaries, apart from the agent that runs."""

    chat: BaseChatModel

    @property
    def model(self) -> str:
        """The model's name with its provider, for its price."""
        return read_model(self.chat).name

    @property
    def window(self) -> int | None:
        """The tokens that the model reads, if its profile says it."""
        return read_model(self.chat).window

    def __call__(self, question: Ask) -> Answer:
        """Ask the model, outside of the agent's run: its callbacks would stream the summary to the user."""
        system = [SystemMessage(question.system)] if question.system else []
        reply = Context().run(self.chat.invoke, [*system, HumanMessage(question.text)])
        usage = reply.usage_metadata or {}
        return Answer(
            text=str(reply.text),  # a method before langchain-core 1.0
            model=read_model(self.chat).name,
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
        )


def read_policy(other: Any) -> Policy:
    """Return the default policy with the trigger and the rest of a `SummarizationMiddleware`."""
    knobs: dict[str, Any] = {}
    given = other.trigger if isinstance(other.trigger, list) else [other.trigger] if other.trigger else []
    clauses = [clause if isinstance(clause, Mapping) else dict([clause]) for clause in given]
    tokens = [clause["tokens"] for clause in clauses if "tokens" in clause]
    shares = [clause["fraction"] for clause in clauses if "fraction" in clause]
    if tokens:
        knobs["trigger_tokens"] = min(tokens)
    if shares:
        knobs |= {"trigger_fraction": min(shares), "target_fraction": min(shares) * _TARGET_SHARE}
    if clauses and not tokens and not shares:
        warn_caller(
            "a trigger by the number of messages has no counterpart: Refold folds as the window fills;"
            ' give ("tokens", ...) or ("fraction", ...)'
        )
    counter = getattr(other.token_counter, "func", other.token_counter)  # LangChain's own may be a partial
    if counter is not count_tokens_approximately:
        warn_caller(
            "a token_counter is not taken over: Refold counts by itself, and follows the model's usage"
        )
    kind, size = other.keep
    window = read_model(other.model).window
    if kind == "tokens":
        knobs["keep_tokens"] = size
    elif kind == "fraction" and window:
        knobs["keep_tokens"] = int(size * window)
    return presets.get("refold", **knobs)
