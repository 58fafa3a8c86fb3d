"""The words by which a sentence says how it holds: forbidden, decided, put off, open, asked for.

English words alone; what they do not tell, the ledger's own kinds tell (`core.facts`).
"""

import re
from typing import Final


def _any_of(words: str) -> re.Pattern[str]:
    """One pattern for a list of wordings; a line may end behind a bar."""
    listed = re.sub(r"\|\s+", "|", words)
    return re.compile(rf"\b(?:{listed})\b", re.IGNORECASE)


FORBIDS: Final = _any_of(
    r"""never|(?:do|must|should|may|shall)(?:n['’]?t| not)|avoid|forbidden|banned|prohibited|
    off[- ]limits|not allowed|under no circumstances|nobody|no one|no \w+ing|without exception"""
)
TAKES_BACK: Final = _any_of(
    r"""scratch (?:that|this)|forget (?:the|that|about|what)|never ?mind|on second thoughts?|hold on|
    changed? (?:my|our) minds?|ignore (?:the|that|what|my)(?: \w+){0,2}|actually,? (?:no|wait)|
    instead,? (?:let['’]?s|we['’]?ll|we|use|do|take)"""
)
"""That what was said just before holds no more; `instead` alone says so of the same sentence."""
DECIDES: Final = _any_of(
    r"""let['’]?s|we['’]?ll|we will|decided|agreed|settled on|go(?:ing)? with|the plan is|instead|
    we (?:use|take|choose|chose|keep)"""
)
DEFERS: Final = _any_of(
    r"""(?:can|must|should|may|will|has to) wait|postponed?|put off|hold(?:ing)? off|not (?:now|today)|
    deferred?|later on|for another (?:day|time)|until (?:next|after)"""
)
OPEN: Final = _any_of(
    r"""still (?:have|has|need|needs|must|missing|open|unclear|looking|waiting)|not (?:\w+ ){0,3}yet|
    n['’]t (?:\w+ ){0,3}yet|nobody has|to be (?:decided|found|done|settled)|tb[ad]|open question|
    waiting for|remains to"""
)
ASKS: Final = re.compile(
    r"(?:(?:ok|okay|so|now|then|and|please|next)\b,? )*(?:(?:can|could|would|will) you\b|please\b"
    r"|(?:remind|tell|give|show|write|send|draw|find|make|draft|list|help|explain|book|check|prepare)\b)",
    re.IGNORECASE,
)
"""How a sentence begins that asks for work."""
