"""What a sentence of a user or of a model is: a rule, a correction, a wish, a statement; no model asked.

Words of several languages are known; a sentence in another one is a statement or a request, and ranks by
what is specific in it: numbers, names, times, and that somebody speaks of himself.
"""

import re
from typing import Final


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


LONGEST: Final = 400
"""Characters of a sentence that are kept; people state a rule in less."""
_END: Final = re.compile(r"(?<=[.!?])[\"')\]]?\s+|\n+|(?<=[。！？])")

_RULE: Final = re.compile(
    r"\b(?:must|not allowed|forbidden|under no circumstances|no more than|not more|at most|hard rule"
    r"|constraint|required"
    r"|deadline|budget|allergic|may only|only (?:\S{1,20} ){1,3}may|il faut|darf|muss|niemals|immer"
    r"|jamais|toujours|nunca"
    r"|siempre|debe|sempre|deve|никогда|всегда|нельзя|должен|должна|нужно)\b"
    r"|(?:^|[,;:.] |\b(?:please|and|but|so|to|you|rule|the way) )"
    r"(?:never|always|don['’]?t|do not|avoid|only|make sure|ensure|keep|use|remember|call|write"
    r"|should(?:n['’]t)?|no) "
    r"|, never |不要|必须|必須|禁止|不能|务必|总是|請勿|してはいけない|必ず",
    re.IGNORECASE,
)
"""How people set rules: with a word that does nothing else, or with one that begins what they say."""
_CORRECTION: Final = re.compile(
    r"^(?:no|nope|wait|actually|correction|sorry|stop)\b[,.!: ]"
    r"|\b(?:instead of|rather than|i meant|not what i|that['’]s wrong|that is wrong|changed my mind|no longer"
    r"|scratch that|on second thought|undo|revert)\b|不是|改成|違う|違います",
    re.IGNORECASE,
)
_FIRM: Final = re.compile(r"\b(?:prefer|my name is|call me|favou?rite|please use|i hate)\b", re.IGNORECASE)
_PREFERENCE: Final = re.compile(
    r"\b(?:prefer|rather|favou?rite|i (?:really )?(?:like|love|hate|dislike|want)|i['’]d like|we use"
    r"|please use"
    r"|my name is|call me|i am called|ich heiße|je m['’]appelle|me llamo)\b|我叫|喜欢",
    re.IGNORECASE,
)
_WEAK: Final = re.compile(
    r"\b(?:i|we) (?:don['’]?t|do not|should|must)\b|\bdon['’]?t (?:know|think|have|see|mind|worry)\b",
    re.IGNORECASE,
)
"""Somebody speaks of what he does not do or know: that sets no rule."""
_ASIDES: Final = frozenset({"btw", "also", "actually"})
_SELF: Final = _set(
    "i i'm i've i'd i'll my mine me we our us ich mein meine wir je mon ma nous yo mi io я мой мы"
)
_NUMBERS: Final = _set(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty dozen half couple "
    "first second third"
)
_NAME: Final = re.compile(r"(?<=[\w,;:'’\"(-] )[\"'(]?[A-Z][\w'’-]+")
"""A capital that does not begin the sentence."""
_TIMES: Final = _set(
    "yesterday today tomorrow tonight ago last next since recent recently just currently now week "
    "weeks weekend month months year years monday tuesday wednesday thursday friday saturday sunday "
    "mondays fridays january february march april june july august september october november "
    "december morning evening birthday anniversary"
)
_DONE: Final = _set(
    "bought got went started finished completed attended took made moved joined visited saw met read "
    "played spent paid ordered received tried signed booked found lost won ran learned planned "
    "working been have had was were am live work need use"
)
_ASKS: Final = _set(
    "can could would will do does did what when where why how which who is are any please thank "
    "thanks ok okay"
)
_TRIGGERS: Final = _set(
    "must allowed forbidden circumstances more most rule constraint required deadline budget allergic "
    "may never always don't dont do avoid only make ensure keep use remember call write should "
    "shouldn't no nope wait actually correction sorry stop instead rather meant not that's wrong "
    "changed longer scratch thought undo revert prefer favourite favorite like love hate dislike want "
    "name called heiße m'appelle llamo faut darf muss niemals immer jamais toujours nunca siempre "
    "debe sempre deve никогда всегда нельзя должен должна нужно i'd"
)
"""Without one of these no sentence in these scripts is a rule, a correction or a preference; saves time."""
_WORDS: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def _words(sentence: str) -> list[str]:
    return _WORDS.findall(sentence.lower().replace("’", "'"))


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


