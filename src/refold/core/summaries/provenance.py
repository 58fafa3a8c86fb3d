"""Whose words a summary repeats: an order that no person gave is quoted as what it is; pure, asks no model.

A summariser may take an instruction out of a tool's output and tell it as the user's wish. So each sentence
of a summary that reads like an order, a rule, a permission or a plan is looked up in what was said: where a
tool said it and no person did, it leaves its place and stands as a quote under a heading that names the
source. What merely tells facts is left alone, wherever they came from.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from refold.core.facts.injections import as_displayed, find_instructions, is_instruction
from refold.core.facts.page import FILES, OUTPUTS, QUOTED, VALUES
from refold.core.facts.sentences import split_sentences
from refold.core.messages.message import Message
from refold.core.messages.message_text import arguments_text
from refold.core.messages.speakers import find_speaker, remove_program_text
from refold.core.messages.text_cutting import middle_out
from refold.core.messages.transcript import SHOWN_CHARS
from refold.core.summaries.wrappers import unwrap_summary

ASSISTANT: Final = "the assistant wrote: "

_SAME: Final = 0.6
"""The share of a sentence's words that one line must have to be where it came from; lower quotes more."""
_WHOLE, _WHOLE_WORDS = 0.8, 4
"""A sentence that holds so much of a line of so many words tells that line, whatever else it tells."""
_MOST_ORDERS: Final = 40
"""Lines of one text that give instructions; more are only more of the same."""
_HEARD: Final = 6_000
"""Characters of one message that are listened to; the rest is pasted."""
_SOME: Final = 3
"""Words besides a name that nobody else said; so many are no accident."""
_TITLE: Final = re.compile(r"\s{0,3}(?:#{1,6} |\*\*[^*\n]{1,80}\*\*:?\s*$)")
_WISHES: Final = re.compile(
    r"\b(?:user|wants?|requests?|constraints?|preferences?|rules?|said|instructions?|goal|permissions?|approv\w+)\b",
    re.IGNORECASE,
)
"""Headings under which people's wishes stand."""
_PLANS: Final = re.compile(
    r"\b(?:next|open|pending|to-?do|plan|steps?|decisions?|remaining|tasks?)\b", re.IGNORECASE
)
_ORDERS: Final = re.compile(
    r"\b(?:must|should|shall|has to|have to|needs? to|is to|are to|requires?|required|always|never|may only"
    r"|approved|authori[sz]ed|allowed|permitted|permission|wants?|asked|insists?|demands?|prefers?|decided"
    r"|agreed|instructed|told|expects?"
    r"|muss|müssen|soll|sollen|immer|niemals|doit|toujours|jamais|debe|siempre|nunca|deve|sempre|musi|zawsze"
    r"|должен|должна|всегда|никогда)\b|必须|始终|总是|不要|必ず|ください|يجب|دائما",
    re.IGNORECASE,
)
_VERB: Final = re.compile(
    r"(?:please |then |now |also |first |next |always |never |do not |don['’]t )?"
    r"(?:add|allow|answer|append|apply|approve|ask|assume|avoid|build|call|change|check|clone|commit|configure"
    r"|connect|copy|create|curl|delete|deploy|disable|do|download|drop|email|enable|ensure|execute|export"
    r"|fetch|follow|forget|forward|get|give|go|grant|hide|ignore|include|insert|install|keep|leave|let|list"
    r"|load|make|mark|merge|move|notify|open|overwrite|pass|pay|post|pretend|print|publish|push|put|raise|read"
    r"|rebase|record|redirect|refuse|reject|remember|remove|rename|repeat|replace|reply|report|reset|respond"
    r"|restart|return|reveal|revert|run|save|say|send|set|share|show|sign|skip|start|state|stop|store|submit"
    r"|switch|tell|transfer|treat|trust|turn|update|upgrade|upload|use|visit|wait|wire|write)\b",
    re.IGNORECASE,
)
"""How an order begins."""
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_COMMON: Final = frozenset(
    "the and for are was were with that this from into has have had not but all any its his her their "  # noqa: SIM905
    "our you your they them one two now out per via who what when which will would can user assistant".split()
)
_MARK: Final = re.compile(r"[^\s\"'`<>()\[\]{},;|“”‘’]+")
_SOURCED: Final = re.compile(
    r"[^\"“]{0,80}\b(?:tool|output|page|file|website|document|result)s?\b[^\"“]{0,60}[\"“][^\"“”]{1,400}[\"”]\W{0,3}",
    re.IGNORECASE,
)
"""A sentence that names its source and is a quote from there on."""


