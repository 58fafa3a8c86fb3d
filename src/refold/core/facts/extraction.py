"""Finds facts in messages that are about to leave. Deterministic and linear; asks no model.

A user's words become requests, rules, corrections and statements, nearly word for word. A tool's words never
do: from there come names, values, errors and outcomes, and what reads like an instruction is noted as a
quote. A name is noted with the file it stands in, or with its kind by its shape.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_letters, digits
from typing import Any, Final

from refold.core.facts.collector import (
    COMMAND_CHARS,
    PLAN_KEYS,
    FactCollector,
    find_cut,
    keep_ends,
    read_ends,
)
from refold.core.facts.injections import is_instruction
from refold.core.facts.ledger import RULE_KINDS, USER_KINDS, Fact
from refold.core.facts.lists import ListAnswer, find_listed_names, may_hold_list
from refold.core.facts.rules_files import find_rules_reads
from refold.core.facts.sentences import (
    LONGEST,
    STATEMENT_ENDS,
    asks_back,
    classify_sentence,
    find_possible_decisions,
    has_rule_words,
    is_courtesy,
    is_decision,
    is_promise,
    is_small_talk,
    may_be_rule,
    split_sentences,
)
from refold.core.facts.words import number_signs
from refold.core.messages import file_operations
from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.core.messages.speakers import find_own_words, find_speaker, find_speaker_names
from refold.core.messages.text_boundaries import word_before
from refold.core.messages.text_cutting import cut_words
from refold.core.messages.tool_pairs import link, open_calls
from refold.core.messages.transcript import parse_arguments
from refold.core.outputs.actions import describe_action, describe_command
from refold.core.outputs.outcome import read_result
from refold.core.outputs.trouble import is_failure
from refold.core.tokens.findings import Findings
from refold.patterns import read_pattern

TOOL_MESSAGES: Final = 400
"""Newest messages in which tool output is read; older output is hardly used again (decision 0012)."""
MODEL_MESSAGES: Final = 1_000
"""Newest messages in which the model is read: what it answered is asked for again however long ago.

More would only find what the budget has no room for, and a fold of 10,000 messages would take longer
(docs/decisions/0019-speed.md).
"""
USER_MESSAGES: Final = 2_000
"""Newest messages of people in which all is noted; in older ones only rules are. The longest recorded talks
have fewer messages of people."""
SAID_CHARS: Final = 6_000
"""Characters of a message of a user or a model that are read, half from each end; the rest is pasted."""
MIDDLE_CHARS: Final = 60_000
"""Characters between the ends of a user's message in which rules are looked for; bounds the work."""
MIDDLE_RULES: Final = 20
"""Rules that are taken from there at most."""
MIDDLE_WEIGHT: Final = 3.7
"""Their weight: below every rule that surely is the user's own, as the middle may be pasted."""
FIRM_KINDS: Final = frozenset({"constraint", "correction"})
"""Facts that are surely rules; others are guesses, and long texts have many of them."""
PASTED_SENTENCES: Final = 20
"""Sentences from which the middle of a message counts as pasted; then only a rule's words are read there."""
PASTED_FIELDS: Final = 3
"""Fields of JSON in a sentence from which on they count as pasted; an example in a rule has fewer."""
OWN_SENTENCES: Final = 4
"""Sentences at both ends of such a message that are the person's own in any case."""
ANSWER_CHARS: Final = 900
"""Characters of an answer in which the sentence is looked for that tells most."""
LONGEST_ANSWER: Final = 240
"""Characters of such a sentence."""
SHORT_ANSWER, LEAST_ANSWER = 24, 8
"""Characters of a sentence that is told only beside a request, and bytes of one that tells nothing."""
_BOLD: Final = re.compile(r"\*\*(?<![\w*/)]\*\*)(?=\S)([^*\n]{1,200})(?<=\S)\*\*(?![\w*/(])")
"""A text in bold; `2**10` and `src/**` are none. Letters stand first, as such a pattern is found fast."""
_DETAILS: Final = read_pattern(__package__, "details", re.MULTILINE)
"""Lines of a list that say something of another line: those below an item, labels with short values."""
_ARGUMENT_CHARS: Final = 100_000
_ARGUMENT_DEPTH: Final = 20
"""Arguments beyond these are not read; both bound the work on hostile input."""

