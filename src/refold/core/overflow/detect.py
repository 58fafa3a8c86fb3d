"""Decide whether an error is a refusal for size, who refused, and which numbers it states; never raises.

    >>> overflow("prompt is too long: 213462 tokens > 200000 maximum")
    OverflowInfo(provider='anthropic', limit=200000, requested=213462)
    >>> overflow("Rate limit reached: 40000 tokens per minute") is None
    True

Numbers are returned as stated. A number that is *learned* must lie in `LEARNABLE`: an error text can be
forged. The error to avoid is the false alarm. It compacts for nothing, while a missed refusal is only shown.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from refold.arguments import check_arguments
from refold.core.models.model_names import canonical_provider
from refold.core.overflow.error_text import Evidence, collect_evidence
from refold.core.overflow.numbers import Sizes, drop_impossible_sizes, read_sizes
from refold.core.overflow.patterns import RefusalPattern, load_patterns
from refold.errors import AnswerFailed, Overflow

LEARNABLE: Final = range(1_024, 10_000_001)
"""Windows that are believed on a provider's word: servers of small models are started with 1,024 tokens, and
no model has more than 10 million."""


@dataclass(frozen=True, slots=True)
class OverflowInfo:
    """A refusal for size: who refused, at which limit, and the size refused; None if that is not stated."""

    provider: str | None
    limit: int | None
    requested: int | None

    @property
    def learnable(self) -> int | None:
        """The limit, if it can be believed."""
        # Asked for None, a range would compare it with each of its ten million numbers.
        return self.limit if self.limit is not None and self.limit in LEARNABLE else None


@check_arguments
def overflow(error: object, *, provider: str | None = None) -> OverflowInfo | None:
    """Return the numbers of a refusal for size; None if the error is something else.

    Takes exceptions (with causes, groups, bodies and responses), texts, bytes, dicts, lists, event streams
    and finish reasons. `provider` is who was asked, where the caller knows it.
    """
    if type(error) is OverflowInfo:
        return error
    if type(error) is AnswerFailed and type(error.cause) is Overflow:  # a client has read the refusal already
        error = error.cause
    if type(error) is Overflow:
        return OverflowInfo(error.provider, error.limit, error.requested)
    asked = canonical_provider(provider) if provider else None
    evidence = collect_evidence(error)
    refusals = [refusal for facts in evidence if (refusal := _find_refusal(facts, asked))]
    if not refusals:
        return None
    sizes = (refusal.sizes for refusal in refusals)
    best = max(sizes, key=lambda stated: bool(stated.limit) + bool(stated.requested))
    return OverflowInfo(asked or _find_provider(evidence, refusals), best.limit, best.requested)


def is_vague(error: object) -> bool:
    """True if a refusal for size names no number and nothing of a context, so that it may mean anything.

    >>> [is_vague(error) for error in ("413 Payload Too Large", "413 prompt is too long")]
    [True, False]
    """
    refusals = [refusal for facts in collect_evidence(error) if (refusal := _find_refusal(facts, None))]
    return bool(refusals) and all(
        (refusal.pattern in (_WITHOUT_BODY, _BY_STATUS) or _OF_HTTP.search(refusal.text))
        and refusal.sizes == Sizes()
        and not _OF_CONTEXT.search(refusal.text)
        for refusal in refusals
    )


_BLOCK_REFUSALS: Final = re.compile(
    r"\b(?:invalid_encrypted_content|compaction_(?:block_ambiguous|block_misplaced|content_mismatch"
    r"|signature_invalid|tool_changes_mismatch|too_many_tool_references|incomplete_turn"
    r"|nothing_to_summarize|unavailable))\b"
)
"""Codes by which OpenAI and Anthropic refuse a compaction block: stale, changed, out of place, or somebody
else's; the last three say that no compaction can be made of a request now."""