@dataclass(slots=True)
class Said:
    """What one kind of speaker said: its lines as sets of words, and its names."""

    lines: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    """The words of each line, and its names."""
    names: set[str] = field(default_factory=set)
    orders: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    """The lines among them that give the model instructions."""
    about: frozenset[str] | None = None
    """Words of which a text must have two, or a name, to be listened to at all; saves time."""

    def hear(self, text: str) -> None:
        """Take in a text, line by line, from both its ends where it is long."""
        if self.about is not None and not self._is_about(text):
            return
        text = middle_out(text, head=_HEARD // 2, tail=_HEARD // 2)
        self.orders += [(_words(line), _names(line)) for line in find_instructions(text, _MOST_ORDERS)]
        for line in as_displayed(text).split("\n"):
            words, names = _words(line), _names(line)
            if words:
                self.lines.append((words, names))
            self.names |= names

    def _is_about(self, text: str) -> bool:
        low = as_displayed(text).lower()
        found = 0
        for word in self.about or ():
            if word in low:
                found += 1
                if found > 1 or _is_name(word):
                    return True
        return False

    def support(self, words: frozenset[str]) -> float:
        """How surely one line is where these words came from: it has most of them, or they hold all of it."""
        best = 0.0
        for line, _ in self.lines:
            shared = len(words & line)
            if shared >= 2:
                whole = shared / len(line) if len(line) >= _WHOLE_WORDS else 0.0
                best = max(best, shared / len(words), whole * (whole >= _WHOLE))
        return best

    def tells(self, words: frozenset[str], names: frozenset[str]) -> bool:
        """Whether one line has one of these names and some of these words."""
        return any(names & own and len(words & line) >= _SOME for line, own in self.lines)

    def ordered(self, words: frozenset[str], names: frozenset[str]) -> bool:
        """Whether a line that gives instructions is told by these words, whatever shape they have."""
        return any(
            len(words & line) >= (_SOME if names & own else max(_SOME, _SAME * len(line)))
            for line, own in self.orders
        )


@dataclass(slots=True)
class Voices:
    """What was said, by who said it."""

    people: Said = field(default_factory=Said)
    model: Said = field(default_factory=Said)
    calls: Said = field(default_factory=Said)
    tools: Said = field(default_factory=Said)

    def source(self, sentence: str, heading: str) -> str | None:
        """Who gave the order that a sentence tells: "tool", "assistant"; None for a person or no order."""
        strong = (
            _WISHES.search(heading) is not None or is_instruction(sentence) or bool(_ORDERS.search(sentence))
        )
        words = _words(sentence)
        names = _names(sentence)
        people = self.people.support(words)
        if people < _SAME:
            for said, who in ((self.tools, "tool"), (self.model, "assistant")):
                if said.ordered(words, names):
                    return who
        if not (strong or _PLANS.search(heading) or _VERB.match(sentence)):
            return None
        model, tools = self.model.support(words), self.tools.support(words)
        if tools >= _SAME and tools > max(people, model):
            return "tool"
        known = self.people.names | self.calls.names
        only = (names & self.tools.names) - known - self.model.names
        if only and (strong or self.tools.tells(words, only)):
            return "tool"
        if (names & self.model.names) - known - self.tools.names:
            return "assistant"
        if strong and model >= _SAME and model > people and self._is_order(sentence, heading):
            return "assistant"
        return None

    @staticmethod
    def _is_order(sentence: str, heading: str) -> bool:
        """Whether a sentence that the model said itself claims to be more than its own plan."""
        return _WISHES.search(heading) is not None or is_instruction(sentence)


_SHOWN: Final = frozenset({VALUES, FILES, OUTPUTS})
"""Sections of a summary with what tools showed: a name there is nobody's wish, whoever makes one of it."""


def heard(messages: Sequence[Message], request: str = "", *, about: str | None = None) -> Voices:
    """What was said in these messages, as far as a summariser was shown it, and in the last request.

    `about`: a text; what has no words in common with it is passed over.
    """
    words = None if about is None else _words(as_displayed(about)) | _names(_bare(as_displayed(about)))
    voices = Voices(*(Said(about=words) for _ in range(4)))
    voices.people.hear(request)
    for message in messages:
        voice = find_speaker(message)
        if voice == "summary":
            for title, lines in _sections(unwrap_summary(message)):
                shown = QUOTED in title or title.strip("#* :") in _SHOWN
                (voices.tools if shown else voices.people).hear("\n".join(lines))
        elif voice in {"user", "system"}:
            voices.people.hear(remove_program_text(message.text))
        elif voice == "assistant":
            voices.model.hear(message.text)
            for call in message.calls:
                voices.calls.hear(arguments_text(call)[:SHOWN_CHARS])
        for result in message.results:
            voices.tools.hear(middle_out(result.text, head=SHOWN_CHARS // 2, tail=SHOWN_CHARS // 2))
        if voice == "tool" and not message.results:
            voices.tools.hear(message.text)
    return voices


def attributed(text: str, voices: Voices) -> str:
    """The text with every order that no person gave as a quote at its end; "" where nothing else is left."""
    quotes: list[str] = []
    sections = [_section(title, lines, voices, quotes) for title, lines in _sections(text)]
    if not quotes:
        return text
    left = "\n".join(section for section in sections if section is not None).strip()
    if not left:
        return ""
    title = f"## {QUOTED}"
    body = "\n".join(dict.fromkeys(quotes))
    if title in left:
        return left.replace(title, f"{title}\n{body}", 1)
    return f"{left}\n\n{title}\n{body}"


def _sections(text: str) -> list[tuple[str, list[str]]]:
    """A text as headings, each with the lines under it; what stands before the first has none."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.split("\n"):
        if _TITLE.match(line):
            found.append((line, []))
        else:
            found[-1][1].append(line)
    return found


def _section(title: str, lines: Sequence[str], voices: Voices, quotes: list[str]) -> str | None:
    """What is left of a section; None where all of it was quotes."""
    before = len(quotes)
    kept = [one for line in lines for one in _line(line, as_displayed(title), voices, quotes)]
    if len(quotes) > before and not any(line.strip() for line in kept):
        return None
    return "\n".join([title, *kept] if title else kept)


def _line(line: str, heading: str, voices: Voices, quotes: list[str]) -> Iterator[str]:
    """What is left of a line; its orders that no person gave are added to the quotes."""
    if QUOTED in heading or not line.strip():
        yield line
        return
    told = split_sentences(as_displayed(line)) or [as_displayed(line).strip()]
    sources = [None if _SOURCED.fullmatch(_bare(one)) else voices.source(_bare(one), heading) for one in told]
    if not any(sources):
        yield line
        return
    for one, source in zip(told, sources, strict=True):
        if source is not None:
            quote = _bare(one).replace('"', "'").replace("<", "&lt;")
            quotes.append(f'- {ASSISTANT if source == "assistant" else ""}"{quote}"')
    rest = " ".join(one for one, source in zip(told, sources, strict=True) if source is None)
    if rest:
        yield f"{re.match(r'[ -]{0,8}', line)[0]}{rest}"  # type: ignore[index]  # it matches anything


def _bare(sentence: str) -> str:
    """A sentence without the marks of a list, a number or a box before it, its tags as they were."""
    sentence = sentence.replace("&lt;", "<").replace("&#91;", "[")
    return re.sub(r"^(?:\s{0,8}(?:[-*•]|\d{1,3}[.)]|#\d{1,9}|\[[ xX~-]\])\s{1,4}){1,4}", "", sentence).strip()


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _COMMON


def _names(text: str) -> frozenset[str]:
    """Words that name something: addresses, paths, ids, versions."""
    found = (mark.strip(".:!?*_").lower() for mark in _MARK.findall(text))
    return frozenset(name for name in found if len(name) > 3 and _is_name(name))


def _is_name(word: str) -> bool:
    return any(letter.isdigit() or letter in "/@_" for letter in word) or "." in word
