"""Move the summaries of a fold to another view, in place of the same messages.

A summary is paid for. The view it was made for may have changed while a model wrote it, or the conversation
may go on from an earlier message. What the fold did beside, such as shortening messages, is made anew there.
"""

from collections.abc import Iterable

from refold.core.log.folds import FoldDraft
from refold.core.log.view import OWN, Change, MessageRange, Replacement, View, ViewItem, append_item
from refold.core.messages.message import Message


def find_last_summarised(draft: FoldDraft, before: View) -> int:
    """Return the number of the last message that a fold's summaries stand for; 0 if it has none.

    before   the view that the fold was made for
    """
    numbers = (_find_numbers(change.removed, before) for change in _select_summaries(draft))
    return max((max(each, default=0) for each in numbers), default=0)


def rebase_summaries(draft: FoldDraft, before: View, after: View) -> FoldDraft | None:
    """Return a fold of the same summaries in another view; None if they cannot stand there.

    before   the view that the fold was made for
    after    a view with the same messages, as far as they are summarised
    """
    changes: list[Change] = []
    inserted: list[Message] = []
    for change in _select_summaries(draft):
        removed = _find_items(_find_numbers(change.removed, before), after)
        put: list[ViewItem] = []
        for item in change.inserted:
            if isinstance(item, Replacement) and item.fold == OWN:
                put.append(Replacement(OWN, len(inserted)))
                inserted.append(draft.inserted[item.place])
                continue
            back = _find_items(_find_numbers([item], before), after)
            if back is None:
                return None
            for piece in back:
                append_item(put, piece)
        if removed is None or _tells_more(removed, change, before, after):
            return None
        changes.append(Change(removed, tuple(put)))
    return FoldDraft(tuple(changes), tuple(inserted)) if inserted else None


def _tells_more(removed: tuple[ViewItem, ...], change: Change, before: View, after: View) -> bool:
    """True if a view shows or tells otherwise what the summary's model saw only through an older text.

    The older text may say nothing of them, such as the mark where others were cut off. A text that stands
    for the same messages is its copy on another branch.
    """
    # A text for one message is that message, shortened.
    every = (_find_numbers([item], before) for item in change.removed if isinstance(item, Replacement))
    texts = [numbers for numbers in every if len(numbers) > 1]
    now = [item for item in removed if item not in before.items]
    every = (_find_numbers([item], after) for item in now if isinstance(item, Replacement))
    newer = [numbers for numbers in every if len(numbers) > 1 and numbers not in texts]
    newer.append(_find_numbers((item for item in now if isinstance(item, MessageRange)), after))
    return any(numbers & older for numbers in newer for older in texts)


def _select_summaries(draft: FoldDraft) -> list[Change]:
    """Return the changes that put summaries, and those whose messages leave for a summary elsewhere."""
    chosen = [change for change in draft.changes if all(m.is_summary for m in _find_own(change, draft))]
    return chosen if any(_find_own(change, draft) for change in chosen) else []


def _find_own(change: Change, draft: FoldDraft) -> list[Message]:
    own = (item for item in change.inserted if isinstance(item, Replacement) and item.fold == OWN)
    return [draft.inserted[item.place] for item in own]


def _find_numbers(items: Iterable[ViewItem], view: View) -> set[int]:
    """Return the numbers of the messages that items of a view stand for."""
    ranges = (stretch for item in items for stretch in view.originals(item))
    return {number for stretch in ranges for number in range(stretch.first, stretch.last + 1)}


def _find_items(numbers: set[int], view: View) -> tuple[ViewItem, ...] | None:
    """Return the items of a view that stand for exactly these messages; None if there are none such."""
    found: list[ViewItem] = []
    covered: set[int] = set()
    for item in view.items:
        if isinstance(item, MessageRange):
            for number in range(item.first, item.last + 1):
                if number in numbers:
                    append_item(found, MessageRange(number, number))
                    covered.add(number)
            continue
        stands_for = _find_numbers([item], view)
        if stands_for and stands_for <= numbers:
            found.append(item)
            covered |= stands_for
        elif stands_for & numbers:
            return None
        elif (
            not stands_for and found and isinstance(last := found[-1], Replacement) and last.fold == item.fold
        ):
            found.append(item)  # another message of the same change, such as the answer to a summary
    return tuple(found) if covered == numbers else None
