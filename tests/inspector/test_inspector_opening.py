"""`refold show --web`, the chat's `/web` and `refold serve --inspect-only`: the page opens at the right place."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import urllib.request
from contextlib import contextmanager

import pytest
from inspector_serving import LIMIT

import refold
from forked_program import SERVERS, Forked

ENVIRONMENT = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}


@contextmanager
def program(folder, *words, **variables):
    """The program in a folder that is its home; without a screen unless the variables name a browser."""
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        **variables,
    }
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    process = Forked(words, preload=SERVERS, cwd=folder, env=environment, text=True, **pipes)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def url_in(line):
    return re.fullmatch(r"refold inspect: (http://127\.0\.0\.1:\d+/inspect\?token=\S+)\n", line)[1]


def ask(url, path="/api/sessions"):
    """Come with the first address, get the cookie, and fetch data with it."""
    address = url.partition("#")[0]

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    try:
        reply = urllib.request.build_opener(Stay).open(address, timeout=LIMIT)
    except urllib.error.HTTPError as error:
        reply = error
    with reply:
        cookie = reply.headers["Set-Cookie"].partition(";")[0]
    request = urllib.request.Request(address.partition("?")[0] + path, headers={"Cookie": cookie})
    with urllib.request.urlopen(request, timeout=LIMIT) as data:
        return json.load(data)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "refold").mkdir()
    with refold.open("my task/1", store=f"sqlite:{tmp_path / 'refold' / 'refold.db'}") as session:
        session.say("hello")
    return tmp_path


def test_a_store_is_shown_alone_and_its_address_is_left_for_the_user(folder):
    with program(folder, "serve", "--inspect-only", "--port", "0") as process:
        url = url_in(process.stdout.readline())
        assert [row["name"] for row in ask(url)["sessions"]] == ["my task/1"]
        (left,) = (folder / "refold" / "inspectors").iterdir()
        assert stat.S_IMODE(left.stat().st_mode) == 0o600
        with program(folder, "show", "my task/1", "--web") as second:
            out, err = second.communicate(timeout=LIMIT)
        assert (second.returncode, err) == (0, "")
        assert out == f"refold inspect: {url}#/s/my%20task%2F1\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
        assert process.stderr.read() == ""
    assert not left.exists()


def test_a_taken_port_is_one_line_that_names_the_option(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with program(folder, "serve", "--inspect-only", "--port", port) as process:
            _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert err.startswith(f"refold: --port: cannot listen on 127.0.0.1:{port}: ")
    assert err.endswith("; choose another port (0: a free one)\n")


def test_show_web_runs_an_inspector_where_none_runs(folder):
    (folder / "refold" / "inspectors").mkdir()
    (folder / "refold" / "inspectors" / "1.json").write_text(
        '{"url": "http://127.0.0.1:9/inspect?token=x", "store": "x"}'
    )
    (folder / "refold" / "inspectors" / "2.json").write_text("no json")
    with program(folder, "show", "my task/1", "--web") as process:
        url = url_in(process.stdout.readline())
        assert url.endswith("#/s/my%20task%2F1")
        assert ask(url, "/api/about")["read_only"] is False
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0


def test_a_browser_is_led_by_a_file_that_only_the_user_reads(folder):
    """The command line of a browser is no place for a token: other users of the machine see it."""
    seen = folder / "seen"
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}.new\nmv {seen}.new {seen}\n')
    browser.chmod(0o755)
    with program(folder, "show", "my task/1", "--web", BROWSER=f"{browser} %s") as process:
        url = url_in(process.stdout.readline())
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
    address = seen.read_text().strip()
    assert address.startswith("file://")
    assert "token" not in address
    page = folder / "refold" / "inspectors" / "open.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert url.replace("&", "&amp;") in page.read_text()


def test_a_store_that_does_not_exist_is_not_made(folder):
    with program(folder, "serve", "--inspect-only", "--store", "sqlite:none.db", "--port", "0") as process:
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (1, "")
    assert "there is no store in sqlite:none.db" in err
    assert not (folder / "none.db").exists()


@pytest.mark.parametrize(
    ("words", "variables", "text"),
    [
        (["--host", "0.0.0.0"], {}, "REFOLD_SERVE_INSPECT_TOKEN"),
        (
            ["--host", "0.0.0.0"],
            {"REFOLD_SERVE_INSPECT_TOKEN": "x" * 40},
            "tls_certificate and tls_key, or say --behind-proxy",
        ),
        ([], {"REFOLD_SERVE_INSPECT_TOKEN": "short"}, "too short"),
    ],
)
def test_it_refuses_to_be_reached_by_others_without_a_token_and_tls(folder, words, variables, text):
    with program(folder, "serve", "--inspect-only", "--port", "0", *words, **variables) as process:
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (2, "")
    assert text in err
    assert len(err.splitlines()) == 1


def test_the_gateway_beyond_this_machine_has_no_page_unless_it_is_wanted(folder):
    variables = {"REFOLD_SERVE_TOKEN": "a-token-of-callers-1234"}
    with program(folder, "serve", "--host", "0.0.0.0", "--port", "0", **variables) as process:
        assert process.stdout.readline().startswith("refold serve: ")
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=LIMIT) == ("", "")
    variables["REFOLD_SERVE_INSPECT"] = "true"
    with program(folder, "serve", "--host", "0.0.0.0", "--port", "0", **variables) as process:
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (2, "")
    assert "REFOLD_SERVE_INSPECT_TOKEN" in err


def test_read_only_is_an_option_and_a_setting(folder):
    for words, variables in ((["--inspect-read-only"], {}), ([], {"REFOLD_SERVE_INSPECT_READ_ONLY": "true"})):
        with program(folder, "serve", "--inspect-only", "--port", "0", *words, **variables) as process:
            assert ask(url_in(process.stdout.readline()), "/api/about")["read_only"] is True