def find_block_refusal(error: object) -> str:
    """Return the code by which a provider has refused its own compaction block; empty for any other error.

    >>> find_block_refusal("Error code: 400 - compaction_signature_invalid")
    'compaction_signature_invalid'
    """
    texts = (text for facts in collect_evidence(error) for text in facts.texts)
    return next((match[0] for text in texts if (match := _BLOCK_REFUSALS.search(text))), "")


_THINKING_REFUSALS: Final = re.compile(
    r"\bbound to a different\b|\b(?:model|prefix|organization|end_user)_binding_mismatch\b"
    r"|\binvalid `?signature`? in `?thinking`?",
    re.IGNORECASE,
)
"""Words by which Anthropic, and Bedrock for it, refuses thinking behind another prefix than its own."""


def is_thinking_refusal(error: object) -> bool:
    """True if a provider has refused thinking because it is bound to something else.

    >>> is_thinking_refusal("messages.3.content.0: The block is bound to a different conversation.")
    True
    """
    texts = (text for facts in collect_evidence(error) for text in facts.texts)
    return any(map(_THINKING_REFUSALS.search, texts))


@dataclass(frozen=True, slots=True)
class _Refusal:
    text: str
    sizes: Sizes
    pattern: RefusalPattern | None = None


_BY_CLASS_NAME: Final = RefusalPattern(
    None, re.compile(r"context(?:window|length|limit)?(?:exceed|overflow)"), "ContextOverflowError"
)
_WITHOUT_BODY: Final = RefusalPattern("cerebras", re.compile(""), "400 status code (no body)")
_BY_STATUS: Final = RefusalPattern(None, re.compile(""), "413")
_OF_HTTP: Final = re.compile(r"(?:entity|payload|content|body) too large")
_OF_CONTEXT: Final = re.compile(r"token|context|prompt")
_CAPITAL_INPUT: Final = RefusalPattern("bedrock", re.compile(r"Input is too long"), "Input is too long")
# "Input is too long" is Bedrock's, "input is too long" Anthropic's: one capital letter is all that differs.
_FILLER: Final = re.compile(
    r"\b(?:(?:api|provider|request|llm|model|http|server) )?(?:error|failed|failure)\b(?: code)?"
)
_NO_WORD: Final = re.compile(r"\b(?:exceeded|400|413|500)\b|[^a-z_ ]")
_ANSWERED: Final = re.compile(
    r"https?://[^\s'\"]{1,300}|\b(?:bad request|error code|client error|status code|for url)\b"
    r"|for more information check|[^a-z]"
)
_STRING_LIMIT: Final = re.compile(r"string with maximum length ([0-9]{1,12})")
_SENTENCE_END: Final = re.compile(r"[.;](?= |$)|\n")
_BARE_CHARS: Final = 120
"""A longer text is a sentence, and its other words decide."""
_ID_CHARS: Final = 10_000
"""A string with a lower limit is a name or an id, not a conversation."""
_IMITATED: Final = frozenset({"openai", "anthropic"})
"""Providers whose sentences other servers repeat; their words prove least about who refused."""


def _find_refusal(evidence: Evidence, asked: str | None) -> _Refusal | None:
    if not (evidence.texts or evidence.statuses or evidence.kinds or evidence.finishes):
        return None  # nothing speaks of a refusal, such as in an ordinary answer
    table = load_patterns()
    text = "\n".join(evidence.texts)
    for written, meant in (("\\u003e", ">"), ("&gt;", ">"), ("\u2019", "'"), ("\\n", " "), ('\\"', '"')):
        text = text.replace(written, meant)
    text = re.sub(r"[ \t\r\f\v]+", " ", text).strip().lower()
    if pattern := _match_sure(text, evidence) or _match_loose(text, evidence) or _match_bare(text):
        return _Refusal(text, _stated_sizes(text, evidence), pattern)
    if _has_no_body(text, evidence, asked):
        return _Refusal(text, Sizes(), _WITHOUT_BODY)
    too_large = 413 in evidence.statuses or table.http_413.search(text) is not None
    too_large = too_large and not table.rate_or_media.search(text)
    if "model_context_window_exceeded" in evidence.finishes:
        return _Refusal(text, _stated_sizes(text, evidence))
    return _Refusal(text, _stated_sizes(text, evidence), _BY_STATUS) if too_large else None


