"""How an address becomes a store: scheme, place and options; built-in ones and plug-ins through one table."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from refold.errors import RefoldError, StoreError

if TYPE_CHECKING:
    from refold.stores import Store


def opened(address: str, table: Mapping[str, str], **options: Any) -> "Store":
    """Open a store; `sqlite:FILE?durability=full` sets an option in the address."""
    scheme, colon, rest = address.partition(":")
    if not colon:
        how = "write sqlite:FILE, jsonl:DIR, postgresql://... or memory:"
        raise RefoldError(f"{address!r} is no address of a store: {how}")
    options = {key: value for key, value in options.items() if value is not None}
    if scheme not in ("postgresql", "postgres"):
        rest, _, query = rest.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True)) | options
    if options.get("durability", "normal") not in ("full", "normal"):
        raise RefoldError(f"durability is full or normal, not {options['durability']!r}")
    make = _factory(scheme, table)
    store: Store = make(address if scheme in ("postgresql", "postgres") else rest, **options)
    return store


def _factory(scheme: str, table: Mapping[str, str]) -> Any:
    if scheme in table:
        module, _, name = table[scheme].partition(":")
        return getattr(import_module(module), name)
    from importlib.metadata import entry_points  # slow to import, and only unknown schemes need it

    from refold.stores import GROUP, refuse

    points = {point.name: point for point in entry_points(group=GROUP)}
    if scheme in points:
        return points[scheme].load()
    raise refuse(scheme, {*table, *points})


def no_more(scheme: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a store does not have."""
    if options:
        unknown = ", ".join(sorted(options))
        raise StoreError(f"the store {scheme}: has no option {unknown}: leave it out of the address")
