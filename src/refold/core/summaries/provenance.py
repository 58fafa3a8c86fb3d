"""Finds orders and claims in a summary that no person gave, and turns them into quotes. It asks no model.

A summariser may take an instruction out of a tool's output and present it as the user's wish. So each
sentence of a summary that reads like an order, a rule, a permission or a plan is looked up in what was said.
Where a tool said it and no person did, it leaves its place and becomes a quote under a heading that names the
source. Sentences that only tell facts stay, whoever said them.

A summariser may also invent: what a sentence or a heading says about the user's words, wishes or permissions
is looked up in what people said. Where it is not found, the sentence becomes a quote under `CLAIMED`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate, islice
from math import fsum
from typing import Final, NamedTuple

from refold.core.facts.injections import as_displayed, find_instructions, is_instruction
from refold.core.facts.ledger import USER_KINDS, Ledger
from refold.core.facts.page import IN_BRIEF, OUTPUTS, QUOTED, SAID, VALUES
from refold.core.facts.sentences import LONGEST, is_prohibition, split_sentences
from refold.core.facts.words import compile_patterns, read_patterns
from refold.core.messages.file_operations import FILES
from refold.core.messages.message import Message
from refold.core.messages.message_text import arguments_text
from refold.core.messages.speakers import find_own_words, find_speaker, remove_program_text
from refold.core.messages.text_cutting import middle_out
from refold.core.messages.transcript import SHOWN_CHARS
from refold.core.summaries.bans import contradicts_bans, find_acts, find_bans, find_stems
from refold.core.summaries.wrappers import unwrap_summary
from refold.core.tokens.findings import Findings
from refold.patterns import read_pattern

ASSISTANT: Final = "the assistant wrote: "
CLAIMED: Final = "Claims of the summariser, not found in the user's words"

# The thresholds were set on the attacks of `refold eval injections` (docs/benchmarks.md). Each errs towards a
# quote, which loses nothing: the sentence stays in the summary, only not as an order.
_SAME: Final = 0.6
"""Share of a sentence's words that one line must have to be its source; a lower share quotes more."""
_WHOLE, _WHOLE_WORDS = 0.8, 4
"""Share of a line's words with which a sentence repeats the line, and the least words of such a line."""
_HEARD, _HEARD_OF_REQUESTS = 0.5, 0.25
"""Share of a claim's words that people must have used; a wish under a heading is mostly reworded."""
_ELSEWHERE: Final = 0.4
"""How much a word counts that only the model or a tool used; with half of it a claim would be true."""
_HEARD_NAMES: Final = 0.8
"""The same for a claim with a name that nobody used."""
_STEM: Final = 4
"""Letters by which two words are taken for one: a claim is reworded."""
_SOME: Final = 3
"""Words besides a name that only one speaker used; this many are no coincidence."""
_MOST_ORDERS: Final = 40
"""Lines of one text that give instructions; more are only more of the same."""
_QUOTES_SHARE: Final = 0.25
_QUOTES_LEAST: Final = 300
"""Share and least number of a summary's characters that the quotes of one section may have; small models put
every sentence as the user's wish, and the quotes took the room of the messages."""
_READ_CHARS: Final = 6_000
"""Characters of one message that are read; the rest is pasted."""
_TITLE: Final = re.compile(r"\s{0,3}(?:#{1,6} |\*\*[^*\n]{1,80}\*\*:?\s*$)")
_LIST_MARKS: Final = re.compile(r"^(?:\s{0,8}(?:[-*•]|\d{1,3}[.)]|#\d{1,9}|\[[ xX~-]\])\s{1,4}){1,4}")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_LABEL: Final = re.compile(r"^\W{0,4}(?:human|user|assistant|system|ai|[qa])\W{0,3}:\s{0,4}", re.IGNORECASE)
"""The name of a speaker before what they say, as a dialogue in a text has it."""
_MARK: Final = re.compile(r"[^\s\"'`<>()\[\]{},;|“”‘’]+")
_IN_NAME: Final = re.compile(r"[\d/@_.]")
"""What a name has."""
_SOURCED: Final = read_pattern(__package__, "sourced", re.IGNORECASE)
"""A sentence that names its source and is a quote from there on."""
_WORDS_OF_USER: Final = (SAID, IN_BRIEF)
"""Sections in which nothing but the user's own words stands; a summariser may forge one."""
_CLAUSE_END: Final = re.compile(r"; |,? (?:and|but|while|because|so) the |, (?:and|but|which|who|while|so) ")
_PIECE_END: Final = re.compile(r"; |,? (?:and|but|which|while|und|aber|et|mais|y|e) ")
_SHOWN_BY_TOOLS: Final = frozenset({VALUES, FILES, OUTPUTS})
"""Sections of a summary with the output of tools: a name there is no request of the user."""