def _match_sure(text: str, evidence: Evidence) -> RefusalPattern | None:
    table = load_patterns()
    matching = [
        known
        for known in table.sure
        if (match := known.pattern.search(text))
        and not table.rate_or_weight.search(_sentence_around(text, match))
    ]
    if matching:
        own = (known for known in matching if known.provider and known.provider not in _IMITATED)
        return next(own, matching[0])
    return _BY_CLASS_NAME if _BY_CLASS_NAME.pattern.search("\n".join(evidence.kinds).lower()) else None


def _match_loose(text: str, evidence: Evidence) -> RefusalPattern | None:
    table = load_patterns()
    known = next((known for known in table.loose if known.pattern.search(text)), None)
    # Other topics are looked for last: their pattern is the longest, and few errors need it.
    if known is None or evidence.statuses & {401, 402, 403, 429} or table.other_topic.search(text):
        return None
    length = _STRING_LIMIT.search(text)
    if length is not None and int(length[1]) < _ID_CHARS:
        return None
    capital = known.pattern.pattern == "input is too long" and any(
        _CAPITAL_INPUT.pattern.search(written) for written in evidence.texts
    )
    return _CAPITAL_INPUT if capital else known


def _match_bare(text: str) -> RefusalPattern | None:
    """Return the word that means size, where a short text is only that and the filler of an error."""
    table = load_patterns()
    if len(text) > _BARE_CHARS:
        return None
    known = table.bare.get(" ".join(_NO_WORD.sub(" ", _FILLER.sub("", text)).split()))
    return None if known is None or table.rate.search(text) else known


def _has_no_body(text: str, evidence: Evidence, asked: str | None) -> bool:
    """True if a request was refused without a body, by Cerebras or by an unnamed provider."""
    silent = evidence.empty or (bool(evidence.kinds) and not text)
    empty = 400 in evidence.statuses and silent and not _ANSWERED.sub("", text)
    if not empty and not load_patterns().no_body.search(text):
        return False
    provider = asked or _provider_by_address([evidence], [text])
    is_unnamed = provider is None and not evidence.places and "://" not in text
    return provider == "cerebras" or is_unnamed


def _stated_sizes(text: str, evidence: Evidence) -> Sizes:
    fields = evidence.numbers
    if "n_ctx" in fields:
        return drop_impossible_sizes(Sizes(fields["n_ctx"], fields.get("n_prompt_tokens")))
    return read_sizes(text)


def _sentence_around(text: str, match: re.Match[str]) -> str:
    # 200 characters either way bound the work; real sentences are shorter.
    before = _SENTENCE_END.split(text[max(0, match.start() - 200) : match.start()])[-1]
    return before + match[0] + _SENTENCE_END.split(text[match.end() : match.end() + 200], maxsplit=1)[0]


def _find_provider(evidence: Sequence[Evidence], refusals: Sequence[_Refusal]) -> str | None:
    """Return the provider that refused: by its address, own words, library, or words that others repeat."""
    by_address = _provider_by_address(evidence, [refusal.text for refusal in refusals])
    writers = [known.provider for refusal in refusals if (known := refusal.pattern) and known.provider]
    own_words = next((provider for provider in writers if provider not in _IMITATED), None)
    libraries = load_patterns().libraries
    modules = (kind.partition(".")[0] for facts in evidence for kind in facts.kinds)
    by_library = next((libraries[module] for module in modules if module in libraries), None)
    return by_address or own_words or by_library or next(iter(writers), None)


def _provider_by_address(evidence: Sequence[Evidence], texts: Sequence[str]) -> str | None:
    places = [place for facts in evidence for place in facts.places]
    text = "\n".join([*places, *texts])
    known = next((name for name, pattern in load_patterns().hosts if pattern.search(text)), None)
    names = (place for place in places if place.replace("_", "").isalnum())
    return known or next(map(canonical_provider, names), None)