_DATA: Final = re.compile(r'[\[{]\s{0,9}[\[{"]|"\w{1,60}"\s{0,3}:')
"""Where JSON begins in a text, or goes on."""
_FENCED: Final = re.compile(r"```([\w+-]{0,20})\n(.*?)(?:```(?=\s|\Z)|\Z)", re.DOTALL)
"""A block of code with its language; the fence that ends it begins no other."""
_FENCED_CHARS: Final = 4_000
"""Characters of such a block that are read."""
_TAGGED_CALL: Final = re.compile(r"<(?:function=)?([a-z]\w{2,40})>\s{0,9}(?=<(?:parameter=)?\w{1,40}>)")
_TAGGED_VALUE: Final = re.compile(r"<(?:parameter=)?(\w{1,40})>(.{0,1000}?)</(?:\1|parameter)>", re.DOTALL)
"""A call that a model writes as tags, as in Cline and OpenHands, and each of its values."""
_REPORT_HEAD: Final = read_pattern(__package__, "report_head")
"""What stands before the output of such a call; it names the call again."""
_SHELLS: Final = frozenset({"bash", "sh", "shell", "zsh", "console", "powershell", "mswea_bash_command"})
_SPECIFIC: Final = re.compile(r"\b[\w.,:/-]{0,40}\d[\w.,:/-]{0,40}|\b\w[\w./-]{0,60}[/_.][\w./-]{1,60}")
"""Dates, amounts, numbers of orders, names of files: what somebody asks for again."""
_REMOVED_BY_PATCH: Final = re.compile(r"^\*\*\* Delete File: (\S.{0,400})$", re.MULTILINE)
_MAY_BE_SPECIFIC: Final = re.compile(r"[\d/_.](?:(?<=\d)|[\w./-])")
_SPECIFIC_SIGNS: Final = number_signs(digits, "/_.", ascii_letters + "-")
"""What each of them has: a digit, or one of three signs before another one or a letter."""


def find_facts(
    messages: Sequence[Message], numbers: Sequence[int] | None = None, found: Findings | None = None
) -> list[Fact]:
    """Find the facts in these messages, in order.

    numbers   those by which handles name the messages
    found     what was found in single messages before
    """
    reader = _MessageReader(people=find_speaker_names(messages), found=Findings() if found is None else found)
    named = {(message.role, message.name) for message in messages if message.name}
    reader.shared = frozenset(role for role, count in Counter(role for role, _ in named).items() if count > 1)
    oldest = max(0, len(messages) - MODEL_MESSAGES)
    oldest_output = len(messages) - TOOL_MESSAGES
    links = link(messages[oldest:])
    waiting = open_calls(messages[oldest:], links)
    voices = [find_speaker(message) for message in messages]
    own = [find_own_words(message) != "" for message in messages]
    old_users = own.count(True) - USER_MESSAGES
    for index, (message, voice) in enumerate(zip(messages, voices, strict=True)):
        at = index if numbers is None else numbers[index]
        if own[index]:
            reader.read(reader.read_rules if old_users > 0 else reader.read_user, message, at)
            old_users -= 1
        if index < oldest:
            continue
        if voice == "assistant":
            reader.is_run = not message.calls and voices[index + 1 : index + 2] == ["tool"]
            reader.read(reader.read_model, message, at)
            for place, call in enumerate(message.parts):
                if isinstance(call, ToolCall):
                    answer = links.answered.get((index - oldest, place))
                    part = messages[oldest + answer[0]].parts[answer[1]] if answer else None
                    result = part if isinstance(part, ToolResult) else None
                    output = result if index >= oldest_output else None
                    reader.read(reader.read_call, call, at, result, output)
                    if result is None and index - oldest in waiting:
                        text = describe_action(call.name, _read_arguments(call), COMMAND_CHARS)
                        reader.facts.add("open call", text, "waits for its result", at=at, weight=6.0)
        elif voice == "tool" and index >= oldest_output:
            reader.read(reader.read_output, message, at)
    for read in find_rules_reads(messages):
        part = messages[read.message].parts[read.part]
        at = read.message if numbers is None else numbers[read.message]
        reader.facts.add_file_rules(read.path, part.text if isinstance(part, ToolResult | Text) else "", at)
    return [*reader.facts.facts, *find_listed_names(reader.answers, reader.found)]


