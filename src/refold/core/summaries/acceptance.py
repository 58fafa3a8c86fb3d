"""The gate no bad summary passes; a pure judge of what a summariser gave.

A verdict is a reason in words, or "" for good. What is judged here needs no model. `verdict` judges the
reply: whether it is there, complete, and an answer rather than a tool call, a refusal or a request for the
conversation. `misfit` judges the text against what it stands for: whether it goes on with the conversation
instead of telling it, repeats the question, speaks another language, or is longer than it may be. `tells`
judges whether it is about the same things at all. On doubt a summary passes. Which facts a text lacks is
counted in `facts`; whether it makes the history smaller is for the pipeline.
"""

import re
from typing import Final

from refold.core.compaction.flow import Failed, Reply
from refold.core.facts.sentences import split_sentences

_INCOMPLETE: Final = {"length", "max_tokens", "MAX_TOKENS", "incomplete", "max_output_tokens"}
_REFUSED: Final = {"refusal", "content_filter", "SAFETY", "safety", "RECITATION"}

_NO_SUMMARY: Final = re.compile(
    r"\s{0,20}(?:"
    r"(?:i['’]?m\s+sorry|i\s+am\s+sorry|sorry|apologies|unfortunately)[,.]?\s.{0,40}"
    r"\b(?:can['’]?t|cannot|unable|not able)\b"
    r"|i\s+(?:can['’]?t|cannot|am\s+unable\s+to|won['’]?t)\s+(?:help|assist|summari[sz]e|comply"
    r"|provide|do\s+that)"
    r"|(?:please|could\s+you|can\s+you)\s+(?:please\s+)?(?:provide|share|paste|send)\s.{0,40}"
    r"\b(?:conversation|transcript|messages|text)\b"
    r"|(?:there\s+is|i\s+(?:do\s+not|don['’]?t)\s+see)\s+(?:no|any|a)\s+(?:conversation|transcript)\b"
    r")",
    re.IGNORECASE,
)
"""How answers begin that are no summaries, each seen in the wild (langmem#69 kept one as its memory)."""

_TOOL_CALL_TEXT: Final = re.compile(
    r"\s{0,20}(?:<tool_call>|<function_calls>|\{\s{0,8}\"(?:name|tool|function)\"\s{0,8}:)"
)

_ACKNOWLEDGES: Final = re.compile(
    r"\W{0,20}(?:(?:ok|okay|sure|yes|yep|done|understood|noted|got it|all ?right|right|will do|thanks"
    r"|thank you|acknowledged|ready|n/?a|none|nothing|no summary)(?:\W{1,20}|$)){1,6}",
    re.IGNORECASE,
)


CALLED, WROTE_CALL = (
    "the model called a tool instead of summarising",
    "the model wrote a tool call instead of a summary",
)
GOES_ON: Final = "it goes on with the conversation instead of telling it"
MENDABLE: Final = frozenset({CALLED, WROTE_CALL, GOES_ON})
"""Verdicts that a second, clearer question may turn; the others would come again or cost as much again."""


def verdict(reply: Reply) -> str:
    """Why this reply is no summary, or "" where it may be one."""
    if isinstance(reply, Failed):
        return f"the model failed: {type(reply.error).__name__}: {reply.error}"[:300]
    if reply.calls or reply.finish in {"tool_calls", "tool_use", "function_call"}:
        return CALLED
    if reply.finish in _INCOMPLETE:
        return "the summary was cut off"
    if reply.finish in _REFUSED:
        return "the model refused"
    if not reply.text.strip():
        return "only reasoning, no summary" if reply.reasoning.strip() else "the summary was empty"
    if _TOOL_CALL_TEXT.match(reply.text):
        return WROTE_CALL
    if _ACKNOWLEDGES.fullmatch(reply.text[:200]):
        return "an acknowledgement, no summary"
    if _NO_SUMMARY.match(reply.text[:400]):
        return "the model refused or asked for the conversation"
    return ""


# -- the text against what it stands for ---------------------------------------------------------------------

