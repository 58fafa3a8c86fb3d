"""`refold show`: a session as the model sees it, everything that was said in it, or its log."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any, Final

from refold import formats
from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input.stores import find_head, use_session, use_store
from refold.cli.options.common import FORMATS_HELP, add_session, add_store, refuse_both
from refold.cli.output.costs import format_spent
from refold.cli.output.encoding import dump_list, dumps
from refold.cli.output.format_message import message_data, show_message
from refold.cli.output.log_lines import entry_data, entry_line, format_span, short_name
from refold.cli.output.screen import Screen
from refold.core.log.entries import SAID
from refold.core.log.view import Replacement, View, ViewItem
from refold.core.tokens.units import format_count
from refold.errors import install_hint
from refold.stores import Head, Store
from refold.stores.reading.stored_messages import parse_entry
from refold.stores.reading.stored_views import make_is_visible, read_view

EXAMPLES: Final = """\
  refold show task
  refold show task --all --brief
  refold show task --log
  refold show task --format anthropic > view.json
  refold show claude-code:latest --brief
  refold show task --web
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser, files=True)
    add = parser.add_argument
    add("--all", action="store_true", help="everything that was said; folded messages are marked")
    add("--log", action="store_true", help="the entries: messages, folds, checkpoints, usage")
    add("--brief", action="store_true", help="one line for each message")
    add("--web", action="store_true", help="in a browser: the page that `refold serve` has at /inspect")
    add("--format", metavar="NAME", help=f"print the view as a JSON list in this shape: {FORMATS_HELP}")
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show the view, all messages, or the log."""
    refuse_both(args, "--all", "--log", "--format", "--web")
    refuse_both(args, "--web", "--brief")
    refuse_both(args, "--format", "--brief")
    wire = formats.get(args.format) if args.format else None
    if args.web:
        return _show_web(args, screen)
    if args.all or args.log:
        return _show_stored(args, screen)
    with use_session(args, files=True) as session:
        items = session.view()
        view, loaded = session.state.view, session.state.loaded
        if wire is not None:
            screen.data(dump_list([message_data(item) for item in wire.render(loaded.messages)]) + "\n")
        elif args.json:
            about = {"session": args.session, "said": view.said, "seen": len(items)}
            messages = (
                {"handle": _name_item(item, view)[0], "message": message_data(message)}
                for item, message in zip(loaded.view_items, items, strict=True)
            )
            print_stream(screen, about, "messages", messages)
        else:
            totals = session.state.accounting.spending
            costs = ((totals.own, "spent"), (totals.summaries, "on summaries"))
            facts = [loaded.wire.name, f"{view.said:,} said", f"{len(items):,} seen"]
            facts += [format_count(len(view.standing), "fold")]
            facts += [f"{format_spent(spent)} {what}" for spent, what in costs if format_spent(spent)]
            screen.headline(args.session, facts)
            screen.line()
            for item, message in zip(loaded.view_items, loaded.messages, strict=True):
                _, handle, about_it = _name_item(item, view)
                show_message(screen, handle, message, facts=about_it, brief=args.brief)
    return DONE


def _show_stored(args: Namespace, screen: Screen) -> int:
    """Show all messages, or the log."""
    with use_store(args, files=True) as store:
        head = find_head(store, args.session, files=True)
        view = read_view(store, args.session, head)
        entries = store.read(args.session, head.place)
        if args.all:
            _show_all(args, store, head, view, screen)
        elif args.json:
            print_stream(screen, {"session": args.session}, "entries", map(entry_data, entries))
        else:
            for entry in entries:
                screen.line(entry_line(entry, view, screen))
    return DONE


def _name_item(item: ViewItem | None, view: View) -> tuple[str | None, str, list[str]]:
    """Return the handle of a message for programs, the one for people, and facts about the message."""
    if item is None:
        return None, "", []
    if isinstance(item, Replacement):
        runs = view.originals(item)
        facts = [f"in place of {format_span(runs)}"] if runs else []
        return f"{item.fold}/{item.place}", short_name(item.fold), facts
    return f"#{item.first}", f"#{item.first}", ["pinned"] if item.first in view.pins else []


def print_stream(screen: Screen, about: dict[str, Any], key: str, values: Iterable[Any]) -> None:
    """Print one JSON object whose last field is a list, item by item, so that a long log needs no memory."""
    screen.data(dumps({**about, key: []})[: -len("[]\n}")] + "[")
    comma = "\n    "
    for value in values:
        screen.data(comma + dumps(value, indent=None))
        comma = ",\n    "
    screen.data("\n  ]\n}\n")


def _show_all(args: Namespace, store: Store, head: Head, view: View, screen: Screen) -> None:
    is_visible = make_is_visible(view)
    entries = store.read(args.session, head.place, kinds=SAID)
    if args.json:
        messages = (
            {
                "handle": f"#{entry.said}",
                "name": entry.name,
                "at": entry.at,
                "folded": not is_visible(entry.said),
                "pinned": entry.said in view.pins,
                "message": entry.value,
            }
            for entry in entries
        )
        print_stream(screen, {"session": args.session, "said": view.said}, "messages", messages)
        return
    for entry in entries:
        facts = ["folded"] * (not is_visible(entry.said)) + ["pinned"] * (entry.said in view.pins)
        show_message(screen, f"#{entry.said}", parse_entry(entry), facts=facts, brief=args.brief)


def _show_web(args: Namespace, screen: Screen) -> int:
    """Lead the browser to a session; without an inspector that shows its store one is run until Ctrl-C."""
    try:
        from refold.inspector import browsing
        from refold.inspector.options import InspectorOptions
        from refold.inspector.running import describe_page, serve_inspector
        from refold.inspector.server import InspectorServer
    except ImportError as error:
        raise WrongUse(f"--web needs {error.name}: {install_hint('serve')}") from None

    with use_store(args, files=True) as store:
        find_head(store, args.session, files=True)
        running = browsing.find_running(store.address)
        if running is not None:
            url = browsing.name_session(running, args.session)
            screen.line(describe_page(url))
            browsing.show_page(url)
            return DONE
        server = InspectorServer(InspectorOptions(store=store, port=0))

        def announce(_line: str) -> None:
            url = browsing.name_session(server.url, args.session)
            screen.line(describe_page(url))
            screen.note("the page is there until Ctrl-C")
            screen.flush()
            browsing.show_page(url)

        serve_inspector(server, announce=announce)
    return DONE