@dataclass(slots=True)
class _MessageReader:
    """Reads messages in order; each may need what earlier ones said."""

    people: frozenset[str]
    """People who speak with their name in front."""
    shared: frozenset[str] = frozenset()
    """Roles in which several speak, by the names of their messages."""
    facts: FactCollector = field(default_factory=FactCollector)
    command: str = ""
    """The last command that the model wrote instead of calling a tool, in one line."""
    command_at: int = 0
    file: str = ""
    """The file that command is about."""
    is_run: bool = False
    """True if an output follows the message, so that a command in it was run; others are only proposed."""
    answers: list[ListAnswer] = field(default_factory=list)
    """Messages of the model with lists in them."""
    found: Findings = field(default_factory=Findings)

    def read(
        self, read: Callable[..., None], source: Message | ToolCall, at: int, *beside: ToolResult | None
    ) -> None:
        """Read a message or a call, or take what was found in it before."""
        # Known by its identity, as in `Findings.find_in`; what is found depends on what was said before, too.
        spoken = (self.people, self.shared, self.command, self.command_at, self.file, self.is_run)
        key = (read.__name__, id(source), at, *map(id, beside), spoken)
        if known := self.found.get(key):
            _, facts, answers, (self.command, self.command_at, self.file) = known
            self.facts.facts += facts
            self.answers += answers
            return
        places = len(self.facts.facts), len(self.answers)
        read(source, at, *beside)
        left = self.command, self.command_at, self.file
        new = self.facts.facts[places[0] :], self.answers[places[1] :]
        self.found.put(key, ((source, beside), *new, left))

    # The weights below say how often facts of such a source are used again: what an agent wrote into a
    # command 36 %, what it spoke of 13 %, what was only seen in output 1 % (docs/decisions/0012-facts.md).

    def read_user(self, message: Message, at: int) -> None:
        """Note a user's sentences, values, check boxes and names."""
        who, text = self._note_sentences(message, at, USER_KINDS)
        first = len(self.facts.facts)
        self.facts.add_values(text, at, 3.0)
        if who:  # the limit of one is not that of another
            for place, value in enumerate(self.facts.facts[first:], first):
                self.facts.facts[place] = replace(value, about=f"{who}: {value.about}")
        self.facts.add_check_boxes(text, at, own=True)
        self.facts.add_names(text, "", at, 3.0)

    def read_rules(self, message: Message, at: int) -> None:
        """Note a user's rules alone."""
        self._note_sentences(message, at, RULE_KINDS)

    def _name_speaker(self, message: Message) -> str:
        """Return the name of a message where several speak in its role, else ""; OpenAI takes 64 letters."""
        return " ".join((message.name or "").split())[:64] if message.role in self.shared else ""

    def _note_sentences(self, message: Message, at: int, kinds: frozenset[str]) -> tuple[str, str]:
        """Note a user's sentences of these kinds; return the speaker's name, and the text without it."""
        whole = find_own_words(message)
        text = keep_ends(whole, SAID_CHARS, 0.5)
        who, _, words = text.partition(": ")
        who, text = (who, words) if who in self.people else (self._name_speaker(message), text)
        sentences = _find_own_sentences(text)
        for place, sentence in enumerate(sentences):
            if is_small_talk(sentence) or (kinds is RULE_KINDS and not may_be_rule(sentence)):
                continue
            kind, weight = classify_sentence(sentence)
            is_pasted = len(sentences) > PASTED_SENTENCES and (
                OWN_SENTENCES <= place < len(sentences) - OWN_SENTENCES
            )
            if is_pasted and kind in {"standing", "statement"}:
                kind, weight = "request", 1.0
            if kind in kinds:
                end = word_before(sentence, LONGEST) if len(sentence) > LONGEST else LONGEST
                self.facts.add(kind, sentence[:end], who, at=at, weight=weight)
        known = frozenset(sentences)
        for sentence in (each for each in _find_middle_rules(whole) if each not in known):
            self.facts.add("constraint", sentence, who, at=at, weight=MIDDLE_WEIGHT)
        return who, text

    def read_model(self, message: Message, at: int) -> None:
        """Note a model's decisions and promises, its command, and its names."""
        text = keep_ends(message.text, SAID_CHARS, 0.5)
        words = _FENCED.sub("", text)  # a comment in code decides nothing
        for sentence in find_possible_decisions(words):
            short, light = cut_words(sentence, LONGEST), len(sentence) / 1_000
            if is_decision(sentence):
                self.facts.add("decision", short, at=at, weight=3.2 - light)
            elif is_promise(sentence) and not message.calls and not self.is_run:  # those are kept at once
                self.facts.add("promise", short, at=at, weight=3.4 - light)
        self.facts.add_check_boxes(text, at, own=False)
        # A model that calls no tools writes its command between fences: the last one, a shell's if any.
        fences = [
            (match[1].lower() in _SHELLS, place, match[2])
            for place, match in enumerate(_FENCED.finditer(message.text))
            if match[2].strip()
        ]
        is_shell, _, command = max(fences, default=(False, 0, ""))
        line = cut_words(describe_command(command.strip()), COMMAND_CHARS)
        if self.is_run and not command and (call := _TAGGED_CALL.search(text)):
            values = {key: value.strip() for key, value in _TAGGED_VALUE.findall(text, call.end())}
            command = values.get("command", values.get("path", ""))
            line = describe_action(call[1], values, COMMAND_CHARS)
        self.command = line if self.is_run else ""
        self.command_at, self.file = at, ""
        self.facts.add_values(text.partition("```")[0], at, 1.5 if self.command else 2.0)
        if may_hold_list(text) and not self.command and not message.calls:
            self.answers.append(ListAnswer(at, text))
        answer = f"proposed: {line}" if is_shell else _find_answer(words)
        if not self.command and not message.calls and answer:
            weight, who = 1.4 + 0.15 * min(4, _count_specific(answer)), self._name_speaker(message)
            self.facts.add("answer", f"{who}: {answer}" if who else answer, at=at, weight=weight)
        if self.command:
            self.facts.add("done", self.command, at=at, weight=2.0)
            self.facts.add_shell_files(command, at)
            self.file = self.facts.add_names(command[: find_cut(command, _FENCED_CHARS)], "", at, 2.6)
        self.facts.add_names(text, self.file, at, 2.4)

    def read_call(
        self, call: ToolCall, at: int, result: ToolResult | None, output: ToolResult | None
    ) -> None:
        """Note a call with its outcome: what was done, which file and names, what failed.

        `output`: its result, if that is read; of an older one it only counts whether a plan was refused.
        """
        if _add_plan(self.facts, call, at, result):
            return  # its items are told
        arguments = _read_arguments(call)
        text = describe_action(call.name, arguments, COMMAND_CHARS)
        files = file_operations.find_files([Message("assistant", (call,))])
        strings = "\n".join(_strings(arguments, 0))
        tools = file_operations.COMMON_TOOLS
        is_remover = tools.spell(call.name) in tools.removers
        removed = files.modified if is_remover else _REMOVED_BY_PATCH.findall(strings)
        if output is None or not output.is_error:  # an edit that was refused has changed nothing
            for path in files.read:
                self.facts.add("file", path, "read", at=at, weight=3.0)
            for path in files.modified:
                state = "removed" if path in removed else "changed"
                self.facts.add("file", path, state, at=at, weight=3.5)
        if isinstance(arguments, Mapping) and isinstance(arguments.get("command"), str):
            self.facts.add_shell_files(arguments["command"], at)
        file = next(iter((*files.modified, *files.read)), "")
        file = self.facts.add_names(read_ends(strings), file, at, 2.5) or file
        if output is None:
            self.facts.add("done", text, "", at=at, weight=2.0)
            return
        self.facts.add_outcome(text, read_result(output), at, failed=output.is_error)
        self.facts.add_output_names(output.text, file, at)

    def read_output(self, message: Message, at: int) -> None:
        """Note the quotes of tool results; where no call was made, also the outcome of the command before."""
        for result in message.results:
            self.facts.add_quotes(result.text, at)
        if not message.results:
            text = _REPORT_HEAD.sub("", message.text, count=1)
            self.facts.add_quotes(text, at)
            if self.command:
                self.facts.add_outcome(self.command, text, self.command_at, failed=False)
            self.facts.add_output_names(text, self.file, at)