_CONTINUES: Final = re.compile(
    r"\s{0,20}(?:(?:sure|certainly|of course|absolutely|great question|no problem|you['’]re welcome)[,!.]"
    r"|(?:i['’]ll|i will|let me|let['’]s) (?:go ahead|start|begin|now|continue|proceed|check|look|fix"
    r"|run|help|do)\b"
    r"|(?:hi|hello|hey|thanks|thank you)\b[^\n]{0,40}[!,]"
    r"|#?\d{0,6} ?(?:user|assistant|human|ai) ?:)",
    re.IGNORECASE,
)
"""How texts begin that go on with a conversation: they answer, greet, start to work, write a turn."""
_LEAD: Final = re.compile(r"[^\n]{0,120}\b(?:summary|memory|recap|overview|here (?:is|are))\b", re.IGNORECASE)
"""An opening line that announces a summary: what follows may be one."""

_OFFER: Final = re.compile(
    r"(?:(?:i['’]?m|i am|we are|i|we)? ?(?:so |very |really )?(?:sorry|apologi[sz]e|apologies)\b"
    r"[^.!?\n]{0,160}\bbut (?:i|we)(?:['’]ll| can| could| will| would)\b"
    r"|(?:yes|okay|ok|great|perfect)?[,!]? ?(?:i|we)(?:['’]d| would| can|['’]ll| will)"
    r" (?:be (?:happy|glad) to\b|(?:certainly |gladly |definitely )?(?:help|assist)(?: you)?\b)"
    r"|(?:how|what) (?:can|may|else can|could) (?:i|we) (?:help|assist|do)\b"
    r"|is there (?:anything|something) else\b|do you (?:want|need) (?:me to|any|anything)\b"
    r"|would you like (?:me )?to\b|(?:please )?(?:let me know|feel free|don['’]t hesitate|do not hesitate)\b"
    r"|please (?:go ahead|proceed|find (?:the|your|below|attached)|provide (?:me|us|your)|confirm your)\b"
    r"|safe travels|have a (?:great|nice|good|wonderful|safe)\b|good luck\b|enjoy your\b"
    r"|i hope (?:this|that) helps\b)",
    re.IGNORECASE,
)
"""How sentences begin that speak to a reader: offers, wishes, what to do next."""
_MEMORY: Final = re.compile(r"^(?:#{1,6} |\*\*|[-*•>|#]|\d{1,3}[.)] )", re.MULTILINE)
"""A line of a memory: a heading, a list, a quote, the number of a message. Such lines may quote anything."""
_FENCE: Final = re.compile(r"<[/\s]{0,3}(?:conversation|previous-summary)\b[^<>\n]{0,40}>", re.IGNORECASE)
_QUOTES: Final = '"“”«»„`'
_ASKS: Final = re.compile(r"(?:what|which|who|where|when|how|why)\b[^?\n]{0,120}\?", re.IGNORECASE)
_LEAST_LINE: Final = 20
"""Characters from which on a line of the question is known again."""
_STAND_IN, _ANY_WORD = "[stand-in]", "summary"
"""What a text begins with that nobody wrote, and the word that stands in for all words of a summary."""
LOOP_WORDS: Final = 400
LOOP_SHARE: Final = 0.1
"""A text of so many words has at least this share of different ones; higher turns down long lists."""

