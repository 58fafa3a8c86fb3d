"""Decides whether a summariser's answer is accepted as a summary. Pure: it asks no model.

Each function gives a reason in words, or "" for good. `reject_reply` judges the reply: whether it is
complete, and an answer rather than a tool call, a refusal or a request for the conversation. `reject_text`
judges the text against what it stands for: whether it continues the conversation instead of summarising it,
repeats the question, is in another language, or is too long; `reject_copy` whether it copies it.
`reject_thin` asks for more the more a text stands for: a word or an empty phrase is no summary of a thousand
tokens. On doubt a summary passes. Facts that a text lacks are counted in `facts`; whether it makes the
history smaller is checked by the pipeline.
"""

import re
from collections.abc import Iterable
from functools import cache, partial
from math import log2
from typing import Final

from refold.core.compaction.flow import Failed, Reply
from refold.core.facts.sentences import split_sentences
from refold.core.facts.words import compile_patterns, read_patterns
from refold.core.summaries.tidy import NO_PROSE, mark_code
from refold.patterns import read_pattern

_INCOMPLETE: Final = {"length", "max_tokens", "MAX_TOKENS", "incomplete", "max_output_tokens"}
_REFUSED: Final = {"refusal", "content_filter", "SAFETY", "safety", "RECITATION"}
_TOOL_CALLS: Final = {"tool_calls", "tool_use", "function_call"}
"""Words of the providers for how an answer ended."""

_TOOL_CALL_TEXT: Final = read_pattern(__package__, "tool_call_text")
CALLED, WROTE_CALL = (
    "the model called a tool instead of summarising",
    "the model wrote a tool call instead of a summary",
)
GOES_ON: Final = "it goes on with the conversation instead of telling it"
WORTH_RETRY: Final = frozenset({CALLED, WROTE_CALL, GOES_ON})
"""Reasons that a second, clearer question may remove; the others would come again or cost as much again."""

_compile = partial(compile_patterns, room="summaries")


def reject_reply(reply: Reply) -> str:
    """Return why this reply is no summary; "" if it may be one."""
    if isinstance(reply, Failed):
        return f"the model failed: {reply.reason}"[:300]
    if reply.calls or reply.finish in _TOOL_CALLS:
        return CALLED
    if reply.finish in _INCOMPLETE:
        return "the summary was cut off"
    if reply.finish in _REFUSED:
        return "the model refused"
    if not reply.text.strip():
        return "only reasoning, no summary" if reply.reasoning.strip() else "the summary was empty"
    if _TOOL_CALL_TEXT.match(reply.text):
        return WROTE_CALL
    lines = (line.strip() for line in reply.text[:_SAMPLE].split("\n"))
    if not any(_ANY_LETTER.search(line) for line in lines if not line.endswith(":")):
        return "the summary has no words"
    acknowledges = _compile(r"\W{{0,20}}(?:(?:{})(?:\W{{1,20}}|$)){{1,6}}", "acknowledgements")
    if acknowledges.fullmatch(reply.text[:200]):
        return "an acknowledgement, no summary"
    if _compile(r"\s{{0,20}}(?:{})", "no_summary").match(reply.text[:400]):
        return "the model refused or asked for the conversation"
    return ""


# -- the text against what it stands for ---------------------------------------------------------------------

