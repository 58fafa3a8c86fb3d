"""What headers tell of the conversation: a hint that narrows the search and never decides it alone.

Claude Code sends the id of one session with its title requests and with all its sub-agents. A sub-agent has
an id of its own beside it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from refold.errors import RefoldError
from refold.gateway.history.client_compaction import says_compaction
from refold.gateway.http.refusals import Refusal
from refold.policies import presets

SESSION_HEADER: Final = "x-refold-session"
POLICY_HEADER: Final = "x-refold-policy"
BYPASS_HEADER: Final = "x-refold-bypass"
_CLIENTS: Final = (
    ("x-claude-code-session-id", "claude-code"),
    ("thread-id", "codex"),  # a thread of its own for each agent; the session may have several
    ("session-id", "codex"),
    ("x-session-id", "opencode"),
    ("x-session-affinity", "opencode"),
)
"""Headers with the id of a session, and who sends them."""
_AGENT: Final = "x-claude-code-agent-id"
_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_OFF: Final = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Hints:
    """What a caller says of its conversation."""

    session: str = ""
    """The session that the caller names itself; it is used whatever the messages are."""
    client: str = ""
    """The session that the client's own ids name."""
    policy: str = ""
    bypass: bool = False
    compacts: bool = False
    """True if the client says that it asks for a summary of its history."""


def read_hints(headers: Mapping[str, str], wire: str) -> Hints:
    """Read the headers; a name that is none is refused."""
    session, policy = headers.get(SESSION_HEADER, ""), headers.get(POLICY_HEADER, "")
    if session and _NAME.fullmatch(session) is None:
        text = f"{SESSION_HEADER} has at most 200 letters, digits and . _ : -"
        raise Refusal(400, "session", text)
    if policy:
        try:
            presets.get(policy)
        except RefoldError:
            known = ", ".join(presets.names())
            raise Refusal(400, "policy", f"{POLICY_HEADER} names no policy; there are {known}") from None
    bypass = headers.get(BYPASS_HEADER, "").strip().lower() not in _OFF
    return Hints(session, _read_client(headers, wire), policy, bypass, says_compaction(headers))


def _read_client(headers: Mapping[str, str], wire: str) -> str:
    """Return a name of a session from a client's ids; one client may use two wires for two conversations."""
    for header, client in _CLIENTS:
        found = headers.get(header, "")
        if _NAME.fullmatch(found):
            agent = headers.get(_AGENT, "")
            parts = [client if client != "opencode" else f"opencode-{wire}", found]
            parts += [agent] if _NAME.fullmatch(agent) else []
            name = ":".join(parts)
            return name if len(name) <= 400 else ""
    return ""
