"""`--set KNOB=VALUE`: knobs as people type them, over those of the settings."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches

from refold.cli.exit_status import WrongUse
from refold.config.settings import Settings
from refold.core.compaction.policy import Policy
from refold.errors import FormatError, RefoldError, RefoldWarning, warn_caller
from refold.policies import presets


def make_policy(name: str, pairs: Iterable[str], settings: Settings) -> Policy:
    """Return the policy of that name, with the knobs of the settings and those that were typed."""
    knobs = dict(settings.knobs_of(name))
    for pair in pairs:
        word, sign, text = (part.strip() for part in pair.partition("="))
        if not sign or not word:
            raise WrongUse(f"--set takes KNOB=VALUE, such as --set keep_tokens=8000, not {pair!r}")
        knob = presets.find_knob(name, word.replace("-", "_"))
        try:
            knobs[knob.name] = knob.read(text)
        except FormatError as error:
            raise WrongUse(f"--set {error}") from None
    return presets.get(name, **knobs)


def refuse_unknown_policy(name: str, source: str, *, takes_all: bool = False) -> None:
    """Refuse a policy that does not exist; the message lists those that do, and `all` where that is one."""
    known = [*(["all"] if takes_all else []), *presets.names()]
    if name in known:
        return
    with suppress(RefoldError):  # a preset or a strategy in other letters
        presets.find_preset(name)
        return
    near = get_close_matches(name.lower(), known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise WrongUse(f"{source}: there is no policy {name!r}{hint}; there are {', '.join(known)}")


@contextmanager
def collect_warnings(found: dict[str, list[str]], policy: str) -> Iterator[None]:
    """Keep the warnings of the work under a policy, each with the policies that it concerns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RefoldWarning)
        yield
    for each in caught:
        names = found.setdefault(str(each.message), []) if issubclass(each.category, RefoldWarning) else []
        if policy not in names:
            names.append(policy)


def show_collected(found: dict[str, list[str]], *, several: bool) -> None:
    """Warn of what was collected; where several policies are compared, each warning names its own."""
    for text, names in found.items():
        warn_caller(f"{', '.join(names)}: {text}" if several else text)
