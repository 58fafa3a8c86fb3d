"""A session in the browser: the page of an inspector that runs, or of one that is run for it."""

from argparse import Namespace

from refold.cli.exit_status import DONE, WrongUse
from refold.cli.input.stores import find_head, use_store
from refold.cli.output.screen import Screen
from refold.errors import install_hint


def show_web(args: Namespace, screen: Screen) -> int:
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
