"""A page of sections that is filled with facts within a budget of tokens. Knows nothing of stages.

Each line says what the thing is: a user's words with the number of their message, a command with its
outcome, a name with its file or its kind. `read_page` reads such a text back.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Final

from refold.core.facts.entities import FILE, PATH, entity_kind
from refold.core.facts.ledger import SEEN_ONLY, SETTLED, USER_KINDS, Fact, Ledger, rank_value
from refold.core.messages.file_operations import FILE_STATE, FILES
from refold.core.messages.text_cutting import cut_words
from refold.core.outputs.actions import judge_action, name_tool, shows_content
from refold.core.outputs.outcome import cut_result
from refold.core.tokens.findings import Findings

Count = Callable[[str], int]

SAID, IN_BRIEF = "What the user said", "What was told, in brief"
ANSWERED, DECIDED, OPEN = "What was answered", "Decisions and promises", "Open"
DONE, FAILED = "What was done and printed", "What failed"
"""The first names the source of outcomes: a tool may print an order, and nobody gave that."""
VALUES = "Names and values"
OUTPUTS: Final = "Latest outputs"
"""A section of free lines in a digest; no facts are read back from it."""
LISTED = "What the assistant listed"
QUOTED = "Found in tool results, not said by the user"
FILE_RULES = "Rules in files that were read, not said by the user"
TITLES: Final = (
    SAID,
    IN_BRIEF,
    FILE_RULES,
    ANSWERED,
    DECIDED,
    OPEN,
    DONE,
    FAILED,
    LISTED,
    FILES,
    VALUES,
    QUOTED,
)

JOINT: Final = " … "
"""Between sentences of one line."""
ARROW: Final = " → "
"""Between a command and its outcome."""
UNNAMED_LIST: Final = "a list"
"""Stands for the subject of a list where nothing tells it."""
HANDLE_TOKENS: Final = 5
"""Tokens of a list mark and a message number, about; too high leaves a little room unused."""
MOST_MISSES: Final = 3
"""Actions that are passed over because they are too long; an older one behind more of them tells nothing."""
_BARE_COMMAND: Final = 24
"""Characters of a command beside its file that say nothing more: `cat <<'EOF' >`, `write_file`."""
_BRIEF_PER_LINE: Final = 8
"""Statements in brief that share a line: fewer marks to pay for, and still readable."""
_TOKEN_WORTH: Final = 0.08
"""Rank that one token of a name must be worth: of two names of one rank the shorter comes first."""
_PATH_KINDS: Final = frozenset({PATH, FILE})
_NAME_KINDS: Final = frozenset({"file", "name", "value"})
_SECTION_KINDS: Final = {
    ANSWERED: frozenset({"answer"}),
    DECIDED: frozenset({"decision", "promise"}),
    OPEN: frozenset({"todo", "open call"}),
    DONE: frozenset({"done"}),
    FAILED: frozenset({"error"}),
    QUOTED: frozenset({"quoted"}),
    FILE_RULES: frozenset({"file rule"}),
}
TWIN_SECTIONS: Final = {ANSWERED: DECIDED, DECIDED: ANSWERED}
"""Sections that may hold one sentence of the model: it is told in the first of them."""
OPEN_PART: Final = 3
"""Part of the room left that open items may have: a share of a small page holds one, and a plan has five."""
_TROUBLE_CHARS: Final = 60
"""Characters of trouble by which it is known again in an outcome, which holds about a hundred."""
_SAYS_LITTLE: Final = re.compile(r"ok, no output|\d+ lines: |$")
"""Outcome of a command that only wrote or showed a file."""
CHANGE_LENGTHS: Final = ((80, 60), (64, 40), (60, 20))
"""Characters of a call that changed something, and of what came of it: its object, an id and its state. Three
whole ones would fill a page. The first lengths at which all changes fit are taken: of 1,608 changes in joined
tau-bench runs 1,474 are told with their object, with the longest alone 1,407."""
MOST_CHANGES: Final = 60
"""Changes that are measured for it; more do not fit in a page."""
_LONGEST: Final = 240
"""Characters of a name; more are data."""
_TOKEN: Final = re.compile(rf"[\w./@~-]{{2,{_LONGEST}}}")
_WORD: Final = re.compile(rf"\w{{2,{_LONGEST}}}")


@dataclass(slots=True)
class Page:
    """Sections that are being filled within a budget of tokens."""

    count: Count
    left: int
    """Tokens that may still be used."""
    seen: set[str] = field(default_factory=set)
    """Words and names that are shown already; a name among them is not shown again."""
    beside: str = ""
    """Words of people in messages that stay beside the page."""
    facts: dict[str, list[Fact]] = field(default_factory=dict)
    """The facts of each section."""
    groups: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {FILES: {}, VALUES: {}})
    """The names under each line of the two sections that have such lines."""
    shown: set[int] = field(default_factory=set)
    """Identities of the facts that are shown."""
    said: list[tuple[Fact, int]] | None = None
    """The user's sentences that are not beside the page, with their tokens; None until they are asked for."""
    texts: dict[int, str] = field(default_factory=dict)
    """Texts of the facts of sections, by their identities; some are told in short."""
    found: Findings = field(default_factory=Findings)
    """What was found in texts before: the same facts are chosen among more than once, and fold after fold."""

    @property
    def text(self) -> str:
        """The sections in their order."""
        return "\n\n".join(
            f"## {title}\n" + "\n".join(lines) for title in TITLES if (lines := self._format_lines(title))
        )

    def _format_lines(self, title: str) -> list[str]:
        if title in self.groups:
            return self._format_groups(title)
        facts = sorted(self.facts.get(title, ()), key=lambda fact: fact.at)
        if title == IN_BRIEF:
            return self._format_brief(facts)
        if title == LISTED:
            lists: dict[str, list[str]] = {}
            for fact in facts:
                head = f"- #{fact.at} {fact.about or UNNAMED_LIST}: "
                lists.setdefault(head, []).append(fact.text.replace(";", ","))
            return [head + "; ".join(names) for head, names in lists.items()]
        lines: list[str] = []
        last = None
        for fact in facts:
            text = " ".join((self.texts.get(id(fact)) or format_fact(fact)).splitlines())
            if title == SAID and fact.at == last:  # sentences of one message share a line
                lines[-1] += JOINT + text
            else:
                lines.append(f"- #{fact.at} {text}")
            last = fact.at
        return lines

    def _format_groups(self, title: str) -> list[str]:
        """Format a line for each thing that has names; files without names share one, by their state."""
        lines: list[str] = []
        states: dict[str, list[str]] = {}
        for written, names in self.groups[title].items():
            head = " ".join(written.split())  # a path may hold a line break, and what looks like a heading
            state = None if names else FILE_STATE.fullmatch(head)
            if state:
                states.setdefault(state[2], []).append(f"{state[1]} #{state[3]}")
            else:
                lines.append(f"- {head}: {', '.join(names)}" if names else f"- {head}")
        return [*lines, *(f"- {state}: {', '.join(files)}" for state, files in states.items())]

    @staticmethod
    def _format_brief(facts: Sequence[Fact]) -> list[str]:
        """Format statements in brief, a few messages a line, or one line a person where several speak."""
        lines: dict[str, list[str]] = {}
        last: dict[str, int] = {}
        for place, fact in enumerate(facts):
            head = f"{fact.about}: " if fact.about else "\n" * (place // _BRIEF_PER_LINE)
            text = fact.text.replace("\n", " ")
            lines.setdefault(head, []).append(text if last.get(head) == fact.at else f"#{fact.at} {text}")
            last[head] = fact.at
        return [f"- {head.strip(chr(10))}{JOINT.join(pieces)}" for head, pieces in lines.items()]

    def add(self, fact: Fact, text: str, cost: int) -> None:
        """Note that a fact is shown by this text at this cost."""
        self.shown.add(id(fact))
        self.seen.update(self.found.find(words_and_names, text))
        self.left -= cost

    def title_cost(self, title: str) -> int:
        """Return tokens of a heading."""
        return self.count(f"## {title}\n\n")


def words_and_names(text: str) -> Iterable[str]:
    """Return the words of a text, its names and paths, and all ends of its paths."""
    runs = set(text.split())
    words = {run for run in runs if run.isalnum() and 2 <= len(run) <= _LONGEST}
    others = " ".join(runs - words)
    words.update(_WORD.findall(others))
    for token in set(_TOKEN.findall(others)) - words:
        name = token.strip(".-")
        words.add(name)
        while "/" in name:
            name = name.partition("/")[2]
            words.add(name)
    return words


def format_fact(fact: Fact, lengths: tuple[int, int] | None = None) -> str:
    """Format a fact without its number; `lengths`: most characters of a call and of what came of it."""
    if fact.kind in {"todo", "open call"}:
        return f"[{fact.about}] {fact.text}"
    if fact.kind == "done":
        outcome = fact.about.removeprefix(f"{fact.text.rpartition(' ')[2]}: ")  # it may name the file again
        action = fact.text
        if lengths and _is_call(fact):
            action, outcome = cut_words(action, lengths[0]), cut_result(outcome, lengths[1])
        return f"{action}{ARROW}{outcome}" if outcome else action
    if fact.kind == "error" and "(" in fact.about.partition(" ")[0]:
        return f"{fact.about.partition('(')[0]}: {fact.text}"
    if fact.kind == "quoted":
        return f'"{fact.text}"'
    if fact.kind == "file rule":
        return f'{fact.about}: "{fact.text}"'
    return f"{fact.about}: {fact.text}" if fact.kind in USER_KINDS and fact.about else fact.text


# -- filling ------------------------------------------------------------------------------------------------


def fill_section(
    page: Page, ledger: Ledger, title: str, budget: int, *, brief: bool = False, newest: bool = False
) -> None:
    """Fill a section with the most important facts that fit and are not shown yet.

    `brief`: without actions of which the list of files tells as much; `newest`: the newest facts first.
    """
    in_section = page.facts.setdefault(title, [])
    heading = 0 if in_section else page.title_cost(title)
    budget = min(max(budget, page.left // OPEN_PART * (title == OPEN)), page.left) - heading
    if budget < HANDLE_TOKENS:
        return
    misses, files, lengths = 0, dict[int, list[str]](), dict[int, tuple[int, int]]()
    if title == DONE:
        of_kind, newest_first, made = page.found.find_in(_read_actions, ledger)
        lengths = _choose_lengths(page, made, budget)
        for file in (each for each in ledger.of("file") if brief or id(each) in page.shown):
            files.setdefault(file.at, []).append(file.text)
    else:
        of_kind = [fact for fact in ledger.of(*_SECTION_KINDS[title]) if _belongs(fact, title, page)]
        newest_first = sorted(of_kind, key=lambda fact: -fact.at)
    # The newest actions lead to the next one; other facts have a rank of their own.
    for fact in newest_first if newest or title in {DONE, OPEN} else Ledger(tuple(of_kind)).by_rank():
        if id(fact) in page.shown or any(_tells_only_file(fact, path) for path in files.get(fact.at, ())):
            continue
        # The outcome of a command that failed already says what failed.
        if title == FAILED and any(_tells_trouble(done, fact) for done in page.facts.get(DONE, ())):
            continue
        text = page.texts[id(fact)] = format_fact(fact, lengths.get(id(fact)))
        if (cost := page.count(text) + HANDLE_TOKENS) <= budget:
            budget -= cost
            in_section.append(fact)
            page.add(fact, text, cost + heading)
            heading = 0
            if title == DONE and (failed := page.facts.get(FAILED)):
                failed[:] = [error for error in failed if not _tells_trouble(fact, error)]
        elif title == DONE and (misses := misses + 1) > MOST_MISSES:
            break
    order = {id(fact): place for place, fact in enumerate(of_kind)}
    in_section.sort(key=lambda fact: order[id(fact)])


def _belongs(fact: Fact, title: str, page: Page) -> bool:
    """False for a settled item, and for what a twin section tells."""
    twins = page.facts.get(TWIN_SECTIONS.get(title, ""), ())
    return (title != OPEN or fact.about not in SETTLED) and all(fact.text != twin.text for twin in twins)


def _read_actions(ledger: Ledger) -> tuple[list[Fact], list[Fact], list[Fact]]:
    """Return the actions that tell something, the same in the order in which they matter, and the changes.

    A thought, and a lookup that found nothing, tells nothing.
    """
    actions = [f for f in ledger.of("done") if f.about not in {"", "ok, no output"} or not _is_lookup(f)]
    is_service = not ledger.of("file")
    ordered = _order_actions(sorted(actions, key=lambda fact: -fact.at), is_service=is_service)
    return actions, ordered, [fact for fact in ordered if _is_change(fact, sure=not is_service)]


def _choose_lengths(page: Page, made: Sequence[Fact], budget: int) -> dict[int, tuple[int, int]]:
    """Return the lengths of each change, by its identity: the first with which all fit, else the fewest."""
    left = [fact for fact in made if id(fact) not in page.shown][:MOST_CHANGES]
    for lengths in CHANGE_LENGTHS:
        if sum(page.count(format_fact(fact, lengths)) + HANDLE_TOKENS for fact in left) <= budget:
            break
    return dict.fromkeys(map(id, made), lengths)


def _order_actions(facts: Sequence[Fact], *, is_service: bool) -> list[Fact]:
    """Return actions, the newest first, so that lookups do not push out what changed something.

    The changes of a service come first, as each settles an order; a lookup of what was changed later tells an
    old state and comes last. Elsewhere a change for good stands between two other actions, and any between
    two lookups, as long as one is left. What no name tells comes once by its age and once by its rarity.
    """
    made = [fact for fact in facts if _is_change(fact)]
    others = [fact for fact in facts if not _is_change(fact)]
    if is_service:
        changed = {_find_object(fact): fact.at for fact in reversed(made) if _is_call(fact)}
        looked = [fact for fact in others if _is_lookup(fact)]
        unsure = [fact for fact in others if not _is_lookup(fact)]
        in_turn = chain.from_iterable(zip(unsure, _vary_tools(unsure), strict=True))
        looked.sort(key=lambda fact: changed.get(_find_object(fact), -1) > fact.at)
        return list({id(fact): fact for fact in (*_vary_tools(made), *in_turn, *looked)}.values())
    looked_up = {id(f) for f in others if _is_lookup(f) or shows_content(f.text)}
    changes, lookups = (deque(f for f in others if (id(f) in looked_up) is looks) for looks in (False, True))
    order: list[Fact] = []
    is_after_lookup = True  # what was found can be looked up again; how a run ended is the state of the work
    while changes and lookups:
        is_after_lookup = not is_after_lookup and lookups[0].at > changes[0].at
        order.append((lookups if is_after_lookup else changes).popleft())
    order += [*changes, *lookups]
    return [fact for pair in zip_longest(_vary_tools(made), order) for fact in pair if fact is not None]


def _vary_tools(facts: Sequence[Fact]) -> list[Fact]:
    """Return actions, the first of each tool before a second one: frequent ones push out no other."""
    seen: Counter[str] = Counter()
    turns: list[tuple[int, Fact]] = []
    for fact in facts:
        tool = name_tool(fact.text)
        turns.append((seen[tool], fact))
        seen[tool] += 1
    return [fact for _, fact in sorted(turns, key=lambda turn: turn[0])]


def _is_change(fact: Fact, *, sure: bool = True) -> bool:
    """True if an action changed something for good, or may have where that need not be sure."""
    judged = judge_action(fact.text)
    return judged in {"change", "change" if sure else ""} and not fact.has_failed


def _is_call(fact: Fact) -> bool:
    """True for a call of an interface; other actions are commands."""
    return "(" in fact.text.partition(" ")[0]


def _find_object(fact: Fact) -> str:
    """Return the first argument of a call, which names the thing that it is about."""
    return fact.text.partition("(")[2].partition(",")[0].rstrip(")")


def _is_lookup(fact: Fact) -> bool:
    """True if a call of an interface only looked something up."""
    return judge_action(fact.text) == "lookup"


def _tells_trouble(done: Fact, error: Fact) -> bool:
    """True if the outcome of an action says what failed; it may have only the beginning of a long line."""
    return error.text[:_TROUBLE_CHARS] in done.about


def _tells_only_file(fact: Fact, path: str) -> bool:
    """True if an action only wrote or showed a file, which the state of that file tells too."""
    is_bare = path in fact.text and len(fact.text) - len(path) <= _BARE_COMMAND
    return is_bare and _SAYS_LITTLE.match(fact.about) is not None


def fill_changed(page: Page, ledger: Ledger, budget: int) -> None:
    """List the files that were changed, the newest first: what the work has left behind."""
    budget = min(budget, page.left)
    file_lines = page.found.find_in(_format_file_lines, ledger)
    heads = page.groups[FILES]
    heading = 0 if heads else page.title_cost(FILES)
    for fact in sorted(ledger.of("file"), key=lambda fact: -fact.at):
        line = file_lines[fact.text]
        if line in heads or not line.endswith(f"(changed #{fact.at})"):
            continue
        cost = page.count(f"{line}, ") + heading
        if cost <= budget:
            budget -= cost
            page.add(fact, line, cost)
            heads[line] = []
            heading = 0


def fill_names(page: Page, ledger: Ledger, budget: int) -> None:
    """Fill the sections of files, names and values with what is most likely used again."""
    budget = min(budget, page.left)
    budget -= sum(page.title_cost(title) for title, heads in page.groups.items() if not heads)
    if budget < 0:  # nothing fits, but a name that is seen anyway is shown
        page.shown.update(id(fact) for fact in ledger.of("name") if fact.text in page.seen)
        return
    file_lines = page.found.find_in(_format_file_lines, ledger)
    # A page is filled from one ledger, in several steps and mostly twice.
    for fact, size in page.found.find_in(_rank_names, ledger, page.count):
        if id(fact) in page.shown:
            continue
        if fact.kind == "name" and fact.text in page.seen:
            page.shown.add(id(fact))
            continue
        title, head, item = _place_name(fact, file_lines)
        heads = page.groups[title]
        cost = (size if item else 0) + (0 if head in heads else page.count(f"- {head}:\n"))
        if cost <= budget:
            budget -= cost
            page.add(fact, item if head in heads else f"{head} {item}", cost)
            heads.setdefault(head, []).extend([item] if item else [])


def _rank_names(ledger: Ledger, count: Count) -> list[tuple[Fact, int]]:
    """Rank files, names and values, each with the tokens of its text."""
    newest = max((fact.at for fact in ledger.facts), default=0)
    sized = [(fact, count(f", {fact.text}")) for fact in ledger.of(*_NAME_KINDS)]
    ranks = {id(fact): _TOKEN_WORTH * size - rank_value(fact, newest) for fact, size in sized}
    return sorted(sized, key=lambda each: (ranks[id(each[0])], each[0].at, each[0].text))


def _place_name(fact: Fact, file_lines: dict[str, str]) -> tuple[str, str, str]:
    """Return the section, the line and the item in that line for a fact."""
    if fact.kind == "value":
        return VALUES, f"{fact.about} = {fact.text} (#{fact.at})", ""
    if fact.kind == "file" or fact.about in _PATH_KINDS:
        return FILES, file_lines.get(fact.text, fact.text), ""
    if fact.about in file_lines:
        return FILES, file_lines[fact.about], fact.text
    return VALUES, entity_kind(fact.text) or fact.about, fact.text


def _format_file_lines(ledger: Ledger) -> dict[str, str]:
    """Format a line for each path that somebody worked with: its longest spelling, and its state."""
    files = ledger.of("file")
    names = ledger.of("name")
    mentioned = [fact.text for fact in names if fact.about in _PATH_KINDS and fact.weight >= SEEN_ONLY]
    by_name: dict[str, list[str]] = {}
    for path in dict.fromkeys([*(fact.text for fact in files), *mentioned]):
        by_name.setdefault(path.rsplit("/", 1)[-1], []).append(path)
    worked = {fact.text for fact in files}

    def is_same(path: str, longer: str) -> bool:
        """True if two paths are one file: a/b.py and /home/a/b.py, if somebody worked with both."""
        is_whole = "/" in path and longer in worked and longer.startswith(("/", "~"))
        return longer.endswith(f"/{path}") and (is_whole or path not in worked)

    longest: dict[str, str] = {}
    for same_name in by_name.values():
        same_name.sort(key=len, reverse=True)
        for path in same_name:
            bare = path.removeprefix("./")
            other = next((longer for longer in same_name if is_same(bare, longer)), None)
            longest[path] = other or (bare if bare in same_name else path)
    state: dict[str, Fact] = {}
    for file in files:
        where = longest[file.text]
        if where not in state or state[where].about != "changed" or file.about != "read":
            state[where] = file
    return {
        path: f"{where} ({state[where].about} #{state[where].at})" if where in state else where
        for path, where in longest.items()
    }
