"""`--set KNOB=VALUE`: knobs as people type them, over those of the settings."""

from collections.abc import Iterable
from difflib import get_close_matches

from refold.cli.exit_status import WrongUse
from refold.config.settings import Settings
from refold.core.compaction.policy import Policy
from refold.errors import FormatError
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


def refuse_unknown_policy(name: str, source: str) -> None:
    """Refuse a policy that does not exist; the message lists those that do."""
    known = presets.names()
    if name in known or name.lower() in presets.PRESETS:
        return
    near = get_close_matches(name.lower(), known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise WrongUse(f"{source}: there is no policy {name!r}{hint}; there are {', '.join(known)}")
