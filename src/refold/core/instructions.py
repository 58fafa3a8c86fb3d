"""Lines that address whoever reads them with a model's eyes: found so that they are quoted, never followed.

Letters are looked at as an eye sees them: unseen characters are left out, wide letters and letters of other
scripts that look Latin are read as Latin ones.
"""

import re
import unicodedata
from typing import Final

_COMMANDS_MODEL: Final = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all |any |the |your )?(?:previous|prior|above|earlier|other)\b"
    r"|\b(?:you|assistant|ai|agent|model|models|llm|chatbot)\b.{0,20}\b(?:must|should|have to|need to"
    r"|are now|will now)\b"
    r"|\b(?:do not|don['’]t|never) (?:tell|inform|mention|reveal|ask again)\b"
    r"|\bwhen (?:you )?summari[sz]\w{1,4}\b|\bsystem (?:prompt|override|message|instruction)s?\b"
    r"|\b(?:new|important|urgent) (?:instruction|rule|directive|policy|task)s?\b"
    r"|\bfrom now on\b|\bthe user (?:has |already |has already )?(?:approved|authori[sz]ed|agreed|wants|asked"
    r"|said|granted|insists|requires)\b"
    r"|\b(?:always|immediately) (?:run|execute|call|send|delete|include|add|use|keep|report|install|treat"
    r"|answer)\b"
    r"|\b(?:exfiltrate|send (?:it|them|this|all|the)\b.{0,40}\bto http)"
    r"|\b(?:to|for) the (?:ai|assistant|model|agent|llm|summari[sz]er)\b|\bassistant: \w|\btodo\(ai\)"
    r"|\b(?:save|add|write) (?:this )?to (?:long[- ]term )?memory\b|\bi want you to\b"
    r"|\bcould the assistant\b|\[(?:developer|system) message\]|<\|im_(?:start|end)\|>|\[/?INST\]|<</?SYS>>"
    r"|\b(?:human|user): (?:always|never|please|from now|yes\b)|^\s{0,8}important: \w"
    r"|\"role\": ?\"(?:system|developer)\"|</?(?:system|system-reminder)>"
    r"|\b(?:ab sofort|von nun an|désormais|dorénavant|a partir de ahora|d['’]ora in poi|a partir de agora"
    r"|od teraz)\b|с этого момента|отныне|从现在起|從現在起|从现在开始|今後、|これから、|من الآن فصاعدا",
    re.IGNORECASE | re.MULTILINE,
)
"""How text addresses a model; it only leads to quotes, so a false alarm costs nothing."""


_HINTS: Final = (
    *("ignore", "disregard", "forget", "must", "should", "have to", "need to", "are now", "will now"),
    *("tell", "inform", "mention", "reveal", "summari", "system", "instruction", "rule", "directive"),
    *("policy", "task", "policies", "from now on", "the user", "always ", "immediately ", "exfiltrate"),
    *(
        "to http",
        "the ai",
        "assistant",
        "the model",
        "the agent",
        "the llm",
        "todo(ai)",
        "memory",
        "want you",
    ),
    *("developer", "im_start", "im_end", "inst]", "<<sys", "human:", "user:", "important", "ask again"),
    *("ab sofort", "von nun", "sormais", "dorénavant", "partir de a", "ora in poi", "od teraz", "с этого"),
    *("отныне", "从现在", "從現在", "今後、", "これから、", "من الآن"),
)
"""Without one of these there is no such line; saves time."""

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
    lines: list[str] = []
    text = seen(text)
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return lines
    end = -1
    for found in _COMMANDS_MODEL.finditer(text):
        if found.start() > end:
            end = text.find("\n", found.end())
            end = len(text) if end < 0 else end
            lines.append(text[text.rfind("\n", 0, found.start()) + 1 : end].strip())
            if len(lines) == most:
                break
    return lines


def commands_model(line: str) -> bool:
    """Whether a line gives the model instructions."""
    return _COMMANDS_MODEL.search(seen(line)) is not None
