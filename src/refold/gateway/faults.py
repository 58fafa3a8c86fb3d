"""Errors in the words of a log: their kind and their place, never their message, which may quote a text."""

from pathlib import Path
from traceback import extract_tb


def describe_fault(error: BaseException) -> str:
    """Return the kind of an error and where it was raised."""
    frames = extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
