"""Look up what a model does beside its window: by family, in package data; uses no network."""

import json
from functools import lru_cache
from pkgutil import get_data
from typing import Final

from refold.core.models.model_names import name_prefixes, parse_model_name

_FACTS: Final = json.loads(get_data(__package__, "data/model_facts.json") or b"")["facts"]


# A session asks before every request, always for the same few names.
@lru_cache(maxsize=4096)
def find_fact(name: str, model: str) -> bool | None:
    """Return whether a fact holds for a model; None if that is not known.

    >>> [find_fact("binds_thinking", model) for model in ("claude-opus-5.5", "claude-opus-5", "gpt-5")]
    [True, False, None]
    """
    row = _FACTS[name]
    for spelling in reversed(parse_model_name(model).spellings):  # the plainest spelling comes last
        for family in (spelling, *name_prefixes(spelling)):
            if family in row["yes"] or family in row["no"]:
                return family in row["yes"]
    return None
