"""`refold serve` as a process: its first line, its settings, its signals."""

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from client_bodies import ClaudeCode
from recording_upstream import LIMIT, answer_json

from forked_program import SERVERS, Forked, run_forked

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


@contextmanager
def serving(folder, *args, **variables):
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), **variables}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    process = Forked(["serve", *args], preload=SERVERS, cwd=folder, env=environment, text=True, **pipes)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address_in(line: str) -> str:
    return re.match(r"refold serve: (http://\S+) \|", line)[1]


def ask(address: str) -> int:
    request = urllib.request.Request(f"{address}/v1/messages", data=b"{}")
    with urllib.request.urlopen(request, timeout=LIMIT) as reply:
        return reply.status


def test_two_lines_say_where_and_how(tmp_path, upstream):
    with serving(tmp_path, "--port", "0", "--upstream-anthropic", upstream.url) as process:
        line = process.stdout.readline()
        address = address_in(line)
        assert f"ANTHROPIC_BASE_URL={address}" in line
        assert f"codex -c openai_base_url={address}/v1" in line
        assert f"base_url={address}/v1" in line
        assert process.stdout.readline().startswith(f"refold inspect: {address}/inspect?token=")
        assert ask(address) == 200
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
        assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(("host", "local"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])
def test_a_gateway_for_other_machines_says_how_they_reach_it(tmp_path, host, local):
    token = "t" * 16
    with serving(tmp_path, "--host", host, "--port", "0", REFOLD_SERVE_TOKEN=token) as process:
        line = process.stdout.readline()
        address = address_in(line)
        with urllib.request.urlopen(f"{address}/healthz", timeout=LIMIT) as reply:
            assert reply.status == 200
    assert address.startswith(f"http://{local}:")
    assert f"ANTHROPIC_BASE_URL={address} claude" in line
    *_, elsewhere, sends = line.strip().split(" | ")
    assert elsewhere == f"from other machines: this machine's name in place of {local}"
    assert sends == "each request sends REFOLD_SERVE_TOKEN in the header x-refold-token"


@pytest.mark.parametrize("store", ["sqlite:{}/nowhere/x.db", "sqlite:{}/junk.db"])
def test_a_store_that_is_away_at_the_start_stops_no_request(tmp_path, upstream, store):
    (tmp_path / "junk.db").write_text("no database " * 1_000)
    options = ("--port", "0", "--upstream-anthropic", upstream.url, "--store", store.format(tmp_path))
    with serving(tmp_path, *options) as process:
        address = address_in(process.stdout.readline())
        process.stdout.readline()
        assert [ask(address), ask(address)] == [200, 200]
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{address}/readyz", timeout=LIMIT)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 0
        assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \S", err, re.MULTILINE), err


def test_settings_come_from_the_file_and_the_environment(tmp_path, upstream):
    (tmp_path / "refold.toml").write_text(f'[serve]\nport = 1\nupstream_anthropic = "{upstream.url}"\n')
    with serving(tmp_path, REFOLD_SERVE_PORT="0") as process:
        assert ask(address_in(process.stdout.readline())) == 200
    assert upstream.seen[0].path == "/v1/messages"