_SHORT: Final = ("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.", "vs.", "e.g.", "i.e.", "etc.", "No.", "approx.")
"""Words that end in a dot and end no sentence."""


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without the marks of lists around them.

    >>> sentences("- Ask Dr. Who. Then go.")
    ['Ask Dr. Who.', 'Then go.']
    """
    found: list[str] = []
    for piece in _END.split(text):
        if found and found[-1].endswith(_SHORT):
            found[-1] += f" {piece.strip()}"
        else:
            found.append(piece.strip().lstrip("-*•>#").strip())
    return [piece for piece in found if len(piece) > 2]


_WEIGHTS: Final = {"correction": 4.5, "constraint": 5.0, "preference": 3.3, "statement": 3.0, "request": 1.5}


def judged(sentence: str) -> tuple[str, float]:
    """What a user's sentence is, and how much it weighs: its kind, and how specific it is for its length.

    >>> judged("Never deploy on a Friday.")[0]
    'constraint'
    """
    words = _words(sentence)
    kind = _kind(sentence, words)
    number = not _NUMBERS.isdisjoint(words) or any(word[0].isdigit() for word in words)
    specific = 0.7 * number + 0.35 * min(3, len(_NAME.findall(sentence)))
    specific += 0.4 * (not _ASIDES.isdisjoint(words) or "y the way" in sentence)
    specific += 0.4 * (not _TIMES.isdisjoint(words)) + 0.3 * (not _DONE.isdisjoint(words))
    if kind in {"correction", "constraint", "preference"}:
        specific /= 2
        specific += 1.2 * (kind == "preference" and _FIRM.search(sentence) is not None)
    about_self = not _SELF.isdisjoint(words) or "我" in sentence
    return kind, _WEIGHTS[kind] + specific * (1.0 if about_self else 0.4) - len(sentence) / 1_000


def _kind(sentence: str, words: list[str]) -> str:
    asks = sentence.endswith(("?", "？"))
    if not sentence.isascii() or not _TRIGGERS.isdisjoint(words):
        if _CORRECTION.search(sentence):
            return "correction"
        if not asks and _RULE.search(sentence) and not _WEAK.search(sentence):
            return "constraint"
        if _PREFERENCE.search(sentence):
            return "preference"
    asks = asks or not _ASKS.isdisjoint(words[:1])
    speaks = not _SELF.isdisjoint(words) or "我" in sentence
    return "statement" if speaks and not asks else "request"


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


_COMMANDS_MODEL: Final = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all |any |the |your )?(?:previous|prior|above|earlier|other)\b"
    r"|\b(?:you|assistant|ai|agent|model|llm|chatbot)\b.{0,20}\b(?:must|should|have to|need to"
    r"|are now|will now)\b"
    r"|\b(?:do not|don['’]t|never) (?:tell|inform|mention|reveal)\b"
    r"|\bwhen (?:you )?summari[sz]\w{1,4}\b|\bsystem (?:prompt|override|message|instruction)s?\b"
    r"|\b(?:new|important|urgent) (?:instruction|rule|directive|policy|task)s?\b"
    r"|\bfrom now on\b|\bthe user (?:has |already )?(?:approved|authori[sz]ed|agreed|wants|asked|said"
    r"|granted)\b"
    r"|\b(?:always|immediately) (?:run|execute|call|send|delete|include|add|use)\b"
    r"|\b(?:exfiltrate|send (?:it|them|this|all|the)\b.{0,40}\bto http)",
    re.IGNORECASE,
)
"""How text addresses whoever reads it with a model's eyes; only quotes, so a false alarm costs nothing."""


_HINTS: Final = (
    *("ignore", "disregard", "forget", "must", "should", "have to", "need to", "are now", "will now"),
    *("tell", "inform", "mention", "reveal", "summari", "system ", "instruction", "rule", "directive"),
    *("policy", "task", "policies", "from now on", "the user", "always ", "immediately ", "exfiltrate"),
    "to http",
)
"""Without one of these there is no such line; saves time."""


def commanding(text: str, most: int) -> list[str]:
    """The first lines of a text that give the model instructions."""
    lines: list[str] = []
    end = -1
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return lines
    for found in _COMMANDS_MODEL.finditer(text):
        if found.start() > end:
            end = text.find("\n", found.end())
            end = len(text) if end < 0 else end
            lines.append(text[text.rfind("\n", 0, found.start()) + 1 : end].strip())
            if len(lines) == most:
                break
    return lines


def commands_model(line: str) -> bool:
    """Whether a line of a tool's output gives the model instructions."""
    return _COMMANDS_MODEL.search(line) is not None