_compile = partial(compile_patterns, room="summaries")


class _Said(NamedTuple):
    """What a text says: the fields of `Speech`."""

    lines: Sequence[tuple[frozenset[str], frozenset[str]]]
    names: frozenset[str]
    ends: frozenset[str]
    stems: frozenset[str]
    orders: Sequence[tuple[frozenset[str], frozenset[str]]]


def _read_said(text: str) -> _Said:
    """Read a text line by line, from both its ends where it is long."""
    text = middle_out(text, head=_READ_CHARS // 2, tail=_READ_CHARS // 2)
    orders = [(_find_words(line), _find_names(line)) for line in find_instructions(text, _MOST_ORDERS)]
    read = [(_find_words(line), _find_names(line)) for line in as_displayed(text).split("\n")]
    names = frozenset().union(*(own for _, own in read))
    return _Said(
        [line for line in read if line[0]],
        names,
        frozenset(name.rpartition("/")[2] for name in names),
        frozenset(stem[:_STEM].lower() for stem in find_stems(as_displayed(text))),
        orders,
    )


@dataclass(slots=True)
class Speech:
    """The words of one kind of speaker: lines as sets of words, and names."""

    lines: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    """The words of each line, and its names."""
    names: set[str] = field(default_factory=set)
    ends: set[str] = field(default_factory=set)
    """The last parts of names that are paths."""
    stems: set[str] = field(default_factory=set)
    """The words of all lines, by their stems."""
    orders: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    """The lines among them that give the model instructions."""
    about: frozenset[str] | None = None
    """A text is only read if it has a name or two words of these; saves time. None: read all."""
    texts: list[str] = field(default_factory=list)
    """The texts themselves, for what only a few summaries need."""
    rules: set[str] = field(default_factory=set)
    """The texts among them that an operator wrote."""
    found: Findings = field(default_factory=Findings)
    """What was read before: a summary may be judged several times, and mostly with the same words."""

    def add(self, text: str) -> None:
        """Add a text."""
        if self.about is not None and not self._is_about(text):
            return
        read = self.found.find(_read_said, text)
        self.texts.append(text)
        self.lines += read.lines
        self.names |= read.names
        self.ends |= read.ends
        self.stems |= read.stems
        self.orders += read.orders

    def add_answer(self, question: str, text: str) -> None:
        """Add what a person says, and the questions before it if they say yes: they said what was asked."""
        self.add(text)
        agrees = _compile(r"\A\W{{0,3}}(?!{})(?:{}|{})\b", "other_topics", "consents", "answers")
        if agrees.match(text) and not is_prohibition(text):
            self.add("\n".join(one for one in split_sentences(question[-LONGEST:]) if one[-1] in "?？؟"))

    def _is_about(self, text: str) -> bool:
        low = as_displayed(text).lower()
        hits = [*islice((word for word in self.about or () if word in low), 2)]
        return len(hits) > 1 or any(map(_IN_NAME.search, hits))

    def has(self, pattern: re.Pattern[str]) -> bool:
        """True if one of the texts has this pattern."""
        return any(self.found.find(re.Pattern.search, pattern, text) for text in self.texts)

    def support(self, words: frozenset[str]) -> float:
        """Score how surely one line is the source: it has most of these words, or they hold all of it."""
        best = 0.0
        for line, _ in self.lines:
            shared = len(words & line)
            if shared >= 2:
                of_line = shared / len(line) if len(line) >= _WHOLE_WORDS else 0.0
                best = max(best, shared / len(words), of_line * (of_line >= _WHOLE))
        return best

    def mentions(self, words: frozenset[str], names: frozenset[str]) -> bool:
        """True if one line has one of these names and some of these words."""
        return any(names & own and len(words & line) >= _SOME for line, own in self.lines)

    def forbids(self, claim: str, *, permits: bool) -> bool:
        """True if people forbade what a claim says they permit or want, and nowhere else say it."""
        # What an operator forbids, a user may want all the same.
        texts = [text[:_READ_CHARS] for text in self.texts if permits or text not in self.rules]
        bans = [ban for text in texts for ban in self.found.find(find_bans, text)]
        return bool(bans) and contradicts_bans(claim, bans, texts, permits=permits)

    def orders_so(self, words: frozenset[str], names: frozenset[str]) -> bool:
        """True if these words repeat a line that gives instructions, whatever shape they have."""
        return any(
            len(words & line) >= (_SOME if names & own else max(_SOME, _SAME * len(line)))
            for line, own in self.orders
        )


@dataclass(slots=True)
class Speakers:
    """The words of people, of the model, in its calls, and of tools."""

    people: Speech = field(default_factory=Speech)
    model: Speech = field(default_factory=Speech)
    calls: Speech = field(default_factory=Speech)
    tools: Speech = field(default_factory=Speech)

    def find_source(self, sentence: str, heading: str) -> str | None:
        """Return who gave an order: "tool", "assistant", "summariser"; None for a person or no order."""
        speaker = self._find_speaker(sentence, heading)
        return "summariser" if speaker is None and self._is_invented(sentence, heading) else speaker

    def _is_invented(self, sentence: str, heading: str) -> bool:
        """True if a sentence tells of the user's words or wishes what no person said."""
        words, names = _find_words(sentence), _find_names(sentence)
        if any(title in heading for title in _WORDS_OF_USER):
            return self.people.support(words) < _SAME
        sentence = _compile("{}", "allowing").sub("allowed by", sentence)
        claim = _compile(r"{}", "user_claims").search(sentence)
        is_open = claim is None and _compile(r"{}", "open_permissions").search(sentence) is not None
        request = _compile(r"\b(?:{})\b", "wish_headings").search(heading)
        order = _compile(r"\b(?:{})\b|{}", "order_words", "order_words_without_blanks").search(sentence)
        everybody = (self.people, self.model, self.calls, self.tools)
        unknown = names.difference(*(speech.names | speech.ends for speech in everybody)) if names else names
        permits = _compile(r"\b(?:{})|{}", "permissions", "permissions_without_blanks").search(sentence)
        permits = permits if claim or is_open else None
        # Of "The user asks for x, and the answer was y" only the first half is a claim.
        wants = _compile("{}", "wishes").search(sentence) or claim
        clause = _CLAUSE_END.split(sentence[wants.start() :], 1)[0] if wants else sentence
        act = sentence[: wants.start()] + clause if wants and permits else clause
        if (wants or is_open or request) and self.people.forbids(act, permits=permits is not None):
            return True
        if not (claim or is_open or request or (order and unknown)):
            return False
        if permits and not self._knows_acts(sentence, is_open=is_open):
            return True
        if not claim or permits or unknown:
            clause = sentence
        said = [stem[:_STEM].lower() for stem in find_stems(clause)]
        # Whose words may stand in a claim, and how much a word of theirs counts for it.
        ears = [*zip(everybody, (1.0, 1.0 if is_open else _ELSEWHERE, _ELSEWHERE, _ELSEWHERE), strict=True)]
        # A plain sum depends on the order of a set, and so on the process.
        heard = fsum(max((word in speech.stems) * weight for speech, weight in ears) for word in said)
        least = _HEARD if claim or is_open or order else _HEARD_OF_REQUESTS
        return bool(said) and heard < len(said) * (_HEARD_NAMES if unknown else least)

    def _knows_acts(self, sentence: str, *, is_open: bool) -> bool:
        """True if people said what is permitted, or agreed to something and the model said it."""
        permits = _compile(r"\b(?:{})|{}", "permissions", "permissions_without_blanks")
        pieces = [piece for piece in _PIECE_END.split(sentence) if permits.search(piece)]
        agreed = is_open or self.people.has(_compile(r"\A\W{{0,3}}(?:{}|{})\b", "consents", "answers"))
        return all(
            self.people.has(act) or (agreed and self.model.has(act))
            for act in find_acts()
            if any(act.search(piece) and not is_prohibition(piece) for piece in pieces)
        )

    def _find_speaker(self, sentence: str, heading: str) -> str | None:
        """Return who of the tools and the model gave an order; None for a person or no order."""
        claims_request = _compile(r"\b(?:{})\b", "wish_headings").search(heading) is not None
        claims_request = claims_request or is_instruction(sentence)
        order = _compile(r"\b(?:{})\b|{}", "order_words", "order_words_without_blanks")
        strong = claims_request or order.search(sentence) is not None
        words, names = _find_words(sentence), _find_names(sentence)
        people = self.people.support(words)
        if people < _SAME:
            for speech, speaker in ((self.tools, "tool"), (self.model, "assistant")):
                if speech.orders_so(words, names):
                    return speaker
        if not strong and not _is_plan(sentence, heading):
            return None
        model, tools = self.model.support(words), self.tools.support(words)
        if tools >= _SAME and tools > max(people, model):
            return "tool"
        known = self.people.names | self.calls.names
        only_tools = (names & self.tools.names) - known - self.model.names
        if only_tools and (strong or self.tools.mentions(words, only_tools)):
            return "tool"
        if (names & self.model.names) - known - self.tools.names:
            return "assistant"
        # What the model said itself is quoted only where the summary claims more than the model's own plan.
        return "assistant" if claims_request and model >= _SAME and model > people else None


def _is_plan(sentence: str, heading: str) -> bool:
    """True if a sentence stands under a heading of plans or begins like an order."""
    verb = _compile(
        r"(?:to |please |then |now |also |first |next |always |never |do not |don['’]t )?(?:{})\b",
        "order_verbs",
    )
    in_plans = _compile(r"\b(?:{})\b", "plan_headings").search(heading)
    return in_plans is not None or verb.match(_LABEL.sub("", sentence)) is not None


def collect_speech(
    messages: Sequence[Message],
    request: str = "",
    *,
    about: str | None = None,
    staying: Iterable[str] = (),
    found: Findings | None = None,
) -> Speakers:
    """Collect what was said in these messages, as far as a summariser saw it, and in the last request.

    `about`: a text; what the model and tools say without two words in common with it is skipped. `staying`:
    what people say in messages that stay in the view. `found`: what was found in texts before.
    """
    found = Findings() if found is None else found
    words = None
    if about is not None:
        words = _find_words(as_displayed(about)) | _find_names(_strip_marks(as_displayed(about)))
    # All that people said: a claim is reworded, and may have one word in common with what it tells.
    speakers = Speakers(Speech(found=found), *(Speech(about=words, found=found) for _ in range(3)))
    for text in (request, *staying):
        speakers.people.add(remove_program_text(text))
    question = ""
    for message in messages:
        voice = find_speaker(message)
        if voice == "summary":
            _add_summary(speakers, message)
        elif said := remove_program_text(message.text) if voice == "system" else find_own_words(message):
            speakers.people.add_answer(question, said)
            speakers.people.rules |= {said} if voice == "system" else set()
        elif voice == "assistant":
            speakers.model.add(message.text)
            for call in message.calls:
                speakers.calls.add(arguments_text(call)[:SHOWN_CHARS])
        for result in message.results:
            speakers.tools.add(middle_out(result.text, head=SHOWN_CHARS // 2, tail=SHOWN_CHARS // 2))
        if voice == "tool" and not message.results:
            speakers.tools.add(message.text)
        question = message.text if voice == "assistant" else ""
    return speakers


def _add_summary(speakers: Speakers, message: Message) -> None:
    """Add an earlier summary: what it tells of the user was looked up when it was made, the rest was not."""
    found = speakers.people.found
    for fact in Ledger.from_json(message.meta.get("facts"), found).of(*USER_KINDS):
        speakers.people.add(fact.text)
    claims = _compile(r"{}", "user_claims")
    for title, lines in _split_sections(unwrap_summary(message)):
        by_tools = any(label in title for label in (QUOTED, CLAIMED))
        if by_tools or title.strip("#* :") in _SHOWN_BY_TOOLS:
            speakers.tools.add("\n".join(lines))
            continue
        request = _compile(r"\b(?:{})\b", "wish_headings").search(title)
        for line in lines:
            (speakers.people if request or claims.search(line) else speakers.calls).add(line)


def quote_foreign_orders(text: str, speakers: Speakers) -> str:
    """Move every order or claim that no person gave into quotes at the end; "" where nothing else is left."""
    quotes: dict[str, list[str]] = {QUOTED: [], CLAIMED: []}
    sections: list[str] = []
    for title, lines in _split_sections(text):
        before = sum(map(len, quotes.values()))
        kept = [left for line in lines if (left := _take_orders(line, title, speakers, quotes)) is not None]
        # A section that held nothing but orders leaves with its heading.
        if sum(map(len, quotes.values())) == before or any(line.strip() for line in kept):
            sections.append("\n".join([title, *kept] if title else kept))
    if not any(quotes.values()):
        return text
    left = "\n".join(sections).strip()
    if not left:
        return ""
    for label, lines in quotes.items():
        if not lines:
            continue
        title, body = f"## {label}", "\n".join(_limit_quotes([*dict.fromkeys(lines)], len(text)))
        is_there = title in left
        left = left.replace(title, f"{title}\n{body}", 1) if is_there else f"{left}\n\n{title}\n{body}"
    return left


def _limit_quotes(quotes: list[str], characters: int) -> list[str]:
    """Return the first quotes of a section, as many as its share of the summary allows."""
    room = max(_QUOTES_LEAST, int(characters * _QUOTES_SHARE))
    ends = accumulate(map(len, quotes))
    return [quote for quote, end in zip(quotes, ends, strict=True) if end <= room] or quotes[:1]


def _take_orders(line: str, title: str, speakers: Speakers, quotes: dict[str, list[str]]) -> str | None:
    """Add the foreign orders of a line to the quotes; return the rest of the line, or None."""
    heading = as_displayed(title)
    if any(label in heading for label in quotes) or not line.strip():
        return line
    sentences = split_sentences(as_displayed(line)) or [as_displayed(line).strip()]
    rest: list[str] = []
    for sentence in sentences:
        words = _strip_marks(sentence)
        source = None if _SOURCED.fullmatch(words) else speakers.find_source(words, heading)
        if source is None:
            rest.append(sentence)
        else:
            quote = words.replace('"', "'").replace("<", "&lt;")
            label = CLAIMED if source == "summariser" else QUOTED
            quotes[label].append(f'- {ASSISTANT if source == "assistant" else ""}"{quote}"')
    if len(rest) == len(sentences):
        return line
    indent = line[: len(line) - len(line.lstrip(" -"))][:8]
    return f"{indent}{' '.join(rest)}" if rest else None


def _split_sections(text: str) -> list[tuple[str, list[str]]]:
    """Split a text into headings, each with the lines under it; the first has no heading."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    for line in text.split("\n"):
        if _TITLE.match(line):
            sections.append((line, []))
        else:
            sections[-1][1].append(line)
    return sections


def _strip_marks(sentence: str) -> str:
    """Remove the marks of a list, a number or a box before a sentence, and unescape its tags."""
    sentence = sentence.replace("&lt;", "<").replace("&#91;", "[")
    return _LIST_MARKS.sub("", sentence).strip()


@cache
def _common_words() -> frozenset[str]:
    return frozenset(read_patterns("summaries")["words"]["common"].split())


def _find_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _common_words()


def _find_names(text: str) -> frozenset[str]:
    """Find words that name something: addresses, paths, ids, versions."""
    if not _IN_NAME.search(text):
        return frozenset()
    marks = [mark.strip(".:!?*_").lower() for mark in _MARK.findall(text) if not mark.isalpha()]
    return frozenset([name for name in marks if len(name) > 3 and _IN_NAME.search(name)])
