"""Whether a model's sentence tells a decision, a finding or a promise; quick to say no."""

import re
from typing import Final

_DECIDES: Final = re.compile(
    r"\b(?:decided|decision|we(?:['’]ll| will) (?:go with|use)|let['’]s (?:use|go with)|going with"
    r"|chose|settled on"
    r"|agreed|root cause|the (?:fix|solution|reason|problem|issue|bug) (?:is|was)|turns out|confirmed)\b",
    re.IGNORECASE,
)
_PROMISES: Final = re.compile(
    r"\bi(?:['’]ll| will| promise)\b.{0,120}\b(?:later|once|after|when|remind|get back|follow up"
    r"|as soon as|before|tomorrow)\b",
    re.IGNORECASE,
)


_DECIDED: Final = (
    *(
        "decided",
        "decision",
        "go with",
        "will use",
        "ll use",
        "let's use",
        "let’s use",
        "going with",
        "chose",
    ),
    *("settled", "agreed", "root cause", "fix", "solution", "reason", "problem", "issue", "bug"),
    *("turns out", "confirmed"),
)
_PROMISED: Final = ("i'll", "i’ll", "i will", "i promise")


def may_decide(text: str) -> bool:
    """Whether a text may hold decisions or promises at all; quick."""
    low = text.lower()
    return any(word in low for word in (*_DECIDED, *_PROMISED))


def decides(sentence: str) -> bool:
    """Whether a sentence tells a decision or a finding."""
    return _DECIDES.search(sentence) is not None


def promises(sentence: str) -> bool:
    """Whether a model promises something for later."""
    return _PROMISES.search(sentence) is not None
