"""Entries for the tests of stores, made as sessions make them, and the values that stores take and return."""

from refold.core.log.entries import KINDS, MARKS, ROOT, Entry, make_entry
from refold.stores import START, Head, Place

__all__ = [
    "KINDS",
    "MARKS",
    "ROOT",
    "START",
    "Entry",
    "Head",
    "Place",
    "bodies",
    "chain",
    "make_entry",
    "mark",
    "said",
]


def said(number, text="", *, parent=ROOT, body=None, at=1.0):
    """The message of this number."""
    text = text or f"message {number}"
    return make_entry(
        "said", body if body is not None else {"content": text}, parent=parent, said=number, text=text, at=at
    )


def chain(*texts, parent=ROOT, after=0):
    """Messages one after the other."""
    made = []
    for number, text in enumerate(texts, after + 1):
        made.append(said(number, text, parent=made[-1].name if made else parent))
    return made


def mark(kind, value, behind):
    """Anything but a message, behind an entry."""
    return make_entry(kind, value, parent=behind.name, said=behind.said)


def bodies(entries):
    return [entry.value["content"] for entry in entries]
