"""The exit statuses, and the two ways a command may stop before its end."""

from typing import Final

from refold.errors import DoesNotFit, InvalidConversation, RefoldError, StoreError

DONE: Final = 0
REFUSED: Final = 1
"""Refused, or over budget."""
WRONG_USE: Final = 2
INTERRUPTED: Final = 130
"""What shells give a program that Ctrl-C ended."""
NOBODY_READS: Final = 141
"""What shells give a program whose output nobody reads any more."""


class WrongUse(RefoldError):
    """The program was called in a way that makes no sense; the message says how to call it."""


class Refused(RefoldError):
    """The program was called well and may not or cannot do it."""


def status_of(error: RefoldError) -> int:
    """The exit status for an error: what a caller can mend by calling otherwise is wrong use."""
    return (
        REFUSED if isinstance(error, Refused | DoesNotFit | InvalidConversation | StoreError) else WRONG_USE
    )


def reason(error: OSError) -> str:
    """Why the system refused, in a few words."""
    words = error.strerror
    return words[:1].lower() + words[1:] if words else type(error).__name__