@pytest.mark.parametrize(("cap", "is_asked"), [("none", True), ("0", False)])
def test_caps_of_the_file_hold_for_summaries(tmp_path, upstream, cap, is_asked):
    """The summariser stands behind the address of the upstream too."""
    line = "" if cap == "none" else f"max_summary_tokens_per_hour = {cap}\n"
    summariser = f'window = "8k"\nask = "{upstream.url}/v1#small"\n'
    (tmp_path / "refold.toml").write_text(
        f'{line}{summariser}[serve]\nport = 0\nupstream_anthropic = "{upstream.url}"\n'
    )
    with serving(tmp_path) as process:
        address = address_in(process.stdout.readline())
        for steps in (38, 40):
            request = ClaudeCode(words=300).request(steps)
            sent = urllib.request.Request(f"{address}/v1/messages", request.bytes, request.headers)
            with urllib.request.urlopen(sent, timeout=LIMIT) as reply:
                assert reply.headers["x-refold-fold"] in ("made", "ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
    assert ("/v1/chat/completions" in [seen.path for seen in upstream.seen]) is is_asked


def test_sigterm_lets_an_open_answer_end(tmp_path, upstream):
    with serving(tmp_path, "--port", "0", "--upstream-anthropic", upstream.url) as process:
        address = address_in(process.stdout.readline())

        def stop_first(line):
            process.send_signal(signal.SIGTERM)
            answer_json({"late": True})(line)

        upstream.script = [stop_first]
        assert ask(address) == 200
        assert process.wait(LIMIT) == 0


def test_sighup_reads_the_settings_again(tmp_path, upstream):
    file = tmp_path / "refold.toml"
    file.write_text('[serve]\nport = 0\nupstream_anthropic = "http://127.0.0.1:9"\n')
    with serving(tmp_path) as process:
        address = address_in(process.stdout.readline())
        assert process.stdout.readline().startswith("refold inspect: ")
        file.write_text(f'[serve]\nport = 0\nupstream_anthropic = "{upstream.url}"\n')
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "refold serve: the settings were read again\n"
        assert ask(address) == 200
        file.write_text("[serve]\nprot = 0\n")
        process.send_signal(signal.SIGHUP)
        line = process.stdout.readline()
        assert line.startswith("refold serve: the settings stay as they were: ")
        assert "did you mean port?" in line
        assert ask(address) == 200


def test_looks_of_the_operator_at_tenants_are_lines_on_standard_error(tmp_path):
    secrets = {"REFOLD_SERVE_TENANT_SECRET": "a secret of the server", "REFOLD_SERVE_INSPECT_TOKEN": "t" * 40}
    with serving(tmp_path, "--port", "0", REFOLD_SERVE_TENANCY="key", **secrets) as process:
        address = address_in(process.stdout.readline())
        cookie = f"refold-inspect-{address.rpartition(':')[2]}={'t' * 40}"
        look = urllib.request.Request(f"{address}/inspect/api/sessions", headers={"Cookie": cookie})
        with urllib.request.urlopen(look, timeout=LIMIT) as reply:
            assert reply.status == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=LIMIT)
    assert err.endswith(" the operator looked at /api/sessions of tenant ''\n")
    assert "t" * 40 not in err


UNSEEN = {"REFOLD_SERVE_INSPECT": "false"}


@pytest.mark.parametrize(
    ("args", "variables", "words"),
    [
        (["--port", "70000"], {}, "--port: must be a number from 0 to 65535"),
        (["--host", "0.0.0.0"], {}, "REFOLD_SERVE_TOKEN"),
        (["--upstream-openai", "nowhere"], {}, "refold: --upstream-openai: is no address"),
        (
            [],
            {"REFOLD_SERVE_UPSTREAM_OPENAI": "nowhere"},
            "refold: REFOLD_SERVE_UPSTREAM_OPENAI: is no address",
        ),
        (["--window", "3"], {}, "refold: --window: a window of 3 tokens holds no request"),
        ([], {"REFOLD_WINDOW": "3"}, "refold: REFOLD_WINDOW: a window of 3 tokens holds no request"),
        (["--store", "nope:"], {}, "refold: --store: there is no store 'nope'"),
        ([], {"REFOLD_STORE": "nope:"}, "refold: REFOLD_STORE: there is no store 'nope'"),
        ([], {"REFOLD_SERVE_HOST": "0.0.0.0"}, "refold: REFOLD_SERVE_HOST: 0.0.0.0 can be reached"),
        (
            [],
            {"REFOLD_SERVE_TLS_KEY": "k"},
            "refold: REFOLD_SERVE_TLS_KEY: tls_certificate and tls_key belong",
        ),
        (
            [],
            {"REFOLD_SERVE_SUMMARY_MODEL": "local:x"},
            "refold: REFOLD_SERVE_SUMMARY_MODEL: 'local:x' names",
        ),
        (
            ["--host", "no host"],
            {"REFOLD_SERVE_TOKEN": "t" * 16, **UNSEEN},
            "refold: --host: cannot listen on",
        ),
        ([], {"REFOLD_SERVE_MAX_BODY": "many"}, "REFOLD_SERVE_MAX_BODY: must be a number of bytes"),
        ([], {"REFOLD_SERVE_IDLE_SECONDS": "0"}, "REFOLD_SERVE_IDLE_SECONDS: must be a number of seconds"),
        ([], {"REFOLD_SERVE_ALLOW_HOSTS": "[::1]:80,*"}, "refold: REFOLD_SERVE_ALLOW_HOSTS: has '*': write"),
        ([], {"REFOLD_SERVE_ALLOW_ORIGINS": "https://a.example,https://b.example/"}, "has 'https://b.ex"),
        ([], {"REFOLD_SERVE_INSPECT": "perhaps"}, "REFOLD_SERVE_INSPECT: must be true, false or auto"),
    ],
)
def test_mistakes_are_one_line(tmp_path, args, variables, words):
    with serving(tmp_path, *args, **variables) as process:
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[serve]\nupstream_gemini = "nowhere"', "serve.upstream_gemini: is no address"),
        ('[serve]\nallow_origins = ["*"]', "serve.allow_origins: has '*'"),
        ('[serve]\ntenant_header = "x-tenant"', "serve.tenant_header: needs tenancy"),
        (
            '[serve]\ntls_certificate = "nowhere.pem"\ntls_key = "k"',
            "serve.tls_certificate: nowhere.pem cannot",
        ),
        ("window = 3", "window: a window of 3 tokens"),
        ('ask = "foo"', "ask: 'foo'"),
        ('policy = "nope"', "policy: there is no policy"),
        ('store = "nope:"', "store: there is no store"),
        ('summarization_model = "gpt"\nsummarization_provider = "x"', "summarization_provider, "),
    ],
)
def test_a_mistake_of_the_file_names_file_and_key(tmp_path, text, place):
    (tmp_path / "refold.toml").write_text(text)
    with serving(tmp_path, "--port", "0") as process:
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"refold: refold.toml: {place}")


