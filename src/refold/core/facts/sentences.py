"""What a sentence of a user is: a rule, a correction, a wish, what holds, a statement; no model asked.

Two questions are asked of a sentence. Does it *hold* beyond the moment: is it general, negated, habitual, a
demand, a condition, and not a question, a plan, a feeling or an episode? And is it *specific*: numbers,
names, times, somebody speaking of himself? The function words of several languages are known; a sentence in
another one is judged by its shape.
"""

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from refold.core.facts.words import NUMBERS, SELF, TIMES, capitals, slot, split


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


LONGEST: Final = 400
"""Characters of a sentence that are kept; people state a rule in less."""
_END: Final = re.compile(r"(?<=[.!?])[\"')\]]?\s+|\n+|(?<=[。！？])")
_SHORT: Final = ("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.", "vs.", "e.g.", "i.e.", "etc.", "No.", "approx.")
"""Words that end in a dot and end no sentence."""
_INITIALS: Final = re.compile(r"(?:^|[\s(])(?:[A-Z]\.){2,4}$")
"""Letters that stand for words, as in a country's name."""


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without the marks of lists around them.

    >>> sentences("- Ask Dr. Who. Then go.")
    ['Ask Dr. Who.', 'Then go.']
    """
    found: list[str] = []
    for piece in _END.split(text):
        if found and (found[-1].endswith(_SHORT) or _INITIALS.search(found[-1][-12:])):
            found[-1] += f" {piece.strip()}"
        else:
            found.append(piece.strip().lstrip("-*•>#").strip())
    return [piece for piece in found if len(piece) > 2]


# -- the shape of a sentence ------------------------------------------------------------------------------

_LEAD: Final = re.compile(
    r"(?:(?:hi|hello|hey|thanks|thank you|ok|okay|yes|yeah|yep|sure|great|perfect|good|nice|wow|awesome"
    r"|cool|oh"
    r"|well|so|and|but|also|btw|by the way|anyway|fyi|note|note that|remember|remember that|one more thing"
    r"|just so you know|for the record|please|pls|kindly|bitte|übrigens|por favor|s['’]il (?:te"
    r"|vous) pla[iî]t)"
    r"\b[,.:;!]? *){1,6}",
    re.IGNORECASE,
)
"""What may stand before the matter."""
_RULE: Final = re.compile(
    r"\b(?:must(?! (?:have|be|feel|say)\b| ?['’]ve)|not allowed|forbidden|banned|under no circumstances"
    r"|no (?:more|less|later|fewer|longer) than|not more|at (?:most|least)|hard rule|constraint"
    r"|required|deadline"
    r"|allergic|may only|only (?:\S{1,20} ){1,3}may|need to be|has to|have to be|off[- ]limits|by default"
    r"|from now on|going forward|stick to|whenever|nobody|no one|nothing but|not \w{1,20} but"
    r"|il faut|darf|dürfen|muss|müssen|niemals|immer|grundsätzlich|jamais|toujours|doit|doivent|nunca|siempre"
    r"|debe|deben|sempre|deve|mai|nigdy|zawsze|никогда|всегда|нельзя|должен|должна|должны|нужно)\b"
    r"|^(?:never|always|don['’]?t|do not|avoid|only|make sure|ensure|keep|use|call|write|stick|refrain|stop"
    r"|no|nothing|nobody|every|each|all|any|anything|whatever|under|without)\b"
    r"|, (?:never|not|always|and no|so no) \S|(?<!\bi )\bshould(?:n['’]t)?\b|\bonly ever\b"
    r"|不要|不能|不得|必须|必須|禁止|务必|總是|总是|一律|請勿|请勿|只能|してはいけない|必ず|しないで",
    re.IGNORECASE,
)
"""How people set rules: with a word that does nothing else, or with one that begins what they say."""
_CORRECTION: Final = re.compile(
    r"^(?:no|nope|wait|actually|correction|sorry|stop)\b[,.!:]"
    r"|\b(?:instead of|rather than|i meant|not what i|that['’]s wrong|that is wrong|changed my mind|no longer"
    r"|scratch that|on second thought|undo|revert)\b|不是|改成|違う|違います",
    re.IGNORECASE,
)
_FIRM: Final = re.compile(
    r"\b(?:prefer|my name is|call me|favou?rite|please use|i['’]d rather"
    r"|i (?:hate|love)(?! (?:the idea|that|this|it|how|your)\b))\b",
    re.IGNORECASE,
)
_PREFERENCE: Final = re.compile(
    r"\b(?:prefer|favou?rite|i['’]d rather|we use|please use"
    r"|i (?:really )?(?:like|love|hate|dislike)(?! (?:the idea|that|this|it|how|your)\b)"
    r"|my name is|call me|i am called|i go by|ich heiße|je m['’]appelle|me llamo)\b|我叫|喜欢",
    re.IGNORECASE,
)
_TRIGGERS: Final = _set(
    "must allowed forbidden banned circumstances than more most least rule constraint required "
    "deadline allergic "
    "may need has have off limits default now forward stick whenever nobody one nothing but should shouldn't "
    "never always don't dont do avoid only make ensure keep use call write refrain stop no every each "
    "all any "
    "anything whatever under without not nope wait actually correction sorry instead rather meant "
    "that's that "
    "changed longer scratch second undo revert prefer favourite favorite like love hate dislike name "
    "called go "
    "faut darf muss niemals immer jamais toujours doit doivent nunca siempre debe deben sempre deve "
    "mai nigdy "
    "zawsze m'appelle llamo"
)
"""Without one of these no sentence in plain letters is a rule, a correction or a preference; saves time."""
_FEELS: Final = _set(
    "glad happy excited sorry sure unsure afraid thrilled grateful thankful curious interested wondering "
    "looking trying thinking planning considering hoping going ready done impressed proud amazed surprised "
    "leaning struggling having getting starting about idea concerned"
)
_WANTS: Final = _set(
    "want wanted need needed plan think thought guess hope see know knew understand appreciate feel felt "
    "mean believe wonder wish would'd just also really will had did was were went got saw found made took "
    "have'd"
)
_I: Final = _set("i we ich wir je nous yo я мы")
_IM: Final = _set("i'm we're")
_PLANS: Final = _set("i'll i'd i've we'll we'd we've let's let i'ma")
_POINTS: Final = _set("this that those it that's there here das dies ça eso")
_OWNERS: Final = _set("he she they him her them his its their")
"""What points back where it begins a sentence; later it points to what stands before it there."""
_HEDGES: Final = _set("might maybe probably perhaps could hopefully eventually someday guess")
_AGREED: Final = _set("decided agreed settled chose committed")
_MANNERS: Final = _set("leave go spell put mark stay bring send")
"""Demands that are about how things are done more often than about one thing to do."""
_ASKED: Final = (", please.", ", please", ", bitte.", ", por favor.", ", per favore.", " pls")
"""How a demand ends."""
_CODE: Final = re.compile(
    r"[%/\\{}<>|=;@+~(]|[a-z_][^\s(]{0,60}\(|[a-z](?=[^\n]{0,200}(?:[\w\])]\(|\w\[['\"]|\w\.\w+[.(\[]|[;{}]$))"
    r"|(?:which|that|because|and|or|but|so|than) "
)
"""How a line begins or looks that was pasted, not said: a piece of code, or of a sentence."""
_PAST: Final = _set(
    "was were had did went got bought saw met took made came said told gave found lost won ran began ago "
    "yesterday thought knew felt been earlier"
)
_TELLS: Final = _PAST | _set("is are has have")
_GENERAL: Final = _set(
    "any anything everything every each all nobody nothing none no whenever if when unless until while "
    "whoever whichever always usually throughout everywhere default generally normally only without "
    "never both "
    "per otherwise anyone everyone must should may limit maximum minimum "
    "immer nur ohne alle alles jede jeder jedes kein keine keinen nie nicht wenn sobald grundsätzlich "
    "muss soll "
    "pas aucun aucune jamais toujours sans tous toutes chaque seulement doit si ne "
    "nunca siempre solo sólo sin todos todas cada ningún ninguna debe non sempre mai senza tutti ogni não só "
    "не нет только всегда никогда все каждый"
)
_NEGATES: Final = _set(
    "not no never don't doesn't isn't aren't can't cannot won't shouldn't nothing nobody none without avoid "
    "nicht kein keine keinen nie niemals ohne pas jamais aucun aucune sans nunca sin não non senza не "
    "нет нельзя"
)
_ABLE: Final = _set("can can't cannot may should shouldn't must needs has have fine okay allowed supposed")
_HABITS: Final = _set(
    "mondays tuesdays wednesdays thursdays fridays saturdays sundays weekdays weekends daily weekly monthly "
    "yearly annually mornings afternoons evenings nowadays anymore"
)
_ASKS: Final = _set(
    "can could would will do does did what when where why how which who is are any may thank thanks"
)
_BE: Final = _set("is are be being get gets not always never it's that's isn't aren't")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CJK_GENERAL: Final = re.compile(r"[不没別别勿只必都每总總仅请請須须]|ない|ください|だけ|いつも")
_MARKED: Final = re.compile(r"[A-Z]\d|\d[A-Z]|\w[_@]\w")
"""Ids, addresses of mail: what answers a question of the moment."""
_HOLDS: Final = 1.0
"""From here on a sentence holds beyond the moment."""
_WEIGHTS: Final = {
    "correction": 4.5,
    "constraint": 4.5,
    "preference": 3.6,
    "standing": 3.3,
    "statement": 2.6,
    "request": 1.5,
}


@lru_cache(maxsize=4_096)
def judged(sentence: str) -> tuple[str, float]:
    """What a user's sentence is, and how much it weighs: its kind, whether it holds, how specific it is.

    >>> judged("Never deploy on a Friday.")[0]
    'constraint'
    """
    said = _LEAD.sub("", sentence[:LONGEST], count=1) if _LEAD.match(sentence) else sentence[:LONGEST]
    if not said:
        return "request", 0.5
    words = split(said)
    holds = _holds(said, words)
    kind = _kind(sentence, said, words, holds)
    weight = _WEIGHTS[kind] - len(sentence) / 1_000
    if kind in {"statement", "request"}:
        return kind, weight + min(0.6, 0.25 * _specific(said, words))
    if kind == "standing":
        return kind, weight + min(0.65, 0.2 * (holds - _HOLDS) + 0.1 * _specific(said, words))
    firm = kind == "preference" and _FIRM.search(said) is not None
    return kind, weight + 0.9 * firm + max(-0.45, min(0.5, 0.2 * (holds - _HOLDS)))


def _kind(sentence: str, said: str, words: list[str], holds: float) -> str:
    asks = sentence.endswith(("?", "？"))
    marked = not sentence.isascii() or not _TRIGGERS.isdisjoint(words)
    if marked and _CORRECTION.search(said):
        return "correction"
    if marked and not asks and holds > 0 and _RULE.search(said):
        return "constraint"
    if marked and not asks and words[:1] != ["i'll"] and _PREFERENCE.search(said):
        return "preference"
    if not asks and holds >= _HOLDS:
        return "standing"
    asks = asks or not _ASKS.isdisjoint(words[:1])
    speaks = not SELF.isdisjoint(words) or "我" in said
    tells = _is_past(words) or not _TELLS.isdisjoint(words[1:6])
    return "statement" if (speaks or tells) and not asks else "request"


def _specific(said: str, words: list[str]) -> float:
    """How much is in a sentence that cannot be guessed."""
    number = not NUMBERS.isdisjoint(words) or any(word[0].isdigit() for word in words)
    names = min(3, len(capitals(said)))
    return number + 0.5 * names + 0.5 * (not TIMES.isdisjoint(words)) + 0.5 * (not SELF.isdisjoint(words))


def _holds(said: str, words: list[str]) -> float:
    """How likely a sentence holds beyond the moment; below zero for what is asked, planned, felt, or told."""
    if said.endswith(("?", "？")):
        return -3.0
    if _CJK.search(said):
        return 1.0 + 0.5 * len(_CJK_GENERAL.findall(said)[:3])
    if len(words) < 2:
        return -2.0
    if words[0] in _I and not _AGREED.isdisjoint(words[1:3]):
        return 1.2
    first, there = words[0], frozenset(words)
    score = 0.5 * min(2, len(there & _GENERAL)) + 0.5 * (not there.isdisjoint(_NEGATES))
    score += 0.4 * (not there.isdisjoint(_ABLE)) + 0.5 * (not there.isdisjoint(_HABITS))
    score += (
        0.6 * said.endswith(_ASKED)
        + _subject(said, words)
        - 0.3 * (said[0].islower() or not said.endswith((".", "!", "。")))
    )
    score -= 1.2 * (not there.isdisjoint(_PAST) or _is_past(words)) + 0.5 * said.endswith("!")
    score -= 0.5 * (not there.isdisjoint(_POINTS) or not _OWNERS.isdisjoint(words[:3])) + 0.8 * (
        not there.isdisjoint(_PLANS)
    )
    score -= (
        0.5 * (not there.isdisjoint(_HEDGES))
        + 2.0 * (_CODE.match(said) is not None)
        + 0.8 * (first == "here's")
    )
    score -= 1.0 * _intends(words)
    score -= 0.7 * (_MARKED.search(said) is not None and not slot(said)) + 0.5 * (len(said) > 160)
    return score


def _is_past(words: list[str]) -> bool:
    """Whether an early verb looks like the past, and is no passive; later only one right behind a person."""
    return any(
        word.endswith("ed") and len(word) > 4 and (before not in _BE if place < 3 else before in _DOERS)
        for place, (before, word) in enumerate(pairwise(words[:10]))
    )


_DOERS: Final = _set("i we he she they recently just finally")


def _intends(words: list[str]) -> bool:
    """Whether somebody speaks of his plans or feelings behind a few words of another kind."""
    return any(
        (word in _IM and not _FEELS.isdisjoint(words[at + 1 : at + 4]))
        or (word in _I and not _WANTS.isdisjoint(words[at + 1 : at + 3]))
        for at, word in enumerate(words[1:6], start=1)
    )


def _subject(said: str, words: list[str]) -> float:
    """What the beginning tells: a person's plan or feeling, a pointer back, or a matter of its own."""
    first = words[0]
    if first in _PLANS or (first in _IM and not _FEELS.isdisjoint(words[1:3])):
        return -1.5
    if first in _I and (not _WANTS.isdisjoint(words[1:3]) or not _FEELS.isdisjoint(words[1:4])):
        return -1.5
    if first == "you" or first in {"it's", "it"}:
        return 1.0 if not _ABLE.isdisjoint(words[1:2]) else -0.5
    if first in {"when", "where"} and "," in said:
        return 1.0
    if first in _MANNERS:
        return 1.3
    if first in _POINTS or first in _ASKS or first in {"your", "you're"}:
        return -0.5
    if first in _I or first in _IM:
        return 0.7
    return 1.0