LANGUAGE_WORDS: Final = 40
"""Words that both texts need before their languages are compared; fewer say too little."""
_SAMPLE: Final = 20_000
"""Characters of each text that are looked at."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STOP: Final = {
    "English": _set("the and of to is was that for with this not are have it be on as you"),
    "German": _set("der die das und ist nicht ein eine mit auf für von zu den dem ich wir sie"),
    "French": _set("le la les et est pas un une dans pour que qui sur avec des du nous vous"),
    "Spanish": _set("el la los las y es no un una en para que con por del se como más"),
    "Italian": _set("il lo la gli e è non un una in per che con di del si come più"),
    "Portuguese": _set("o os as e é não um uma em para que com por do da se como mais"),
}
_WORD: Final = re.compile(r"[^\W\d_]+")
_SCRIPTS: Final = {
    "Chinese or Japanese": re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]"),
    "Korean": re.compile(r"[\uac00-\ud7af]"),
    "Cyrillic": re.compile(r"[\u0400-\u04ff]"),
    "Arabic": re.compile(r"[\u0600-\u06ff]"),
    "Devanagari": re.compile(r"[\u0900-\u097f]"),
    "Greek": re.compile(r"[\u0370-\u03ff]"),
    "Latin": re.compile(r"[A-Za-z\u00c0-\u024f]"),
}
_SURE: Final = 0.6
"""The share of letters, or of stop words, that makes a language sure; lower would reject on doubt."""


def misfit(
    text: str, told: str, *, tokens: int = 0, most: int | None = None, nonce: str = "", asked: str = ""
) -> str:
    """Why a text is no summary of what people said in `told`, or "" where it may be one.

    `tokens`: how long it is; `most`: how long the policy lets it be; `nonce`: the mark of the question that
    was asked; `asked`: the words of that question.
    """
    if (nonce and nonce in text) or _is_echo(text, asked):
        return "it repeats the question instead of answering it"
    if goes_on(text):
        return GOES_ON
    if _loops(text):
        return "it says the same again and again"
    if most is not None and tokens > most:
        return f"it has {tokens:,} tokens, more than the {most:,} it may have"
    said, spoken = language(text), language(told)
    if said and spoken and said != spoken:
        return f"it is written in {said}, the conversation in {spoken}"
    return ""


def goes_on(text: str) -> bool:
    """Whether a text answers, greets, starts to work or speaks to a reader instead of telling."""
    return bool(_CONTINUES.match(text[:200]) and not _LEAD.match(text[:200])) or _speaks_to_reader(text)


def is_stand_in(text: str) -> bool:
    """Whether a text only shows how long a summary would be: a plan asks nobody, so that nobody is judged."""
    lines = [line for line in text.split("\n") if not line.startswith(("#", "---"))]
    return {_STAND_IN} <= set(" ".join(lines).split()) <= {_STAND_IN, _ANY_WORD}


def stand_in(characters: int, most: int | None) -> str:
    """A text of about so many characters and at most so many words, for a summary that nobody writes."""
    words = max(8, characters // (len(_ANY_WORD) + 1))
    return f"{_STAND_IN} " + f"{_ANY_WORD} " * (words if most is None else min(words, most))


def _is_echo(text: str, asked: str) -> bool:
    """Whether a text gives back the fence or the words of the question."""
    lines = [line.strip() for line in text[:_SAMPLE].split("\n") if line.strip()]
    if any(_FENCE.fullmatch(line) for line in (lines[:1] + lines[-1:])):
        return True
    words = {line.strip() for line in asked.split("\n") if len(line.strip()) >= _LEAST_LINE}
    body = [line for line in lines if not line.startswith("#")]
    if words and body and 2 * sum(line in words for line in body) > len(body):
        return True
    told = split_sentences(text[:_SAMPLE])
    questions = [_ASKS.fullmatch(one.strip()) is not None for one in told]
    return len(told) > 1 and all(questions[:2]) and 2 * sum(questions) > len(told)


def _speaks_to_reader(text: str) -> bool:
    """Whether the first or the last sentence speaks to a reader; where it is no list and no quote."""
    if _MEMORY.search(text) or _LEAD.match(text[:200]):
        return False
    told = split_sentences(text[:_SAMPLE]) if len(text) <= _SAMPLE else split_sentences(text[:_SAMPLE])[:1]
    ends = [one.strip() for one in (*told[:1], *told[-1:])]
    return any(_OFFER.match(one) and not _is_quoted(text, one) for one in ends)


def _loops(text: str) -> bool:
    """Whether a text has few words and many times: a small model that does not find its end."""
    words = _WORD.findall(text[:_SAMPLE].lower())
    return len(words) >= LOOP_WORDS and len(set(words)) < LOOP_SHARE * len(words)


def _is_quoted(text: str, sentence: str) -> bool:
    """Whether a sentence stands in a quote that began before it."""
    before = text[: max(0, text.rfind(sentence))]
    return sum(before.count(mark) for mark in _QUOTES) % 2 == 1


def language(text: str) -> str:
    """The language or script of a text, or "" on doubt."""
    sample = text[:_SAMPLE]
    letters = {name: len(pattern.findall(sample)) for name, pattern in _SCRIPTS.items()}
    total = sum(letters.values())
    script = max(letters, key=lambda name: letters[name])
    if total < LANGUAGE_WORDS or letters[script] < _SURE * total:
        return ""
    if script != "Latin":
        return script
    words = [word.lower() for word in _WORD.findall(sample)]
    hits = {name: sum(word in stop for word in words) for name, stop in _STOP.items()}
    found = sum(hits.values())
    best = max(hits, key=lambda name: hits[name])
    sure = len(words) >= LANGUAGE_WORDS and hits[best] >= len(words) // 12 and hits[best] >= _SURE * found
    return best if sure else ""
