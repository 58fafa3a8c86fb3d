"""Policies by name: the five systems, the default and `thrifty`, each made by a function with its knobs.

`get("ripple", keep_recent_messages=3)` gives Ripple's policy with one knob turned, and is the same as
`ripple(keep_recent_messages=3)`. A knob's default is the number its document prints; the reasons are in the
documents and in docs/systems/.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Final

from refold.arguments import Argument, check_arguments, list_arguments, suggest
from refold.core.compaction.policy import Policy
from refold.errors import RefoldError
from refold.policies.default import refold

THRIFTY: Final[Mapping[str, int]] = {"history_tokens": 48_000}
"""The knobs of `refold` that differ in `thrifty`. Below this number single conversations cost more than
without compaction (docs/decisions/0015-when-to-fold.md)."""


def thrifty(**knobs: Any) -> Policy:
    """Return the default policy, folding at 48,000 tokens of history however large the window is.

    Every turn pays for what is carried on. The knobs are those of `refold`.
    """
    return replace(refold(**{**THRIFTY, **knobs}), name="thrifty")


# Programs read the knobs of a preset from its signature and its annotations.
thrifty.__signature__ = inspect.signature(partial(refold, **THRIFTY))  # type: ignore[attr-defined]
thrifty.__annotations__ = refold.__annotations__

_SYSTEMS: Final = ("ripple", "codebuddy", "umwelten", "neurolink", "opal")
_OWN: Final[Mapping[str, Callable[..., Policy]]] = {"refold": refold, "thrifty": thrifty}


class _Presets(Mapping[str, Callable[..., Policy]]):
    """The presets by name; a system is loaded when it is asked for: each brings its own stages and tables."""

    def __getitem__(self, name: str) -> Callable[..., Policy]:
        if name not in _SYSTEMS:
            return _OWN[name]
        make: Callable[..., Policy] = getattr(import_module(f"refold.policies.systems.{name}"), name)
        return make

    def __iter__(self) -> Iterator[str]:
        return iter((*_SYSTEMS, *_OWN))

    def __len__(self) -> int:
        return len(_SYSTEMS) + len(_OWN)

    def __contains__(self, name: object) -> bool:
        return name in _SYSTEMS or name in _OWN


PRESETS: Final[Mapping[str, Callable[..., Policy]]] = _Presets()


DESCRIPTIONS: Final[Mapping[str, str]] = {
    "refold": "the default: cheapest stages first, a summary with handles, floors that need no model",
    "thrifty": "the default with at most 48,000 tokens of history: folds early to save money",
    "ripple": "one prose summary and the recent turns",
    "codebuddy": "strip tool traffic, summarise in chunks, then the older half, then plain words",
    "neurolink": "prune, deduplicate reads, a summary in ten sections, then cut",
    "opal": "one structured summary that is updated each time, a split turn told in two",
}
"""One line for each preset that is not itself made of a strategy; the list of strategies describes those."""


def names() -> list[str]:
    """Return every name that `get` takes: the presets, then the strategies."""
    from refold.policies.systems.strategies import list_strategies  # slow to import

    return [*PRESETS, *(strategy.id for strategy in list_strategies())]


@check_arguments
def get(name: str | Policy = "refold", **knobs: Any) -> Policy:
    """Return a policy by name, with knobs turned; a strategy's id gives Umwelten's policy with that strategy.

    Which knobs there are depends on the name: `help(refold.presets.ripple)` lists those of `ripple`.
    """
    if isinstance(name, Policy):
        if knobs:
            raise RefoldError("a policy that is made has no knobs: give its name, or use dataclasses.replace")
        return name
    make = find_preset(name)
    if str(name).lower() not in PRESETS:
        knobs = {"strategy": name} | knobs
    return make(**{find_knob(name, knob).name: value for knob, value in knobs.items()})


def find_preset(name: str) -> Callable[..., Policy]:
    """Return the function that makes the policy of a name; raises if there is no such policy."""
    if str(name).lower() in PRESETS:
        return PRESETS[str(name).lower()]
    from refold.policies.systems.strategies import find  # slow to import

    if find(name) is None:
        raise RefoldError(f"there is no policy {name!r}; {suggest(str(name), names())}")
    return PRESETS["umwelten"]


def find_knob(name: str, knob: str) -> Argument:
    """Return a knob of a policy by any of its names."""
    make = find_preset(name)
    known = list_arguments(make)
    if str(name).lower() == "neurolink":
        from refold.policies.systems.neurolink import OTHER_KNOB_NAMES  # is loaded by now

        knob = OTHER_KNOB_NAMES.get(knob, knob)
    if knob not in known:
        raise RefoldError(f"policy {name} has no knob {knob!r}; {suggest(knob, known)}")
    return known[knob]
