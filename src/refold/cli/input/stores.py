"""The store and the session of a command: how they are named, opened and found."""

import re
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refold.cli.exit_status import WRONG_USE, Refused, WrongUse, status_of
from refold.config import settings
from refold.errors import FormatError, RefoldError, RefoldWarning, StoreError
from refold.stores import Head, Store, is_bare_path, open_store

if TYPE_CHECKING:  # a session loads all that compacts, which a list of sessions does not need
    from refold.cli.input.sources import Source
    from refold.session.session import Session

DEFAULT: Final = "sqlite:"
_FILE_ENDINGS: Final = (".jsonl", ".json", ".zst", ".db")
"""Endings that tell the name of a file from the name of a session."""
_LIKE_A_FILE: Final = re.compile(r".*[/\\]|.*\.[A-Za-z][A-Za-z0-9]{1,4}$")
"""What is not there, but looks like a file: it has a slash, or an ending of letters."""


def store_address(args: Namespace) -> str:
    """Return the store's address: the argument, else the setting, else the file in the user's data folder."""
    return args.store or settings.load().store or DEFAULT


def default_address() -> str:
    """Return the address of the store in the user's data folder, with its path."""
    from refold.stores.sqlite.files import default_path

    return f"sqlite:{default_path()}"


def store_exists(address: str) -> bool:
    """True if there is a store at an address; one that is not a file on this machine counts as there."""
    scheme, _, rest = ("sqlite", "", address) if is_bare_path(address) else address.partition(":")
    rest = rest.partition("?")[0]
    if scheme == "sqlite" and not rest:
        from refold.stores.sqlite.files import default_path

        path = default_path()
    elif scheme not in ("sqlite", "jsonl") or not rest or "\0" in rest:
        return True
    else:
        path = Path(rest).expanduser()
    return path.exists() or path.with_name(f"{path.name}.scopes").exists()  # tenants have files of their own


@contextmanager
def use_store(
    args: Namespace, *, create: bool = False, files: bool = False, tell: Callable[[str], None] | None = None
) -> Iterator[Store]:
    """Open the store while it is used; only `create` makes a new one.

    With `files` the session may be a file: then the store is one in memory that holds this file. `tell` is
    called once a new store was made: its name may be mistyped.
    """
    if files and is_file_name(args.session) and not is_stored(args):
        yield store_file(args.session)
        return
    address = store_address(args)
    if not create and not store_exists(address):
        if files and looks_like_file(args.session):
            raise _refuse_file(args.session)
        shown = f"your data folder ({default_address()})" if address == DEFAULT else address
        raise Refused(f"there is no store in {shown}: --store names one, `refold import` begins one")
    is_new = tell is not None and address != DEFAULT and not store_exists(address)
    with closing(open_store(address)) as store:
        if tell is not None and is_new:
            tell(f"a new store is made: {address}")
        yield store


def is_stored(args: Namespace) -> bool:
    """True if a name like `claude-code:ID`, which may be a session of the agent itself, is in the store.

    The gateway names sessions so.
    """
    from refold.transcripts import AGENTS  # loads what reads transcripts

    address = store_address(args)
    if args.session.partition(":")[0] in AGENTS and store_exists(address):
        with suppress(StoreError), closing(open_store(address)) as store:
            return store.head(args.session) is not None
    return False


def find_head(store: Store, name: str, *, files: bool = False) -> Head:
    """Return the head of a session; refuses a name that the store does not have, with `files` as a file's."""
    head = store.head(name)
    if head is not None:
        return head
    names: list[str] = []
    with suppress(StoreError):
        names = [info.name for info in store.sessions()]
    near = get_close_matches(name, names, 1)
    if files and not near and looks_like_file(name):
        raise _refuse_file(name)
    hint = f"did you mean {near[0]!r}?" if near else "`refold sessions` lists those there are"
    raise Refused(f"there is no session {name!r} in {store.address}; {hint}")


