"""The conversation that a command looks at: a file, or a session of the store in its place."""

from argparse import Namespace
from dataclasses import replace

from refold.cli.exit_status import WrongUse
from refold.cli.input.sources import Source, read_source
from refold.cli.output.screen import Screen
from refold.core.log.entries import SAID
from refold.formats.shared.documents import Document


def _read_file(args: Namespace, screen: Screen, *, whole: bool, allow_mixed: bool) -> Source:
    """Read the file that the arguments name; if there is none, say how a session is named."""
    try:
        return read_source(args.file, screen, format=args.format, whole=whole, allow_mixed=allow_mixed)
    except WrongUse as error:  # other commands take the name of a session in this place
        if "." in args.file or str(error) != f"there is no file {args.file}":
            raise
        raise WrongUse(f"{error}; for a session of the store write --session {args.file}") from None


def read_conversation_of(
    args: Namespace, screen: Screen, *, whole: bool, allow_mixed: bool = False
) -> Source:
    """Read the file or the session that the arguments name; `whole`: with all that was folded."""
    if (args.file is None) == (args.session is None):
        which = "FILE and --session exclude each other" if args.file else "no conversation is named"
        raise WrongUse(f"{which}: name a FILE, - for standard input, or a session with --session")
    if args.session is None:
        if args.store is not None:
            raise WrongUse("--store goes with --session: a FILE is in no store")
        return _read_file(args, screen, whole=whole, allow_mixed=allow_mixed)
    from refold.cli.input.stores import find_head, open_session, use_store  # a file needs no store

    with use_store(args) as store:
        head = find_head(store, args.session)
        session = open_session(store, args.session)
        items = session.view()
        if whole:
            said = (entry.value for entry in store.read(args.session, head.place, kinds=SAID))
            items = [*session.state.loaded.system, *said]
        wire, report = session.state.wire.name, session.state.accounting.report
    if not items:
        raise WrongUse(f"session {args.session!r} holds no messages: nothing was said in it yet")
    if args.format and args.format != wire:
        raise WrongUse(f"session {args.session!r} is in format {wire}: leave --format out")
    usage, model = None, None
    if report is not None:
        model = report.model or None
        # A report is one of what the model saw, and holds until a fold changes that.
        if report.holds and report.messages is not None and not whole:
            usage = replace(report.usage, messages=report.messages)
    document = Document(messages=items, format=wire, model=model)
    # The bytes of an empty list: a result is written as a plain list of messages.
    return Source(name=args.session, path=None, raw=b"[]", document=document, usage=usage)
