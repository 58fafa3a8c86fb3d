"""The exit statuses, and the two errors by which a command stops early."""

from typing import Final

from refold.errors import AnswerFailed, DoesNotFit, InvalidConversation, Overflow, RefoldError, StoreError

DONE: Final = 0
REFUSED: Final = 1
"""Refused, or over budget."""
WRONG_USE: Final = 2
INTERRUPTED: Final = 130
"""The status that shells give a program that Ctrl-C ended: 128 + SIGINT."""
NOBODY_READS: Final = 141
"""The status that shells give a program whose reader is gone: 128 + SIGPIPE."""


class WrongUse(RefoldError):
    """The call makes no sense; the message says how to call the program."""


class Refused(RefoldError):
    """The call is well formed, but the program cannot or may not do it."""


def status_of(error: RefoldError) -> int:
    """Return the exit status for an error; what another call would avoid is wrong use."""
    refused = Refused | AnswerFailed | DoesNotFit | InvalidConversation | Overflow | StoreError
    return REFUSED if isinstance(error, refused) else WRONG_USE


def describe_os_error(error: OSError) -> str:
    """Return the system's reason in a few words."""
    words = error.strerror
    return words[:1].lower() + words[1:] if words else type(error).__name__
