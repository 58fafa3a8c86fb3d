"""Lines that address whoever reads them with a model's eyes: found so that they are quoted, never followed.

Letters are looked at as an eye sees them: unseen characters are left out, wide letters and letters of other
scripts that look Latin are read as Latin ones.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Order:
    """A way to address a model; it only leads to quotes, so a false alarm costs nothing."""

    anchors: tuple[str, ...]
    """One of these stands in each such text, in small letters: found fast, they save most of the search."""
    pattern: re.Pattern[str]
    before: int = 1
    """Characters before an anchor in which the rest of the order may stand."""
    after: int = 2
    """And behind it: more than it can have, so that no word is cut off and taken for a whole one."""

    def spans(self, text: str, low: str) -> Iterator[tuple[int, int]]:
        """Where a text addresses a model so; `low` is the text in small letters, each in its place."""
        for anchor in self.anchors:
            at = low.find(anchor)
            while at >= 0:
                limit = at + len(anchor) + self.after
                found = self.pattern.search(text, max(0, at - self.before), limit)
                if found:
                    yield found.span()
                at = low.find(anchor, at + 1)


def _order(pattern: str, *anchors: str, before: int = 1, after: int = 2) -> Order:
    return Order(anchors, re.compile(pattern, re.IGNORECASE | re.MULTILINE), before, after)


_MODALS: Final = ("must", "should", "have to", "need to", "are now", "will now")
_ELSEWHERE: Final = (
    *("ab sofort", "von nun an", "désormais", "dorénavant", "a partir de ahora", "a partir de agora"),
    *("d'ora in poi", "d’ora in poi", "od teraz"),
)
_WITHOUT_BLANKS: Final = (
    *(
        "с этого момента",
        "отныне",
        "从现在起",
        "從現在起",
        "从现在开始",
        "今後、",
        "これから、",
        "من الآن فصاعدا",
    ),
)
ORDERS: Final = (
    _order(
        r"\b(?:ignore|disregard|forget) (?:all |any |the |your )?(?:previous|prior|above|earlier|other)\b",
        *("ignore", "disregard", "forget"),
        after=24,
    ),
    _order(
        rf"\b(?:you|assistant|ai|agent|model|models|llm|chatbot)\b.{{0,20}}\b(?:{'|'.join(_MODALS)})\b",
        *_MODALS,
        before=32,
    ),
    _order(
        r"\b(?:do not|don['’]t|never) (?:tell|inform|mention|reveal|ask again)\b",
        *("tell", "inform", "mention", "reveal", "ask again"),
        before=8,
    ),
    _order(r"\bwhen (?:you )?summari[sz]\w{1,4}\b", "summari", before=10, after=8),
    _order(
        r"\bsystem (?:prompt|override|message|instruction)s?\b|\[system message\]"
        r"|\"role\": ?\"system\"|</?system(?:-reminder)?>",
        "system",
        before=12,
        after=16,
    ),
    _order(r"\[developer message\]|\"role\": ?\"developer\"", "developer", before=12, after=12),
    _order(
        r"\b(?:new|important|urgent) (?:instruction|rule|directive|policy|task)s?\b",
        *("instruction", "rule", "directive", "policy", "task"),
        before=12,
        after=3,
    ),
    _order(r"\bfrom now on\b", "from now on"),
    _order(
        r"\bthe user (?:has |already |has already )?(?:approved|authori[sz]ed|agreed|wants|asked"
        r"|said|granted|insists|requires)\b",
        "the user",
        after=28,
    ),
    _order(
        r"\b(?:always|immediately) (?:run|execute|call|send|delete|include|add|use|keep|report|install|treat"
        r"|answer)\b",
        *("always ", "immediately "),
        after=10,
    ),
    _order(r"\bexfiltrate", "exfiltrate"),
    _order(r"\bsend (?:it|them|this|all|the)\b.{0,40}\bto http", "to http", before=56),
    _order(
        r"\b(?:to|for) the (?:ai|assistant|model|agent|llm|summari[sz]er)\b",
        *("the ai", "the assistant", "the model", "the agent", "the llm", "the summari"),
        before=5,
        after=6,
    ),
    _order(r"\bassistant: \w|\bcould the assistant\b", "assistant", before=12, after=4),
    _order(r"\btodo\(ai\)", "todo(ai)"),
    _order(
        r"\b(?:save|add|write) (?:this )?to (?:long[- ]term )?memory\b",
        "memory",
        before=28,
    ),
    _order(r"\bi want you to\b", "i want you to"),
    _order(r"<\|im_(?:start|end)\|>", "<|im_", after=8),
    _order(r"\[/?INST\]", "inst]", before=3),
    _order(r"<</?SYS>>", "sys>>", before=4),
    _order(r"\b(?:human|user): (?:always|never|please|from now|yes\b)", *("human: ", "user: "), after=10),
    _order(r"^\s{0,8}important: \w", "important: ", before=9),
    _order(rf"\b(?:{'|'.join(_ELSEWHERE)})\b", *_ELSEWHERE),
    _order("|".join(_WITHOUT_BLANKS), *_WITHOUT_BLANKS),
)

_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f]"
)
"""Characters that take no room: between letters they hide a word from a search and not from a model."""
_ALIKE: Final = str.maketrans(
    "аеосрхіјѕԁһӏАЕОСРХІЈЅВНКМТαορυνικΑΒΕΗΙΚΜΝΟΡΤΧ", "aeocpxijsdhlAEOCPXIJSBHKMTaopuvikABEHIKMNOPTX"
)
"""Cyrillic and Greek letters that look like Latin ones."""
_MIXED: Final = re.compile(r"[A-Za-z][\u0370-\u04ff]|[\u0370-\u04ff][A-Za-z]")


def seen(text: str) -> str:
    """A text as an eye sees it.

    >>> seen("al\u200bways")
    'always'
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    return text.translate(_ALIKE) if _MIXED.search(text) else text


def commanding(text: str, most: int) -> list[str]:
    """The first lines of a text that give the model instructions."""
    text = seen(text)
    lines: list[str] = []
    end = -1
    for start, stop in sorted(_addressed(text)):
        if start > end:
            end = text.find("\n", stop)
            end = len(text) if end < 0 else end
            lines.append(text[text.rfind("\n", 0, start) + 1 : end].strip())
            if len(lines) == most:
                break
    return lines


def commands_model(line: str) -> bool:
    """Whether a line gives the model instructions."""
    return any(True for _ in _addressed(seen(line)))


def _addressed(text: str) -> Iterator[tuple[int, int]]:
    """Where a text addresses a model."""
    low = text.lower()
    if len(low) != len(text):  # a letter that is longer when small moves those behind it
        return (found.span() for order in ORDERS for found in order.pattern.finditer(text))
    return (span for order in ORDERS for span in order.spans(text, low))
