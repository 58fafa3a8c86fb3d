"""Checks of the options of every adapter: wrong ones are refused when the adapter is made, in one line."""

from collections.abc import Mapping
from typing import Any

from refold.arguments import check_options
from refold.calls.summariser import check_ask
from refold.core.tokens.units import parse_window
from refold.errors import RefoldError
from refold.policies import presets
from refold.session import open as open_session
from refold.session.steps.recall import TOOL_NAME


def check_recall(when: Any, name: Any) -> None:
    """Refuse a time or a name of the tool `recall` that no provider takes."""
    if when is True or when not in ("always", "folded", False):
        raise RefoldError(f'recall is {when!r}: it must be "always", "folded" or False')
    if not isinstance(name, str) or TOOL_NAME.fullmatch(name) is None:
        raise RefoldError(f"recall_name is {name!r}: it must have 1 to 64 letters, digits, _ or -")


def check_key_and_options(key: Any, options: Any) -> None:
    """Refuse a key that finds no session, and options that an adapter takes by another way."""
    if key is not None and not isinstance(key, str) and not callable(key):
        raise RefoldError(f"key is {key!r}: it must be a text, or a callable that finds one")
    if options is not None and not isinstance(options, Mapping):
        raise RefoldError(f"options is {options!r}: it must be a dict of options of refold.open")
    for name, advice in (("store", "pass store= instead"), ("name", "pass key= instead")):
        if name in (options or {}):
            raise RefoldError(f"options has {name!r}, which an adapter takes itself: {advice}")


def check_session_options(options: Mapping[str, Any], on_event: Any) -> None:
    """Refuse what sessions would refuse, before a store is opened."""
    check_listener(on_event)
    check_options(open_session, options)
    check_ask(options["ask"])
    if options["window"] is not None:
        parse_window(options["window"])
    presets.get(options["policy"])


def check_listener(on_event: Any) -> None:
    """Refuse a listener that cannot be called, before a session is opened for it."""
    if on_event is not None and not callable(on_event):
        raise RefoldError(f"on_event is {on_event!r}: it must be a callable, which is given every event")
