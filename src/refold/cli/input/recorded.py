"""What agents recorded, for commands that take a file: found by name, read, and told about in a line."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refold import formats, transcripts
from refold.cli.exit_status import WrongUse
from refold.cli.input.sources import STDIN, Source
from refold.cli.output.screen import Screen
from refold.core.tokens.units import format_count
from refold.errors import FormatError, RefoldWarning
from refold.formats.shared.documents import Document
from refold.transcripts import Transcript
from refold.transcripts.detect_agent import detect_agent, detect_agent_in_bytes

if TYPE_CHECKING:  # to measure a file needs no store
    from refold.stores import Store

_SHOWN: Final = 3
"""Problems of a file that are told one by one."""
_ENDINGS: Final = (".jsonl", ".json", ".zst", ".db")
"""What tells a file's name from a session's."""


def located(name: str) -> str:
    """The file behind a word such as `claude-code:0b5d7a1e`; any other word is a file's name already."""
    if name == STDIN or ":" not in name or _is_file(name):
        return name
    return transcripts.locate(name) or name


def transcript_of(name: str) -> Transcript | None:
    """The transcript in a file, where an agent wrote it; what is no file is left to others."""
    if not any(map(_is_file, (name, name.rpartition("#")[0], f"{name}.zst"))):
        return None
    try:
        return transcripts.read(name) if detect_agent(name) else None
    except FormatError as error:
        raise FormatError(str(error), path=name) from None
    except OSError:
        return None  # whoever opens it next says why


def transcript_in(raw: bytes) -> Transcript | None:
    """The transcript in bytes that came through a pipe, where an agent wrote them."""
    return transcripts.read_bytes(raw) if detect_agent_in_bytes(raw) else None


def source(
    told: Transcript,
    name: str,
    screen: Screen,
    *,
    format: str | None,  # noqa: A002  # the same
    whole: bool,
) -> Source:
    """What an agent wrote, as a conversation, with a word about what is shown of it."""
    items: list[Any] = list(told.messages if whole else told.seen)
    if not items:
        raise WrongUse(f"{name} holds no messages of {told.agent}: nothing was said in it yet")
    wire = told.format
    if format is not None and formats.get(format).name != wire:
        items = formats.get(format).render(formats.get(wire).parse(items))
        wire = formats.get(format).name
    _tell(told, screen, whole=whole)
    document = Document(messages=items, format=wire, system=told.system, tools=told.tools, model=told.model)
    return Source(name=name, path=told.path, raw=b"", document=document, transcript=told)


def _tell(told: Transcript, screen: Screen, *, whole: bool) -> None:
    if told.agent == "plain":
        return
    folds = len(told.folds)
    facts = [format_count(len(told.messages), "message")]
    facts += [format_count(folds, "own compaction")] * bool(folds)
    facts += [f"{usage.context:,} tokens reported last" for _, usage in told.usages[-1:]]
    screen.note(screen.tint(f"{told.agent}: {', '.join(facts)}", "dim"))
    if folds or told.changed:
        seen = f"taken as its model saw it last, {format_count(len(told.seen), 'message')}; --whole takes all"
        screen.note(screen.tint("taken as a whole, with everything that was said" if whole else seen, "dim"))
    for problem in told.problems[:_SHOWN]:
        screen.note(screen.tint(f"the file: {screen.short(problem.message, 200)}", "yellow"))
    if len(told.problems) > _SHOWN:
        screen.note(screen.tint(f"the file: and {len(told.problems) - _SHOWN:,} problems more", "yellow"))


def names_file(name: str) -> bool:
    """Whether a word where a session is expected names a file or a session of an agent instead."""
    if name == STDIN or name.partition(":")[0] in transcripts.AGENTS:
        return True
    base = name.rpartition("#")[0] or name
    looks = "/" in name or "\\" in name or base.endswith(_ENDINGS)
    return looks and (_is_file(name) or _is_file(base))


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a folder that may not be entered, a name that is too long
        return False


def store_of(name: str) -> "Store":
    """A store in memory that holds a file as a session of its name, an agent's own compactions as folds."""
    from refold.cli.input.sources import read
    from refold.session import open as open_session
    from refold.session.steps.export import import_exported
    from refold.stores import open_store
    from refold.transcripts.agents.export_session import export_recording

    source = read(name, Screen(out=None, err=None), whole=True)
    told, document = source.transcript, source.document
    store = open_store("memory:")
    begun = open_session(name, store=store, format=document.format)
    if told is None:
        begun.say(document.messages)
        return store
    if told.problems:
        more = f" and {len(told.problems) - 1:,} more" * (len(told.problems) > 1)
        warnings.warn(f"{name}: {told.problems[0].message}{more}", RefoldWarning, stacklevel=2)
    begun.drive(import_exported(begun.state, export_recording(told, name), name))
    return store
