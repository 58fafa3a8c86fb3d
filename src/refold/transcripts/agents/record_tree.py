"""Records that name their parents: the branch that leads to a leaf, even if the links are broken."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Branch:
    """The path from the root to a leaf."""

    path: tuple[int, ...]
    """Indexes of the nodes, the root first."""
    missing: tuple[int, ...] = ()
    """Nodes on the path whose parent is missing; the node before them in the file takes its place."""
    cycle: int | None = None
    """The node at which the path first returned to itself; None if it did not."""
    parents: Sequence[int | None] = ()
    """The parent of every node, also of those that are not on the path."""


@dataclass(frozen=True, slots=True)
class Node:
    """A record as the tree knows it."""

    name: str
    parent: str | None
    """None for a root."""


def find_parents(nodes: Sequence[Node]) -> tuple[list[int | None], list[int]]:
    """Return the parent of each node by index, and the nodes whose parent is missing.

    If several nodes have the parent's name, the nearest one before the child is meant, else the first behind
    it. If no node has the name, the node before the child takes its place.
    """
    places: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        places.setdefault(node.name, []).append(index)
    parents: list[int | None] = []
    missing: list[int] = []
    for index, node in enumerate(nodes):
        if node.parent is None:
            parents.append(None)
        elif (same_name := places.get(node.parent)) is not None:
            parents.append(same_name[max(0, bisect_left(same_name, index) - 1)])
        else:
            missing.append(index)
            parents.append(index - 1 if index else None)
    return parents, missing


def find_branch(nodes: Sequence[Node], leaf: int) -> Branch:
    """Return the path to a leaf; each node is on it once, even if the links form a circle.

    Behind a circle it goes on before the first node that it has passed, as for a missing parent.
    """
    parents, missing = find_parents(nodes)
    path: dict[int, None] = {}
    cycle: int | None = None
    node: int | None = leaf
    first = leaf
    while node is not None:
        path[node], first = None, min(first, node)
        node = parents[node]
        if node in path:
            cycle = node if cycle is None else cycle
            node = first - 1 if first else None
    return Branch(tuple(reversed(path)), tuple(index for index in missing if index in path), cycle, parents)


def add_side_nodes(branch: Branch, wanted: Iterable[int]) -> list[int]:
    """Return the path with the wanted nodes beside it, each behind its nearest ancestor on the path."""
    depth: dict[int, int] = {index: place for place, index in enumerate(branch.path)}
    keyed = [(place, -1, index) for index, place in depth.items()]
    for index in sorted(set(wanted) - set(branch.path)):
        passed: list[int] = []
        node: int | None = index
        while node is not None and node not in depth:
            passed.append(node)
            depth[node] = -1  # whoever comes here again walks in a circle
            node = branch.parents[node]
        # a node without an ancestor on the path stands before all of it
        place = -1 if node is None else depth[node]
        depth.update(dict.fromkeys(passed, place))
        keyed.append((place, index, index))
    return [index for _, _, index in sorted(keyed)]
