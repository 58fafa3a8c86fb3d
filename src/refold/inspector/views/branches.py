"""The branches of a session as a tree: this one first, and each other one below the one that it leaves."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from refold.core.log.entries import SAID, Entry
from refold.inspector.scopes import Scope
from refold.inspector.stored import StoredSession
from refold.inspector.views.shown import find_redactor
from refold.stores import START, Branch, Place
from refold.stores.paths import split_path
from refold.stores.reading.stored_messages import first_words, parse_entry

MOST_BRANCHES: Final = 40
"""Branches that are listed, the newest ones: nobody reads a larger tree, and each costs three reads."""
_WORDS: Final = 120
"""Characters of the first message of a branch."""


@dataclass(slots=True)
class _Node:
    """A branch that is not the one of the head."""

    ends: Place
    fork: Place
    """The last place that it shares with the branch that it leaves."""
    parent: int | None
    """The line of the branch that it leaves; None for the one of the head."""
    below: list[int] = field(default_factory=list)


def list_branches(scope: Scope, stored: StoredSession) -> list[dict[str, Any]]:
    """Return the branches in the order of a tree, each with its end and where it leaves the one above.

    `depth` says how far below this branch one stands, `from` the last message that it shares with it.
    """
    head = stored.head
    here = {"tip": head.name, "said": head.said, "from": 0, "at": 0.0, "here": True, "depth": 0, "line": ""}
    nodes = _grow_tree(scope.store.branches(stored.name), head.place)
    roots = [line for line, node in nodes.items() if node.parent not in nodes]
    return [here, *_describe(scope, stored, nodes, roots, 1)]


def _grow_tree(lines: list[Branch], head: Place) -> dict[int, _Node]:
    """Return the branches beside the head's own, by their lines; what the head's path uses is none."""
    begins = {branch.ends.line: branch.begins for branch in lines}
    path = {line: through for line, _, through in split_path(head, begins)}
    nodes: dict[int, _Node] = {}
    for branch in lines[-MOST_BRANCHES:]:
        line, through = branch.ends.line, path.get(branch.ends.line)
        if through is None:
            is_here = branch.begins == START or branch.begins.seq <= path.get(branch.begins.line, -1)
            nodes[line] = _Node(branch.ends, branch.begins, None if is_here else branch.begins.line)
        elif through < branch.ends.seq:  # the path has left it, or the head stands in the midst of it
            nodes[line] = _Node(branch.ends, Place(line, through), None)
    for line, node in nodes.items():
        if node.parent is not None and node.parent in nodes:
            nodes[node.parent].below.append(line)
    return nodes


def _describe(
    scope: Scope, stored: StoredSession, nodes: dict[int, _Node], lines: list[int], depth: int
) -> Iterator[dict[str, Any]]:
    for line in lines:
        node = nodes[line]
        below = list(_describe(scope, stored, nodes, node.below, depth + 1))
        tip, fork = _read_at(scope, stored, node.ends), _read_at(scope, stored, node.fork)
        shared = 0 if fork is None else fork.said
        if tip is None or (tip.said <= shared and not below):
            continue  # marks alone: nothing was said there
        words = _read_words(scope, stored, node.ends, shared + 1)
        about = {"tip": tip.name, "said": tip.said, "from": shared, "at": tip.at, "here": False}
        yield {**about, "depth": depth, "line": words}
        yield from below


def _read_at(scope: Scope, stored: StoredSession, place: Place) -> Entry | None:
    return None if place == START else next(iter(scope.store.read(stored.name, place, newest=True)), None)


def _read_words(scope: Scope, stored: StoredSession, place: Place, number: int) -> str:
    """Return the first words of a message of a branch."""
    entries = scope.store.read(stored.name, place, kinds=SAID, first=number, last=number)
    found = [first_words(parse_entry(entry), _WORDS) for entry in entries]
    return find_redactor(show=False)(found[0])[0][:_WORDS] if found else ""