@pytest.mark.parametrize("names", ["5", "true", '["a.example", 5]', '"a.example,,b.example"'])
def test_names_that_are_none_are_one_line(tmp_path, names):
    (tmp_path / "refold.toml").write_text(f"[serve]\nallow_hosts = {names}\n")
    with serving(tmp_path, "--port", "0") as process:
        out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    assert "allow_hosts: must be a list of names" in err


def test_a_port_in_use_is_one_line(tmp_path, upstream):
    port = upstream.url.rpartition(":")[2]
    with serving(tmp_path, "--port", port) as process:
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert err.startswith(f"refold: --port: cannot listen on 127.0.0.1:{port}: ")
    assert err.count("\n") == 1


def show_config(folder, **variables):
    return run_forked("config", "--json", cwd=folder, env={**os.environ, **variables}, text=True)


def test_the_settings_of_the_gateway_are_shown(tmp_path):
    (tmp_path / "refold.toml").write_text(
        '[serve]\nmax_body = "1m"\nallow_hosts = ["a.example", "b.example"]\n'
    )
    variables = {"REFOLD_SERVE_DRAIN_SECONDS": "2.5", "REFOLD_SERVE_TOKEN": "geheim-0123456789"}
    shown = show_config(tmp_path, **variables)
    rows = json.loads(shown.stdout)["settings"]
    assert rows["serve.max_body"]["value"] == 1024 * 1024
    assert rows["serve.allow_hosts"]["value"] == "a.example, b.example"
    assert rows["serve.drain_seconds"]["source"] == "REFOLD_SERVE_DRAIN_SECONDS"
    assert "geheim" not in shown.stdout + shown.stderr
    assert shown.stderr == ""


def test_every_setting_is_on_the_page_with_its_default(tmp_path):
    page = PAGE.read_text(encoding="utf-8").partition("## The gateway")[2].partition("\n## ")[0]
    defaults = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE))
    variables = {f"REFOLD_SERVE_{name.upper()}": default for name, default in defaults.items()}
    rows = json.loads(show_config(tmp_path, **variables).stdout)["settings"]
    assert {name: rows[f"serve.{name}"]["default"] for name in defaults} == defaults
    (tmp_path / "refold.toml").write_text("[serve]\nzzzzzz = 1\n")
    names = show_config(tmp_path).stderr.strip().partition("; there are ")[2]
    assert set(names.split(", ")) == set(defaults)


def test_a_variable_that_sets_nothing_is_named(tmp_path, upstream):
    """What Kubernetes sets for a service called refold-serve is no mistake, and stops nothing."""
    cluster = {
        "REFOLD_SERVE_SERVICE_HOST": "10.0.0.1",
        "REFOLD_SERVE_SERVICE_PORT_HTTP": "8377",
        "REFOLD_SERVE_PORT": "tcp://10.0.0.1:8377",
        "REFOLD_SERVE_PORT_8377_TCP": "tcp://10.0.0.1:8377",
        "REFOLD_SERVE_PORT_8377_TCP_ADDR": "10.0.0.1",
    }
    with serving(tmp_path, "--port", "0", REFOLD_SERVE_MAX_BODDY="1m", **cluster) as process:
        assert address_in(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=LIMIT)[1]
    assert said.splitlines() == [
        "refold: note: nobody reads REFOLD_SERVE_MAX_BODDY; did you mean REFOLD_SERVE_MAX_BODY?"
    ]