def _find_own_sentences(text: str) -> list[str]:
    """Find the sentences of a user's text; of data that somebody pasted, the words before them stay."""
    own = (
        each if each.count('":') < PASTED_FIELDS else _DATA.split(each, maxsplit=1)[0].strip(" :,-")
        for each in split_sentences(text)
    )
    return list(filter(None, own))


def _find_middle_rules(text: str) -> list[str]:
    """Find the rules in the middle of a long text, of which the ends are read as a whole.

    It overlaps with them: a sentence that an end cuts is whole here, and those at its own edges are not.
    """
    if len(text) <= SAID_CHARS:
        return []
    half = SAID_CHARS // 2  # the tail begins behind a sentence that its cut would have split
    sentences = _find_own_sentences(text[half - LONGEST : 2 * LONGEST - half][:MIDDLE_CHARS])[1:-1]
    possible = (each for each in sentences if len(each) <= LONGEST and has_rule_words(each))
    return [each for each in possible if classify_sentence(each)[0] in FIRM_KINDS][:MIDDLE_RULES]


def _count_specific(sentence: str) -> int:
    """Count the numbers and names in a sentence."""
    signs = sentence.encode().translate(_SPECIFIC_SIGNS) if sentence.isascii() else b"\1"
    if b"\1" not in signs and b"\2\2" not in signs and b"\2\3" not in signs:
        return 0  # as in most sentences, which is found out faster
    runs = filter(_MAY_BE_SPECIFIC.search, sentence.split())
    return sum(len(_SPECIFIC.findall(run)) for run in runs)