_ANNOUNCES: Final = read_pattern(__package__, "announces", re.IGNORECASE)
"""An opening line that announces a summary: what follows may be one. Behind `let me` it is the work."""
_STRUCTURED_LINE: Final = re.compile(r"^(?:#{1,6} |\*\*|[-*•>|#]|\d{1,3}[.)] )", re.MULTILINE)
"""A heading, a list, a quote, the number of a message: lines of a summary, which may quote anything."""
_FENCE: Final = re.compile(r"<[/\s]{0,3}(?:conversation|previous-summary)\b[^<>\n]{0,40}>", re.IGNORECASE)
_QUOTATION_MARKS: Final = '"“”«»„`'
_QUESTION: Final = re.compile(r"(?:what|which|who|where|when|how|why)\b[^?\n]{0,120}\?", re.IGNORECASE)
_LEAST_LINE: Final = 20
"""Characters from which on a line of the question is recognised; shorter ones occur by chance."""
LOOP_WORDS: Final = 400
LOOP_SHARE: Final = 0.1
"""Least share of different words in a text of at least `LOOP_WORDS`; a higher share rejects long lists."""
LOOP_LINES: Final = 8
LOOPED_SHARE: Final = 0.5
"""Share of repeated headings and long lines, of at least `LOOP_LINES`, from which on a text is a loop. Of 162
answers of three small models the good ones repeat at most 0.4 of their lines; of 259 of another run none that
repeats half of them was good."""
SHORT_SHARE: Final = 0.7
"""The same for all lines: twenty files may have one `Status: done` and one `Tests: pass` each."""
_SAID_END: Final = re.compile(r"(?<=[.;!?])\s|\n")
_TAG: Final = re.compile(r"</?[\w-]{1,40}>")
_TRANSCRIPT_LINE: Final = re.compile(r"^#\d{1,7} (?:user|assistant|system|tool)\b[^:\n]{0,40}:", re.MULTILINE)
_INVENTED_LINES: Final = 2
"""Messages in the form of the transcript from which on a text is one. Of 40 texts of a model of 1.5 billion
parameters 4 to 8 were; a summary may quote one message so."""
COPIED_LINES: Final = 4
COPIED_SHARE: Final = 0.6
"""Share of copied lines in a text of at least `COPIED_LINES` from which on it is a copy, if half of them are
of the assistant, from several messages. The user's words are to be told word for word, and a plan may be."""
WHOLE_SHARE: Final = 0.9
"""The same for lines of one message of the assistant: what is quoted is announced."""
LANGUAGE_WORDS: Final = 40
"""Words that both texts need before their languages are compared; fewer say too little."""
_SAMPLE: Final = 20_000
"""Characters of each text that are read; bounds the work on an endless answer."""
_SURE: Final = 0.6
"""Share of letters, or of stop words, that makes a language sure; a lower share would reject on doubt."""
_NOTICEABLE: Final = 0.1
"""Share of letters from which on a script is one that people here write; a letter of Han is a word."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_ANY_LETTER: Final = re.compile(r"[^\W\d_]")
_ASCII_NAME: Final = read_pattern(__package__, "ascii_name")
"""A path, an address or a piece of code: its words are of no language, and agents write little else."""
_WORK_OF_TOOLS: Final = read_pattern(__package__, "work_of_tools", re.MULTILINE | re.DOTALL)
"""Who speaks in a transcript, and what tools were asked and said: most of them speak English."""
_SCRIPTS: Final = {
    "Chinese or Japanese": re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]"),
    "Korean": re.compile(r"[\uac00-\ud7af]"),
    "Cyrillic": re.compile(r"[\u0400-\u04ff]"),
    "Arabic": re.compile(r"[\u0600-\u06ff]"),
    "Devanagari": re.compile(r"[\u0900-\u097f]"),
    "Greek": re.compile(r"[\u0370-\u03ff]"),
    "Latin": re.compile(r"[A-Za-z\u00c0-\u024f]"),
}


def reject_text(
    text: str,
    conversation: str,
    *,
    tokens: int = 0,
    most: int | None = None,
    nonce: str = "",
    asked: str = "",
) -> str:
    """Return why a text is no summary of a conversation; "" if it may be one.

    `tokens`: how long it is; `most`: how long the policy lets it be; `nonce`: the mark of the question that
    was asked; `asked`: the words of that question.
    """
    if (nonce and nonce in text) or _is_echo(text, asked):
        return "it repeats the question instead of answering it"
    if continues_conversation(text):
        return GOES_ON
    if is_loop(text[:_SAMPLE]):
        return "it says the same again and again"
    if most is not None and tokens > most:
        return f"it has {tokens:,} tokens, more than the {most:,} it may have"
    own = find_language(text)
    said = _WORK_OF_TOOLS.sub("", conversation) if own else ""
    conversation_language = find_language(said)
    if conversation_language and own != conversation_language and not _uses_script(said, own):
        return f"it is written in {own}, the conversation in {conversation_language}"
    return ""


def is_loop(text: str) -> bool:
    """True if a text says few words many times: a small model does not find its end."""
    words = _WORD.findall(text.lower())
    if len(words) >= LOOP_WORDS and len(set(words)) < LOOP_SHARE * len(words):
        said = _SAID_END.split(text.lower())
        # Forty files may have one sentence each that differs in a number.
        return len(said) < LOOP_LINES or len({*said}) <= LOOPED_SHARE * len(said)
    # Braces and tags come with every item of a list.
    lines = [line.strip() for line in _TAG.sub("", text).split("\n") if _ANY_LETTER.search(line)]
    long = [line for line in lines if len(line) >= _LEAST_LINE or line.startswith("#")]
    return any(
        len(some) >= LOOP_LINES and len(some) - len({*some}) >= share * len(some)
        for some, share in ((lines, SHORT_SHARE), (long, LOOPED_SHARE))
    )


def continues_conversation(text: str) -> bool:
    """True if a text answers, greets, starts to work or speaks to a reader instead of summarising.

    A small model also writes the transcript on, with outputs that no tool gave.
    """
    if len(_TRANSCRIPT_LINE.findall(text[:_SAMPLE])) >= _INVENTED_LINES:
        return True
    if _ANNOUNCES.match(text[:200]):
        return False
    if _compile(r"\s{{0,20}}(?:{})", "continues").match(text[:200]):
        return True
    if _STRUCTURED_LINE.search(text):
        return False
    sentences = split_sentences(text[:_SAMPLE])
    if len(text) > _SAMPLE:  # the last sentence was not read
        sentences = sentences[:1]
    for sentence in map(str.strip, (*sentences[:1], *sentences[-1:])):
        if _compile(r"(?:{})", "offers").match(sentence):
            before = text[: max(0, text.rfind(sentence))]
            is_quoted = sum(before.count(mark) for mark in _QUOTATION_MARKS) % 2 == 1
            if not is_quoted:
                return True
    return False


def _is_echo(text: str, asked: str) -> bool:
    """True if a text gives back the fence or the words of the question, or asks questions itself."""
    lines = [line.strip() for line in text[:_SAMPLE].split("\n") if line.strip()]
    if any(_FENCE.fullmatch(line) for line in (lines[:1] + lines[-1:])):
        return True
    asked_lines = {line.strip() for line in asked.split("\n") if len(line.strip()) >= _LEAST_LINE}
    body = [line for line in lines if not line.startswith("#")]
    if asked_lines and body and 2 * sum(line in asked_lines for line in body) > len(body):
        return True
    sentences = split_sentences(text[:_SAMPLE])
    questions = [_QUESTION.fullmatch(sentence.strip()) is not None for sentence in sentences]
    return len(sentences) > 1 and all(questions[:2]) and 2 * sum(questions) > len(sentences)


def reject_copy(text: str, conversation: str, answers: Iterable[str]) -> str:
    """Return why a text is no summary if most of its lines stand in a conversation and are no quotation.

    `answers`: what the assistant said in it, message by message.
    """
    prose = [
        line.strip()
        for line, is_code in mark_code(text[:_SAMPLE].split("\n"))
        if not is_code and len(line.strip()) >= _LEAST_LINE and not line.startswith(NO_PROSE)
    ]
    if len(prose) < COPIED_LINES:
        return ""
    said = {line.strip() for line in conversation.split("\n")}
    copied = sum(line in said for line in prose)
    # A line that the assistant said again and again counts for its first message.
    firsts: dict[str, int] = {}
    for place, answer in enumerate(answers):
        for line in answer.split("\n"):
            firsts.setdefault(line.strip(), place)
    places = [firsts[line] for line in prose if line in firsts]
    if len(set(places)) == 1:
        copies = len(places) >= WHOLE_SHARE * len(prose)
    else:
        copies = copied >= COPIED_SHARE * len(prose) and 2 * len(places) >= copied
    return "it copies the conversation instead of telling it" if copies else ""


def find_language(text: str) -> str:
    """Find the language or script of what a text says beside code and names; "" on doubt."""
    prose = (line for line, is_code in mark_code(text[:_SAMPLE].split("\n")) if not is_code)
    sample = _ASCII_NAME.sub(" ", "\n".join(prose))
    letters = {name: len(pattern.findall(sample)) for name, pattern in _SCRIPTS.items()}
    total = sum(letters.values())
    script = max(letters, key=lambda name: letters[name])
    if total < LANGUAGE_WORDS or letters[script] < _SURE * total:
        return ""
    if script != "Latin":
        return script
    words = [word.lower() for word in _WORD.findall(sample)]
    stop_words = {name: set(stop.split()) for name, stop in read_patterns("summaries")["stop_words"].items()}
    hits = {name: sum(word in stop for word in words) for name, stop in stop_words.items()}
    best = max(hits, key=lambda name: hits[name])
    enough = len(words) >= LANGUAGE_WORDS and hits[best] >= len(words) // 12
    return best if enough and hits[best] >= _SURE * sum(hits.values()) else ""


def _uses_script(text: str, name: str) -> bool:
    """True if a text that is mostly in another language has a good part in this script too."""
    sample = text[:_SAMPLE]
    own = len(_SCRIPTS[name].findall(sample)) if name in _SCRIPTS else 0
    return own >= _NOTICEABLE * len(_ANY_LETTER.findall(sample))


# -- what a text must hold -----------------------------------------------------------------------------------

TELLS_LITTLE: Final = "it tells too little"
THIN_TOKENS: Final = 250
"""Twice as many tokens need one word of the conversation in their summary, and each doubling one more. Real
models write dozens (bench/summary_floor.py); a higher demand would turn down terse ones."""
POOR_TALK: Final = 4
"""Divisor of the different words of a conversation that limits the demand: a talk that says little over and
over is told in few words."""
_CONTENT: Final = re.compile(r"[^\W\d_]{3,}")
_WITHOUT_BLANKS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_STEM: Final = 4
"""Letters by which two forms of a word are taken for one, such as `ship` and `ships`."""


def reject_thin(text: str, sources: Iterable[str], *, replaced: int) -> str:
    """Return why a text tells too little of what it stands for; "" if it tells enough.

    `sources`: the texts of what leaves; `replaced`: tokens of what leaves.

    >>> reject_thin("Some topics.", ["the parser drops a comma behind each value"], replaced=900)
    'it tells nothing of the conversation'
    """
    least = int(log2(max(THIN_TOKENS, replaced) / THIN_TOKENS))
    if not least:
        return ""
    own = find_content(text[:_SAMPLE])
    heard: set[str] = set()
    for source in sources:
        heard |= find_content(source[:_SAMPLE])
        if len(own & heard) >= least:
            break
    least = min(least, len(heard) // POOR_TALK)
    if least and not own & heard:
        return "it tells nothing of the conversation"
    if len(own & heard) < least:
        words = f"{len(own & heard)} words of the conversation, at least {least} for {replaced:,} tokens"
        return f"{TELLS_LITTLE}: {words}"
    return ""


def find_content(text: str) -> set[str]:
    """Find the words of a text that tell something, by their stems; phrases about summaries tell nothing."""
    words = {word for word in _CONTENT.findall(text.lower()) if word not in _empty_words()}
    pairs = {run[at : at + 2] for run in _WITHOUT_BLANKS.findall(text) for at in range(len(run) - 1)}
    return {word[:_STEM] for word in words} | (pairs - _empty_words())


@cache
def _empty_words() -> frozenset[str]:
    patterns = read_patterns("summaries")
    lists = (*patterns["words"].values(), *patterns["stop_words"].values())
    return frozenset(word for words in lists for word in words.split())


# -- stand-ins ----------------------------------------------------------------------------------------------

_STAND_IN, _ANY_WORD = "[stand-in]", "summary"
"""The first word of a stand-in, and the word that stands for all words of a summary."""


def is_stand_in(text: str) -> bool:
    """True if a text only shows how long a summary would be: a plan asks no model, so nothing is judged."""
    lines = [line for line in text.split("\n") if not line.startswith(("#", "---"))]
    return {_STAND_IN} <= set(" ".join(lines).split()) <= {_STAND_IN, _ANY_WORD}


def make_stand_in(characters: int, most: int | None) -> str:
    """Make a stand-in for a summary, with about `characters` characters and at most `most` words."""
    words = max(8, characters // (len(_ANY_WORD) + 1))
    return f"{_STAND_IN} " + f"{_ANY_WORD} " * (words if most is None else min(words, most))
