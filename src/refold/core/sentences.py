"""What a sentence of a user or of a model is: a rule, a correction, a wish, a statement; no model asked.

Words of several languages are known; a sentence in another one is a statement or a request, and ranks by
what is specific in it: numbers, names, times, and that somebody speaks of himself.
"""

import re
from typing import Final

LONGEST: Final = 400
"""Characters of a sentence that are kept; people state a rule in less."""
_END: Final = re.compile(r"(?<=[.!?])[\"')\]]?\s+|\n+|(?<=[。！？])")

_RULE: Final = re.compile(
    r"\b(?:must|never|always|don['’]?t|do not|not allowed|forbidden|only|avoid|make sure|ensure|required?"
    r"|at most|at least|no more than|under no circumstances|remember|should(?:n['’]t)?|hard rule|constraint"
    r"|deadline|budget|allergic|nie|niemals|immer|darf|muss|nicht|jamais|toujours|il faut|nunca|siempre|debe"
    r"|mai|sempre|deve|никогда|всегда|нельзя|должен|должна|нужно)\b|不要|必须|必須|禁止|不能|务必|总是|請勿|してはいけない|必ず",
    re.IGNORECASE,
)
_CORRECTION: Final = re.compile(
    r"^(?:no|nope|wait|actually|correction|sorry|stop)\b[,.!: ]"
    r"|\b(?:instead of|rather than|i meant|not what i|that['’]s wrong|that is wrong|changed my mind|no longer"
    r"|scratch that|on second thought|undo|revert)\b|不是|改成|違う|違います",
    re.IGNORECASE,
)
_PREFERENCE: Final = re.compile(
    r"\b(?:prefer|rather|favou?rite|i (?:really )?(?:like|love|hate|dislike|want)|i['’]d like|we use|please use"
    r"|my name is|call me|i am called|ich heiße|je m['’]appelle|me llamo)\b|我叫|喜欢",
    re.IGNORECASE,
)
_SELF: Final = re.compile(
    r"\b(?:i|i['’](?:m|ve|d|ll)|my|mine|me|we|our|us|ich|mein\w{0,2}|wir|je|mon|ma|nous|yo|mi|io|я|мой|мы)\b|我",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|dozen|half|couple"
    r"|first|second|third)\b",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?<=[\w,;:'’\"(-] )[\"'(]?[A-Z][\w'’-]+")
"""A capital that does not begin the sentence."""
_TIME: Final = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|ago|last|next|since|recent(?:ly)?|just|currently|now|week(?:s|end)?"
    r"|months?|years?|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|june|july|august"
    r"|september|october|november|december|morning|evening|birthday|anniversary)\b",
    re.IGNORECASE,
)
_DONE: Final = re.compile(
    r"\b(?:bought|got|went|started|finished|completed|attended|took|made|moved|joined|visited|saw|met|read"
    r"|played|spent|paid|ordered|received|tried|signed|booked|found|lost|won|ran|learned|planned|working|been"
    r"|have|had|was|were|am|live|work|need|use)\b",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"^(?:can|could|would|will|do|does|did|what|when|where|why|how|which|who|is|are|any|please|thanks?|ok(?:ay)?)\b",
    re.IGNORECASE,
)
_DECIDES: Final = re.compile(
    r"\b(?:decided|decision|we(?:['’]ll| will) (?:go with|use)|let['’]s (?:use|go with)|going with|chose|settled on"
    r"|agreed|root cause|the (?:fix|solution|reason|problem|issue|bug) (?:is|was)|turns out|confirmed)\b",
    re.IGNORECASE,
)
_PROMISES: Final = re.compile(
    r"\bi(?:['’]ll| will| promise)\b.{0,120}\b(?:later|once|after|when|remind|get back|follow up|as soon as|before|tomorrow)\b",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without the marks of lists around them."""
    found = (piece.strip().lstrip("-*•>#").strip() for piece in _END.split(text))
    return [piece for piece in found if len(piece) > 2]


def kind_of(sentence: str) -> str:
    """What a user's sentence is: correction, constraint, preference, statement or request."""
    if _CORRECTION.search(sentence):
        return "correction"
    if _RULE.search(sentence) and not sentence.endswith(("?", "？")):
        return "constraint"
    if _PREFERENCE.search(sentence):
        return "preference"
    asks = sentence.endswith(("?", "？")) or _ASKS.match(sentence) is not None
    return "request" if asks or not _SELF.search(sentence) else "statement"


_WEIGHTS: Final = {"correction": 4.5, "constraint": 5.0, "preference": 4.0, "statement": 3.0, "request": 1.5}


def weight_of(sentence: str, kind: str) -> float:
    """How much a user's sentence weighs: what it is, and how specific it is for its length."""
    about_self = _SELF.search(sentence) is not None
    specific = 0.7 * bool(_NUMBER.search(sentence)) + 0.35 * min(3, len(_NAME.findall(sentence)))
    specific += 0.4 * bool(_TIME.search(sentence)) + 0.3 * bool(_DONE.search(sentence))
    return _WEIGHTS[kind] + specific * (1.0 if about_self else 0.4) - len(sentence) / 1_000


def decides(sentence: str) -> bool:
    """Whether a sentence tells a decision or a finding."""
    return _DECIDES.search(sentence) is not None


def promises(sentence: str) -> bool:
    """Whether a model promises something for later."""
    return _PROMISES.search(sentence) is not None


_COMMANDS_MODEL: Final = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all |any |the |your )?(?:previous|prior|above|earlier|other)\b"
    r"|\b(?:you|assistant|ai|agent|model|llm|chatbot)\b.{0,20}\b(?:must|should|have to|need to|are now|will now)\b"
    r"|\b(?:do not|don['’]t|never) (?:tell|inform|mention|reveal)\b"
    r"|\bwhen (?:you )?summari[sz]\w{1,4}\b|\bsystem (?:prompt|override|message|instruction)s?\b"
    r"|\b(?:new|important|urgent) (?:instruction|rule|directive|policy|task)s?\b"
    r"|\bfrom now on\b|\bthe user (?:has |already )?(?:approved|authori[sz]ed|agreed|wants|asked|said|granted)\b"
    r"|\b(?:always|immediately) (?:run|execute|call|send|delete|include|add|use)\b"
    r"|\b(?:exfiltrate|send (?:it|them|this|all|the)\b.{0,40}\bto http)",
    re.IGNORECASE,
)
"""How text addresses whoever reads it with a model's eyes; only quotes, so a false alarm costs nothing."""


def commands_model(line: str) -> bool:
    """Whether a line of a tool's output gives the model instructions."""
    return _COMMANDS_MODEL.search(line) is not None