def _find_answer(text: str) -> str:
    """Find the sentence of an answer that tells most: that with most numbers and names, else the first.

    Lines below an item of a list, and items such as `Arrival: 01:00`, tell nothing without what stands above.
    What asks for something tells nothing either, nor does courtesy without a number or a name.
    """
    read = "".join(_BOLD.split(text[: find_cut(text, ANSWER_CHARS)]))
    kept = _DETAILS.sub(lambda line: line[0] if is_failure(line[0]) else "", read)
    sentences = split_sentences(kept) or split_sentences(read)
    found = [
        (len(each) <= SHORT_ANSWER, -_count_specific(each[:LONGEST_ANSWER]), place, each)
        for place, each in enumerate(sentences)
        if not each.rstrip().endswith((":", "："))
    ]
    telling = next(
        (
            each
            for is_short, count, _, each in sorted(found)
            if not asks_back(each)  # to look at each sentence would take longer than to sort them
            and not (count == 0 and is_courtesy(each))
            and (
                not is_short
                or (
                    len(each.encode("utf-8", "surrogatepass")) > LEAST_ANSWER
                    and each.endswith(STATEMENT_ENDS)
                    and any(map(asks_back, sentences))
                )
            )
            and not is_instruction(each)
        ),
        "",
    )
    return telling if len(telling) <= LONGEST_ANSWER else f"{telling[:LONGEST_ANSWER].rpartition(' ')[0]} …"