def looks_like_file(name: str) -> bool:
    """True for a name that is more likely one of a file or of an agent's session than of a stored one."""
    from refold.cli.input.sources import suggest_agent

    return _LIKE_A_FILE.match(name) is not None or bool(suggest_agent(name))


def _refuse_file(name: str) -> WrongUse:
    from refold.cli.input.sources import describe_missing_file

    return WrongUse(describe_missing_file(name))


@contextmanager
def use_session(args: Namespace, *, files: bool = False, **choices: Any) -> Iterator["Session"]:
    """Open the session of this name, which must exist; without `files` a file's is refused."""
    is_file = not files and is_file_name(args.session)
    how = f"files and transcripts are never changed: `refold import NAME {args.session}` makes it a session"
    if is_file and not store_exists(store_address(args)):
        raise Refused(how)
    with use_store(args, files=files) as store:
        if is_file and store.head(args.session) is None:
            raise Refused(how)
        find_head(store, args.session, files=files)
        session = open_session(store, args.session, **choices)
        try:
            yield session
        except WrongUse:
            raise
        except RefoldError as error:
            if status_of(error) != WRONG_USE:
                raise
            # The call was well formed: it is the session that refuses.
            raise Refused(str(error)) from error


def open_session(store: Store, name: str, **choices: Any) -> "Session":
    """Open a session in an open store; it begins if it does not exist."""
    from refold.session import open as open_in

    return open_in(name, store=store, **choices)


def is_file_name(name: str) -> bool:
    """True if a word names a file or a session of an agent, not a session of a store."""
    from refold.cli.input.raw import STDIN
    from refold.cli.input.sources import is_file
    from refold.transcripts import AGENTS

    if name == STDIN or name.partition(":")[0] in AGENTS:
        return True
    base = name.rpartition("#")[0] or name
    looks_like_one = "/" in name or "\\" in name or base.endswith(_FILE_ENDINGS)
    return looks_like_one and (is_file(name) or is_file(base))


def store_file(name: str) -> Store:
    """Return a store in memory with a file as a session; an agent's own compactions become folds."""
    from refold.cli.input.sources import read_source
    from refold.cli.output.screen import Screen

    source = read_source(name, Screen(out=None, err=None), whole=True)
    transcript = source.transcript
    if transcript is not None and transcript.problems:
        more = f" and {len(transcript.problems) - 1:,} more" * (len(transcript.problems) > 1)
        warnings.warn(f"{name}: {transcript.problems[0].message}{more}", RefoldWarning, stacklevel=2)
    return store_source(name, source, name)[0]


def store_source(name: str, source: "Source | None", file: str) -> tuple[Store, int, int]:
    """Return a store in memory with a new session, and how many messages and folds that has.

    source   the conversation in the file; None if that is a folder that was exported
    """
    from refold.formats.systems.file_forms import read_list
    from refold.session.steps.export import import_exported
    from refold.session.steps.observe import record_reports
    from refold.transcripts.agents import plain
    from refold.transcripts.agents.export_session import export_recording

    store = open_store("memory:")
    try:
        if source is None:
            session = open_session(store, name)
            return store, session.import_from(file), len(session.folds())
        transcript, document = source.transcript, source.document
        model = None if transcript is None else transcript.model  # by which the last report is compared
        session = open_session(store, name, format=document.format, model=model)
        if transcript is not None and transcript.agent != plain.NAME and document.format == transcript.format:
            exported = export_recording(transcript, name)
        elif (listed := read_list(document.messages)) is not None:
            exported = listed
        else:
            session.say(document.messages)
            return store, session.state.view.said, 0
        said = session.run_flow(import_exported(session.state, exported, file))
        if transcript is not None and transcript.usages:
            last, reports = transcript.last_usage, [usage for _, usage in transcript.usages]
            session.run_flow(record_reports(session.state, reports, last.messages if last else None))
        return store, said, len(exported.folds)
    except FormatError as error:
        raise FormatError(str(error), path=file if source is None else source.name) from None
