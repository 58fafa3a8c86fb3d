"""Servers in processes of their own, and pages that write down everything that should not happen."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

from refold.cli import main

WAIT_MS = 60_000
"""How long a page is waited for; generous, because nothing is measured by it."""
PAUSE_MS = 40
PROGRAM = (sys.executable, "-c", "import sys; from refold.cli import main; sys.exit(main())")


@contextmanager
def run_program(*arguments, folder=None, **environment):
    """Run `refold` with these arguments; yields the process and the address of its inspector."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )  # fmt: skip
    try:
        seen = []
        for line in process.stdout:
            seen.append(line)
            if "refold inspect: " in line:
                yield process, line.split("refold inspect: ")[1].strip()
                return
        raise AssertionError(f"no address of an inspector in: {''.join(seen)}")
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def run_inspector(store, *arguments, port=0, **environment):
    """Run an inspector over a store; yields its address with the token."""
    with run_program(
        "serve", "--inspect-only", "--store", store, "--port", str(port), *arguments, **environment
    ) as (_, url):
        yield url


def print_refold(capsys, *arguments):
    """What a command of the terminal program prints."""
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def run_refold(capsys, *arguments):
    """What a command of the terminal program prints as JSON."""
    return json.loads(print_refold(capsys, *arguments, "--json"))


class Watched:
    """A page of the inspector, and what went wrong in it."""

    def __init__(self, browser, url, *, width=1280, height=800, scheme="light", **options):
        self.problems = []
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            **options,
        )
        self.context.set_default_timeout(WAIT_MS)
        self.page = self.context.new_page()
        self.origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        self.context.route("**/*", self._pass_or_record)
        self.follow(self.page)
        self.page.goto(url)
        self.page.wait_for_selector("main")

    def follow(self, page):
        """Write down what goes wrong in this page."""
        page.on(
            "dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on(
            "console",
            lambda said: (
                said.type in ("error", "warning") and self.problems.append(f"{said.type}: {said.text}")
            ),
        )

    def _pass_or_record(self, route):
        address = route.request.url
        if address.startswith((self.origin + "/inspect", f"blob:{self.origin}/")):
            route.continue_()
        else:
            self.problems.append(f"request: {address}")
            route.abort()

    def go(self, hash_, wait=None):
        """Go to an address of a view, and wait until this is on the page."""
        self.page.evaluate("hash => { location.hash = hash; }", hash_)
        if wait is not None:
            self.page.wait_for_selector(wait)
        return self.page

    def session(self, name, rest="", wait=".row"):
        return self.go(f"#/s/{quote(name, safe='')}{rest}", wait)

    def second_tab(self):
        """Another page of the same browser, with the cookie that is there already."""
        page = self.context.new_page()
        self.follow(page)
        page.goto(f"{self.origin}/inspect")
        return page

    def close(self):
        self.context.close()


def wait_until(page, expression, arg=None):
    """Wait until this is true in the page; playwright's own way needs `eval`, which the page forbids."""
    for _ in range(WAIT_MS // PAUSE_MS):
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(PAUSE_MS)
    raise AssertionError(f"still false: {expression}")


def has_text(page, text):
    """Wait until the text is somewhere on the page."""
    wait_until(page, "text => document.body.innerText.includes(text)", text)
    return True


def wait_for_lines(page):
    """Wait until every row on the screen has its text."""
    wait_until(page, "![...document.querySelectorAll('.m-line')].some(cell => cell.textContent === '…')")
