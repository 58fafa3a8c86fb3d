"""Checks of the options of every adapter: wrong ones are refused when the adapter is made, in one line."""

import os
from collections.abc import Mapping
from typing import Any

from refold import stores
from refold.arguments import check_options
from refold.calls.summariser import check_ask, open_summariser
from refold.clients import is_address
from refold.core.models.spending_limits import parse_caps
from refold.core.tokens.units import parse_window
from refold.errors import RefoldError
from refold.policies import presets
from refold.session import open as open_session
from refold.session.opening import find_store
from refold.session.steps.recall import TOOL_NAME


def check_recall(when: Any, name: Any) -> None:
    """Refuse a time or a name of the tool `recall` that no provider takes."""
    if when is True or when not in ("always", "folded", False):
        raise RefoldError(f'recall is {when!r}: it must be "always", "folded" or False')
    if not isinstance(name, str) or TOOL_NAME.fullmatch(name) is None:
        raise RefoldError(f"recall_name is {name!r}: it must have 1 to 64 letters, digits, _ or -")


def check_key_and_options(key: Any, options: Any) -> None:
    """Refuse a key that finds no session, and options that an adapter takes by another way."""
    if not (key is None or callable(key) or (isinstance(key, str) and key.strip())):
        raise RefoldError(f"key is {key!r}: it must be a text, not empty, or a callable that finds one")
    if options is not None and not isinstance(options, Mapping):
        raise RefoldError(f"options is {options!r}: it must be a dict of options of refold.open")
    others = {"store": "pass store= instead", "name": "pass key= instead", "format": "leave it out"}
    for name, advice in others.items():
        if name in (options or {}):
            raise RefoldError(f"options has {name!r}, which an adapter takes itself: {advice}")


def check_session_options(options: Mapping[str, Any], on_event: Any, store: Any = None) -> None:
    """Refuse what sessions would refuse, before a store or a client is opened."""
    check_listener(on_event)
    check_options(open_session, options)
    check_ask(ask := options["ask"])
    if isinstance(ask, list | tuple):
        ask = ",".join(map(str, ask))
    if isinstance(ask, str) and not is_address(ask):
        open_summariser(options["ask"])  # it says what is wrong
    _check_store(store)
    parse_caps(options)
    check_model(options["model"])
    if options["window"] is not None:
        parse_window(options["window"])
    presets.get(options["policy"])


def check_model(model: Any) -> None:
    """Refuse a name that is empty: it would hide the model of each request."""
    if isinstance(model, str) and not model.strip():
        raise RefoldError(f"model is {model!r}: it must be a name, or None")


def _check_store(store: Any) -> None:
    """Refuse what is neither a store nor the address of one; a known one is neither opened nor loaded."""
    if store is None or store == "" or isinstance(store, os.PathLike):
        return
    if isinstance(store, str):
        scheme, colon, _ = store.partition(":")
        if stores.is_bare_path(store) or (colon and scheme in stores.BUILT_IN):
            return
        from importlib.metadata import entry_points  # slow to import, and only other schemes need it

        if colon and entry_points(group="refold.stores", name=scheme):
            return
    find_store(store, None)  # it says what is wrong


def check_listener(on_event: Any) -> None:
    """Refuse a listener that cannot be called, before a session is opened for it."""
    if on_event is not None and not callable(on_event):
        raise RefoldError(f"on_event is {on_event!r}: it must be a callable, which is given every event")
