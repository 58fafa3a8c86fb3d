"""Whether entries stand behind their parents, told as they come in the order they were stored."""

from refold.core.log.entries import ROOT, Entry
from refold.stores import START, Place


class Parents:
    """What stands at each place that was seen."""

    def __init__(self) -> None:
        self._seen: dict[Place, tuple[str, str | None]] = {START: (ROOT, ROOT)}
        """The name there and that of the last message, None where it is not known."""

    def __contains__(self, place: Place) -> bool:
        return place in self._seen

    def wrong(self, entry: Entry, place: Place, behind: Place) -> str:
        """What is wrong with an entry's parent; "" where nothing is, or where nobody knows."""
        before, message = self._seen.get(behind, (None, None))
        self._seen[place] = (entry.name, entry.name if entry.kind == "said" else message)
        due = message if entry.kind == "said" else before
        if due is None or due == entry.parent:
            return ""
        return f"entry {entry.name} stands behind {due or 'the start'} and not behind its parent"
