"""Records that name their parents: the branch that leads to the last word, however broken the links are."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Branch:
    """The way from the root to a leaf."""

    path: tuple[int, ...]
    """Indexes of the nodes, the root first."""
    missing: tuple[int, ...] = ()
    """Nodes whose parent is not there; the node before them in the file was taken for it."""
    cycle: int | None = None
    """The node at which the way came back to itself, where it did."""
    above: Sequence[int | None] = ()
    """The parent of every node, also of those beside the way."""


@dataclass(frozen=True, slots=True)
class Node:
    """A record as a tree knows it."""

    name: str
    parent: str | None
    """None for a root."""


def named(nodes: Sequence[Node]) -> dict[str, list[int]]:
    """Where each name stands; a name may stand several times."""
    found: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        found.setdefault(node.name, []).append(index)
    return found


def parents(nodes: Sequence[Node]) -> tuple[list[int | None], list[int]]:
    """The parent of each node by index, and the nodes whose parent is missing.

    Of several nodes of one name the nearest before the child is meant, else the first behind it. Where no
    node has the name, what the parent said is lost, and the node before stands in for it.
    """
    places = named(nodes)
    found: list[int | None] = []
    missing: list[int] = []
    for index, node in enumerate(nodes):
        if node.parent is None:
            found.append(None)
            continue
        at = places.get(node.parent)
        if at is None:
            missing.append(index)
            found.append(index - 1 if index else None)
        else:
            found.append(at[max(0, bisect_left(at, index) - 1)])
    return found, missing


def branch(nodes: Sequence[Node], leaf: int) -> Branch:
    """The way to a leaf; each node once, also where the links go round."""
    above, missing = parents(nodes)
    lost = set(missing)
    path: list[int] = []
    seen: set[int] = set()
    at: int | None = leaf
    while at is not None and at not in seen:
        seen.add(at)
        path.append(at)
        at = above[at]
    return Branch(tuple(reversed(path)), tuple(sorted(lost & seen)), at, above)


def anchored(way: Branch, wanted: Iterable[int]) -> list[int]:
    """The path, with those nodes beside it that are wanted, each behind the node of the path it hangs on."""
    depth: dict[int, int] = {index: place for place, index in enumerate(way.path)}
    keyed = [(place, -1, index) for index, place in depth.items()]
    beside = sorted(set(wanted) - set(way.path))
    keyed += [(_depth(index, way.above, depth), index, index) for index in beside]
    return [index for _, _, index in sorted(keyed)]


def _depth(index: int, above: Sequence[int | None], depth: dict[int, int]) -> int:
    """How deep on the path the nearest ancestor stands; before all of it where there is none."""
    way: list[int] = []
    at: int | None = index
    while at is not None and at not in depth:
        way.append(at)
        depth[at] = -1  # whoever comes here again goes round
        at = above[at]
    found = -1 if at is None else depth[at]
    for passed in way:
        depth[passed] = found
    return found