# -- plans --------------------------------------------------------------------------------------------------


def find_todos(messages: Sequence[Message], numbers: Sequence[int]) -> list[Fact]:
    """Find the todo items in these messages: those of check boxes and of plans, in order."""
    facts, links = FactCollector(), link(messages)
    for index, (message, at) in enumerate(zip(messages, numbers, strict=True)):
        text = "" if message.role == "tool" else message.text
        if "[" in text and (own := find_own_words(message)):
            facts.add_check_boxes(keep_ends(own, SAID_CHARS, 0.5), at, own=True)
        elif "[" in text and find_speaker(message) == "assistant":
            facts.add_check_boxes(keep_ends(text, SAID_CHARS, 0.5), at, own=False)
        for place, call in enumerate(message.parts):
            if isinstance(call, ToolCall):
                answer = links.answered.get((index, place))
                result = messages[answer[0]].parts[answer[1]] if answer else None
                _add_plan(facts, call, at, result if isinstance(result, ToolResult) else None)
    return facts.facts


def _add_plan(facts: FactCollector, call: ToolCall, at: int, result: ToolResult | None) -> bool:
    """Note the items of a plan that a call wrote; False where it wrote none or was refused."""
    arguments: Any = None
    if call.name in _TASK_TOOLS:
        arguments = _read_task(_read_arguments(call), "" if result is None else read_result(result))
    elif not isinstance(call.arguments, str) or any(key in call.arguments for key in PLAN_KEYS):
        arguments = _read_arguments(call)
    known = len(facts.facts)
    if not facts.add_plan(call.name, arguments, at):
        return False
    if result is None or not (
        result.is_error or file_operations.is_refusal(read_result(result), call.arguments)
    ):
        return True
    del facts.facts[known:]  # the plan before it holds
    return False


_TASK_TOOLS: Final = frozenset({"TaskCreate", "TaskUpdate"})
"""Tools by which Claude Code keeps its plan, one call for an item. Tools of this kind with other names may
keep the tasks of a team."""
_TASK_NUMBER: Final = re.compile(r"[Tt]ask #?(\d{1,9})\b")


def _read_task(arguments: Any, result: str) -> Any:
    """Return a call that makes or changes one item as one that changes some items of a plan by their ids."""
    is_change = isinstance(arguments, Mapping) and "taskId" in arguments
    if not isinstance(arguments, Mapping) or ("status" if is_change else "subject") not in arguments:
        return arguments
    if is_change and "not found" in result:
        return None
    made = _TASK_NUMBER.search(result)
    number = arguments["taskId"] if is_change else made[1] if made else ""
    state = arguments.get("status", "pending")
    state = "cancelled" if state == "deleted" else state
    item = {"id": number, "text": arguments.get("subject", ""), "status": state}
    return {"merge": True, "todos": [item]}


# -- arguments of a call ------------------------------------------------------------------------------------


def _read_arguments(call: ToolCall) -> Any:
    """Return the arguments of a call, parsed where they are JSON text."""
    arguments = call.arguments
    return parse_arguments(arguments[:_ARGUMENT_CHARS]) if isinstance(arguments, str) else arguments


def _strings(value: Any, depth: int) -> Iterator[str]:
    """Yield all strings and numbers of arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple) and depth < _ARGUMENT_DEPTH:
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(item, depth + 1)
    elif isinstance(value, int | float):
        yield str(value)
