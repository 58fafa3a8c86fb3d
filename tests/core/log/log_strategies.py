"""Logs for the property tests of the core: talk, folds of what is shown, unfolds and marks in any order."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from refold.core.compaction.edits import Edit
from refold.core.log.entries import ROOT, make_entry
from refold.core.log.folds import draft_fold
from refold.core.log.view import MessageRange, Replacement, View, changes_to_json, step
from refold.core.messages.message import Message, Text


def single(piece):
    """A piece as pieces of one message each."""
    return (
        [piece]
        if isinstance(piece, Replacement)
        else [MessageRange(n, n) for n in range(piece.first, piece.last + 1)]
    )


def atoms_of(view):
    return [atom for piece in view.items for atom in single(piece)]


def numbers(runs):
    return [number for run in runs for number in range(run.first, run.last + 1)]


def words(text):
    return Message("user", (Text(text),))


@dataclass
class Talk:
    """A log as it grows, every view it had, and the message of each atom."""

    entries: list = field(default_factory=list)
    views: list = field(default_factory=lambda: [View()])
    messages: dict = field(default_factory=dict)
    tip: str = ROOT

    @property
    def view(self):
        return self.views[-1]

    @property
    def shown(self):
        """The messages that the model sees."""
        return [self.messages[atom] for atom in atoms_of(self.view)]

    def append(self, kind, value, *, said=None):
        parent = self.entries[-1].name if self.entries else ROOT
        made = make_entry(kind, value, parent=parent, said=self.view.said if said is None else said)
        self.entries.append(made)
        self.views.append(step(self.view, made))
        return made.name

    def say(self, count=1):
        for _ in range(count):
            number = self.view.said + 1
            made = make_entry("said", f"#{number}", parent=self.tip, said=number)
            self.tip = made.name
            self.entries.append(made)
            self.messages[MessageRange(number, number)] = words(f"#{number}")
            self.views.append(step(self.view, made))
        return self

    def fold(self, edits):
        """Append the fold of these edits of what is shown."""
        found = draft_fold(atoms_of(self.view), edits)
        value = {"changes": changes_to_json(found.changes), "number": len(self.entries)}
        name = self.append("fold", value)
        self.messages |= {Replacement(name, place): message for place, message in enumerate(found.inserted)}
        return name

    def take(self, start, end, *put):
        """Fold the places [start, end) of what is shown; numbers in `put` are places that are kept."""
        return self.fold([edit_of(self.shown, start, end, put)])

    def unfold(self, name):
        self.append("unfold", {"fold": name})
        return self


def edit_of(shown, start, end, put):
    messages = tuple(shown[item] if isinstance(item, int) else words(item) for item in put)
    return Edit(start, end, messages, "test", took=tuple(shown[start:end]))


@st.composite
def edits(draw, shown, *, moving=True):
    """Edits of a list: stretches apart, some kept in it, some put in, some put elsewhere or twice."""
    done = []
    at = 0
    for _ in range(draw(st.integers(1, 3))):
        start = min(len(shown), at + draw(st.integers(0, 3)))
        end = min(len(shown), start + draw(st.sampled_from([0, 1, 1, 2, 4, 9])))
        put = []
        for place in range(start, end):
            put += ["new"] * (draw(st.integers(0, 3)) == 0)
            put += [place] * draw(st.booleans())
        put += ["new"] * draw(st.integers(0 if start < end else 1, 2))
        if moving and len(put) > 1 and draw(st.integers(0, 3)) == 0:
            put = draw(st.permutations(put)) + draw(st.sampled_from([[], put[:1]]))
        done.append(
            edit_of(shown, start, end, [f"{item} {start}" if item == "new" else item for item in put])
        )
        at = end
    return done


OTHERS = st.sampled_from(
    [
        ("usage", {"input": 1}),
        ("attempt", {"counted": True}),
        ("checkpoint", {"name": "a", "said": 1}),
        ("checkpoint", {"name": "b", "said": 0}),
        ("pin", {"said": 1, "pinned": True}),
        ("pin", {"said": 1, "pinned": False}),
        ("pin", {"said": 2, "pinned": True}),
        ("system", ["obey"]),
        ("system", []),
    ]
)


@st.composite
def talks(draw, *, unfolds=True, moving=True):
    """A log with folds over folds."""
    talk = Talk().say(draw(st.integers(0, 6)))
    for _ in range(draw(st.integers(0, 10))):
        act = draw(st.sampled_from(["say", "fold", "fold", "fold", "unfold", "other"]))
        standing = talk.view.standing
        if act == "say":
            talk.say(draw(st.integers(1, 4)))
        elif act == "fold" and talk.view.items:
            talk.fold(draw(edits(talk.shown, moving=moving)))
        elif act == "unfold" and unfolds and standing:
            talk.unfold(draw(st.sampled_from(standing)).name)
        elif act == "other":
            talk.append(*draw(OTHERS))
    return talk
