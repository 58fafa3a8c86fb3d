"""The words of a sentence: which of them tell something, how rare they are, and a sentence in brief."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")

SELF: Final = _set(
    "i i'm i've i'd i'll my mine me myself we we're we've we'll our ours us ich mein meine meinen wir unser "
    "unsere je mon ma mes nous notre nos yo mi mis nuestro io mio я мой моя мы наш"
)
NUMBERS: Final = _set(
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty "
    "hundred "
    "dozen half couple first second third once twice"
)
TIMES: Final = _set(
    "yesterday today tomorrow tonight ago last next since recent recently currently week weeks weekend month "
    "months year years monday tuesday wednesday thursday friday saturday sunday january february march april "
    "june july august september october november december morning evening birthday anniversary summer winter "
    "spring autumn fall"
)
COMMON: Final = _set(
    "a an the and or but nor so yet of to in on at for with by from into onto over under about as than then "
    "is are was were be been being am do does did done have has had having will would shall should can could "
    "may might must not no it its it's this that these those there here he she they them his her their who "
    "whom which what when where why how i i'm i've i'd i'll me my mine myself we us our ours you your yours "
    "you're you've really very just quite pretty too also well much more most some any all such only "
    "own same "
    "if because while though although until up down out off again once let let's get got go going went come "
    "like think know want need see say said make made take took thing things something anything everything "
    "lot lots kind sort bit way good great nice awesome amazing cool love glad happy sure thanks thank "
    "please "
    "yes yeah yep ok okay oh wow hey hi hello sounds definitely absolutely actually maybe probably don't "
    "didn't doesn't isn't can't that's there's he's she's they're what's"
)
"""Words that tell next to nothing by themselves."""


_SLOT: Final = re.compile(
    r"\W*(?:\w+, )?(?:my|our) ([\w ]{2,40}?) is (?:now )?[\w@./#-]{2,60}[.!]?", re.IGNORECASE
)


def slot(sentence: str) -> str:
    """What a sentence gives a value to, in small letters; "" where it does no such thing.

    >>> slot("My booking code is QX7T2P.")
    'booking code'
    """
    found = _SLOT.fullmatch(sentence[:120])
    return found[1].lower() if found else ""


def split(sentence: str) -> list[str]:
    """The words of a sentence in small letters."""
    return _WORDS.findall(sentence.lower().replace("’", "'"))


def telling(sentence: str) -> list[str]:
    """The words that tell something, each once; of scripts without spaces pairs of letters."""
    words = [word for word in split(sentence) if word not in COMMON and (len(word) > 2 or word[0].isdigit())]
    for run in _CJK.findall(sentence):
        words += [run[at : at + 2] for at in range(len(run) - 1)]
    return list(dict.fromkeys(words))


_CAPITAL: Final = re.compile(r"(?<=[\w,;:'’\"(-] )[\"'(]?([A-Z][\w'’-]+)")


def capitals(sentence: str) -> list[str]:
    """The words with a capital that does not begin the sentence."""
    return _CAPITAL.findall(sentence)


def spread(sentences: Iterable[list[str]]) -> Counter[str]:
    """In how many sentences each word stands."""
    return Counter(word for words in sentences for word in words)


_LEAD: Final = re.compile(
    r"(?:(?:by the way|btw|anyway|actually|also|and|but|so|well|oh|yeah|yes|sure|thanks|thank you|great"
    r"|wow|hey|hi"
    r"|i (?:think|guess|believe|mean|feel like|must say|just realized|remember)(?: that)?"
    r"|speaking of (?:which|that)|i was wondering if|i'm wondering if|i'm thinking (?:of|about)"
    r"|i'm looking for"
    r"|i'm trying to|that's (?:great|awesome|cool|nice)|as (?:i|we) (?:mentioned"
    r"|discussed)(?: earlier)?)\b[,.!:]? *)"
    r"{1,4}",
    re.IGNORECASE,
)
_FILLER: Final = re.compile(
    r"\b(?:a|an|the|i|i['’]m|i['’]ve|i['’]d|i['’]ll|it['’]s|that['’]s|me|myself|really|very|just|so"
    r"|quite|pretty"
    r"|actually|basically|definitely|totally|absolutely|super|literally|kind of|sort of|a bit|a lot of"
    r"|also) ",
    re.IGNORECASE,
)


def brief(sentence: str) -> str:
    """A sentence without its lead-in, its articles and its hedges; the other words stay as they were.

    >>> brief("By the way, I just added 25 new postcards to my collection.")
    'added 25 new postcards to my collection'
    """
    short = _LEAD.sub("", sentence, count=1) if _LEAD.match(sentence) else sentence
    return _FILLER.sub("", short).strip().rstrip(".") or sentence
