"""The shapes in which operators run `refold serve`: image, systemd unit, compose file with a load balancer.

No container engine is needed: the files are read, their commands run against gateways that really run, and
the programs that read them check them where they are installed.
"""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from client_bodies import ClaudeCode
from recording_upstream import LIMIT, Running, running_gateway, running_upstream, send

from forked_program import run_forked
from refold.gateway import GatewayOptions, HistoryOptions
from sample_sizes import WHOLE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TOKEN = "a-token-for-the-tests"
CLOSING_SECONDS = 10
"""Seconds that a gateway may take after its drain for session calls that still run."""
OTHERS_VARIABLES = {
    "PATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "PGPASSWORD",
}


def need(program):
    """Return the path of a program, or skip the test."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def run(*command, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(
        [str(word) for word in command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


PINNED = ("deploy/requirements.txt", "deploy/requirements-build.txt")
"""What the image installs, by hash."""


def read_dockerfile():
    """The instructions of the Dockerfile, in their order."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def arguments_of(instruction):
    return [rest for name, rest in read_dockerfile() if name == instruction]


def image_variables():
    return dict(word.split("=", 1) for row in arguments_of("ENV") for word in shlex.split(row))


def read_compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def read_unit():
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parser.optionxform = str
    parser.read(DEPLOY / "refold-serve.service")
    return parser


def seconds(text):
    assert re.fullmatch(r"\d+s?", text)
    return int(text.rstrip("s"))


def known_variables(folder):
    """Every variable that `refold serve` reads."""
    shown = json.loads(run_forked("config", "--json", cwd=folder).stdout)
    names = [name for name in shown["settings"] if "." not in name]
    own = {field.name for options in (GatewayOptions, HistoryOptions) for field in fields(options)}
    names += [f"serve_{name}" for name in own - {*names, "make_policy"}]
    return {f"REFOLD_{name.upper()}" for name in names}


@contextmanager
def serving(folder, *before, source=ROOT / "src", **variables):
    """Run `refold serve` as a process; gives it with its port."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": str(source), **variables}
    command = [*before, sys.executable, "-m", "refold.cli", "serve"]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("refold serve: http"), line + process.stderr.read()
        port = int(re.search(r"http://\S+:(\d+) ", line)[1])
        yield process, port
    finally:
        process.kill()
        process.communicate()


# -- the image -----------------------------------------------------------------------------------------------


def test_the_image_has_a_plain_base_and_no_root():
    bases = [base.split()[0] for base in arguments_of("FROM")]
    assert all(re.fullmatch(r"python:\$\{PYTHON\}-slim", base) for base in bases)
    assert arguments_of("USER")[-1] not in ("root", "0")
    names = [name for name, _ in read_dockerfile()]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert not re.search(r"TOKEN|KEY|PASSWORD|SECRET", " ".join(arguments_of("ENV") + arguments_of("ARG")))


def test_the_image_is_made_of_the_copied_source_and_real_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = next(row for row in arguments_of("ARG") if row.startswith("EXTRAS=")).partition("=")[2]
    assert set(extras.split(",")) == {"serve", "postgres", "sqlite", "clients"}
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    copied = {word for row in arguments_of("COPY") if "--from" not in row for word in row.split()[:-1]}
    assert copied == {"pyproject.toml", "src", project["readme"], *project["license-files"], *PINNED}
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied


def read_pinned(name):
    """The packages of a file, each with its version and its hashes."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (ROOT / name).read_text(encoding="utf-8")).replace("\\\n", " ")
    rows = [row.split() for row in text.splitlines() if row.strip()]
    return {row[0]: [word for word in row if word.startswith("--hash=")] for row in rows}


@pytest.mark.parametrize("name", PINNED)
def test_every_package_of_the_image_is_pinned_by_hash(name):
    pinned = read_pinned(name)
    assert pinned
    for package, hashes in pinned.items():
        assert re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", package)
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)


def test_what_the_image_installs_is_pinned_or_comes_from_the_source():
    """Each step of pip checks hashes, or asks no index at all."""
    steps = [step for row in arguments_of("RUN") for step in row.split("&&") if re.search(r"\bpip ", step)]
    assert len(steps) == 4
    for step in steps:
        assert (
            "--require-hashes -r requirements" in step
            or "--no-index" in step
            or "--no-build-isolation" in step
        )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = [need for extra in ("serve", "postgres", "sqlite", "clients") for need in extras[extra]]
    named = {package.partition("==")[0] for package in read_pinned(PINNED[0])}
    assert {re.match(r"[\w.-]+", need)[0] for need in wanted} <= named
    build = {package.partition("==")[0] for package in read_pinned(PINNED[1])}
    assert {re.match(r"[\w.-]+", need)[0] for need in project["build-system"]["requires"]} <= build


def test_every_variable_of_the_image_is_known(tmp_path):
    assert set(image_variables()) <= known_variables(tmp_path) | OTHERS_VARIABLES
    assert image_variables()["REFOLD_SERVE_PORT"] == arguments_of("EXPOSE")[0]


def health_check(port):
    """The command of the image, as it is written."""
    words = json.loads(arguments_of("HEALTHCHECK")[0].partition("CMD ")[2])
    assert words[0] == "python"
    proxy = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    return run(sys.executable, *words[1:], REFOLD_SERVE_PORT=str(port), **proxy).returncode


def make_root(folder):
    """The copied source and the folders of the image, and its variables with their places here."""
    state = folder / "var" / "lib" / "refold"
    state.mkdir(parents=True)
    shutil.copytree(ROOT / "src", folder / "src")  # with what is compiled of it, as in the image
    variables = {name: value for name, value in image_variables().items() if name != "PATH"}
    places = {name: f"{folder}{variables[name]}" for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    return state, {**variables, **places, "REFOLD_SERVE_PORT": "0", "REFOLD_SERVE_TOKEN": TOKEN}


def files_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_the_health_check_of_the_image_tells_a_gateway_that_runs(tmp_path):
    """As in the image: the copied source, its variables, all addresses, the token, another user's home."""
    state, variables = make_root(tmp_path)
    before = files_in(tmp_path)
    with serving(state, source=tmp_path / "src", **variables) as (process, port):
        assert health_check(port) == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
        assert health_check(port) == 1
    new = {Path(name) for name in files_in(tmp_path) - before}
    assert new
    assert {path.parent for path in new} == {Path("var/lib/refold")}


def test_a_gateway_runs_on_a_read_only_root(tmp_path):
    state, variables = make_root(tmp_path)
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro / && ! touch "$0/../x" 2>&- && exec "$@"'
    isolated = [need("unshare"), "--mount", "--map-root-user", "sh", "-c", script, str(state)]
    if run(*isolated, "true").returncode:
        pytest.skip("this machine lets nobody mount a read-only root")
    with serving(state, *isolated, source=tmp_path / "src", **variables) as (_, port), running_upstream():
        assert health_check(port) == 0
        assert send(Running(None, None, port), "GET", "/readyz").status == 200
    assert (state / "refold.db").exists()


# -- systemd -------------------------------------------------------------------------------------------------


def test_the_unit_fits_the_gateway(tmp_path):
    service = read_unit()["Service"]
    options = GatewayOptions()
    assert service["ExecStart"].split()[1:] == ["serve"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["KillSignal"] == "SIGTERM"
    assert seconds(service["TimeoutStopSec"]) > options.drain_seconds + CLOSING_SECONDS
    assert int(service["LimitNOFILE"]) > 2 * options.max_requests
    assert (service["DynamicUser"], service["StateDirectory"]) == ("yes", "refold")
    names = {word.partition("=")[0] for word in service["Environment"].split()}
    assert names <= known_variables(tmp_path) | OTHERS_VARIABLES


def test_the_unit_keeps_its_store_in_its_state_directory(tmp_path):
    """`%S` and `%E` are the folders above the state and the configuration of a service."""
    folders = {"%S": f"{tmp_path}/state", "%E": f"{tmp_path}/etc"}
    words = [word.partition("=") for word in read_unit()["Service"]["Environment"].split()]
    variables = {name: folders.get(value, value) for name, _, value in words}
    settings = tmp_path / "etc" / "refold" / "refold.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[serve]\nport = 0\n")
    with serving("/", **variables) as (process, _):
        assert process.stdout.readline().startswith("refold inspect: ")
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "refold serve: the settings were read again\n"
    assert (tmp_path / "state" / "refold" / "refold.db").exists()


def test_systemd_takes_the_unit(tmp_path):
    analyze = need("systemd-analyze")
    unit = tmp_path / "refold-serve.service"
    text = (DEPLOY / unit.name).read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/refold/bin/refold", "/bin/true"))
    checked = run(analyze, "verify", "--man=no", unit)
    assert (checked.returncode, unit.name in checked.stderr) == (0, False), checked.stderr
    rated = run(analyze, "security", "--offline=yes", "--threshold=20", "--no-pager", unit)
    if "unrecognized option" in rated.stderr:
        pytest.skip("this systemd rates no unit that is not loaded")
    assert rated.returncode == 0, rated.stdout[-200:] + rated.stderr


# -- the page for operators ----------------------------------------------------------------------------------


def test_every_name_on_the_page_exists(tmp_path):
    page = (ROOT / "docs" / "gateway-operating.md").read_text(encoding="utf-8")
    assert set(re.findall(r"REFOLD_[A-Z_]+", page)) <= known_variables(tmp_path)
    with (
        running_upstream() as upstream,
        running_gateway(upstream, HistoryOptions(store="memory:")) as gateway,
    ):
        request = ClaudeCode().request(2)
        send(gateway, "POST", request.path, request.bytes, list(request.headers.items()))
        shown = send(gateway, "GET", "/metrics").body.decode()
    metrics = set(re.findall(r"refold_gateway_\w+", page))
    assert len(metrics) == 6
    assert {
        name for name in metrics if not re.search(rf"^{name}\b|^{name}_count\b", shown, re.MULTILINE)
    } == set()
    for name in re.findall(
        r"`([\w.-]+)`", page.partition("## Three shapes")[2].partition("\n\nThe image")[0]
    ):
        assert (DEPLOY / name).exists() or name == "deploy"


# -- compose and the load balancer -----------------------------------------------------------------------------


def test_every_service_is_hardened_and_checked():
    services = read_compose()["services"]
    assert set(services) == {"gateway-1", "gateway-2", "balancer", "database"}
    for name, service in services.items():
        assert service["read_only"] is True
        assert service["user"].split(":")[0] not in ("0", "root")
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert "healthcheck" in service or "build" in service, name  # the image has its own
        assert re.fullmatch(r"[a-z-]+(:[a-z0-9.-]+)?", service["image"]), "no host of a registry"
    assert [name for name, service in services.items() if "ports" in service] == ["balancer"]
    assert services["balancer"]["ports"] == ["127.0.0.1:8377:8377"]
    assert services["database"]["networks"] == ["store"]
    assert read_compose()["networks"]["store"] == {"internal": True}


def test_the_replicas_are_gateways_with_secrets_from_the_environment(tmp_path):
    services, options = read_compose()["services"], GatewayOptions()
    uid = re.search(r"--uid (\d+)", " ".join(arguments_of("RUN")))[1]
    for name in ("gateway-1", "gateway-2"):
        service = services[name]
        variables = service["environment"]
        assert set(variables) <= known_variables(tmp_path) | OTHERS_VARIABLES
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).samefile(
            DEPLOY / "Dockerfile"
        )
        assert service["user"] == uid
        assert seconds(service["stop_grace_period"]) > options.drain_seconds + CLOSING_SECONDS
        assert service["ulimits"]["nofile"] > 2 * options.max_requests
        assert set(service["depends_on"]) == {"database"}
        assert "@database/" in variables["REFOLD_STORE"]
    for service in services.values():
        for name, value in service.get("environment", {}).items():
            if re.search("TOKEN|PASSWORD|SECRET", name):
                assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value)


def test_compose_takes_the_file():
    docker = need("docker")
    secrets = {
        "POSTGRES_PASSWORD": "p:w@/d",
        "REFOLD_SERVE_TOKEN": TOKEN,
        "REFOLD_SERVE_TENANT_SECRET": TOKEN,
    }
    if run(docker, "compose", "version").returncode:
        pytest.skip("docker has no compose")
    checked = run(docker, "compose", "-f", DEPLOY / "compose.yaml", "config", "--quiet", **secrets)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert run(docker, "compose", "-f", DEPLOY / "compose.yaml", "config", "--quiet").returncode != 0


def balancer_lines():
    text = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8")
    return [line.split("#")[0].strip() for line in text.splitlines()]


def test_the_balancer_fits_the_replicas():
    lines = balancer_lines()
    servers = {line for line in lines if line.startswith("server ")}
    replicas = [name for name in read_compose()["services"] if name.startswith("gateway")]
    assert servers == {f"server {name} {name}:8377" for name in replicas}
    sticky = [re.search(r"req\.hdr\(([\w-]+)\)", line)[1] for line in lines if "set-var(txn.session)" in line]
    assert sticky == [
        "x-claude-code-session-id",
        "session-id",
        "x-session-affinity",
        "x-api-key",
        "authorization",
    ]
    timeouts = dict(line.split()[1:] for line in lines if line.startswith("timeout "))
    assert seconds(timeouts["server"]) > GatewayOptions().first_byte_seconds
    assert seconds(timeouts["client"]) > GatewayOptions().first_byte_seconds
    assert not any("forwardfor" in line or "capture" in line for line in lines)


def test_haproxy_takes_the_configuration():
    checked = run(need("haproxy"), "-c", "-f", DEPLOY / "haproxy.cfg")
    assert checked.returncode == 0, checked.stderr


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def balancing(folder, ports):
    """Run the real haproxy with our file; only the addresses are others."""
    text, own = (DEPLOY / "haproxy.cfg").read_text(encoding="utf-8"), free_port()
    text = text.replace("bind :8377", f"bind 127.0.0.1:{own}")
    for name, port in ports.items():
        text = text.replace(f"{name}:8377", f"127.0.0.1:{port}")
    file = folder / "haproxy.cfg"
    file.write_text(text)
    log = (folder / "haproxy.log").open("w+")
    process = subprocess.Popen(
        [need("haproxy"), "-db", "-f", str(file)], stdout=log, stderr=subprocess.STDOUT
    )
    try:
        yield Running(None, None, own), folder / "haproxy.log"
    finally:
        process.kill()
        process.wait()
        log.close()


def wait_until(check):
    """Ask again until it is so; every question takes the time of a request."""
    assert any(check() for _ in range(50_000))


def play(balancer, request, query=""):
    headers = {**request.headers, "x-refold-token": TOKEN}
    reply = send(balancer, "POST", request.path + query, request.bytes, list(headers.items()))
    assert reply.status == 200
    return reply.header("x-refold-fold")


def is_answered(balancer):
    try:
        return send(balancer, "GET", "/healthz").status == 200
    except ConnectionError:  # the balancer does not listen yet
        return False


def replicas_in(log, since=0):
    """Backend and replica of each request with a history, in their order."""
    lines = log.read_text().splitlines()[since:]
    return [re.search(r"(\w+/gateway-\d)", line)[1] for line in lines if " POST " in line]


@pytest.fixture
def balanced(tmp_path):
    """Two replicas on one store that is missing yet, behind the real haproxy."""
    need("haproxy")
    with running_upstream() as upstream, ExitStack() as opened:
        variables = {
            "REFOLD_STORE": f"sqlite:{tmp_path}/data/sessions.db", "REFOLD_WINDOW": "30000",
            "REFOLD_SERVE_PORT": "0", "REFOLD_SERVE_TOKEN": TOKEN,
            "REFOLD_SERVE_UPSTREAM_ANTHROPIC": upstream.url,
        }  # fmt: skip
        names = ("gateway-1", "gateway-2")
        replicas = {name: opened.enter_context(serving(tmp_path, **variables)) for name in names}
        ports = {name: port for name, (_, port) in replicas.items()}
        balancer, log = opened.enter_context(balancing(tmp_path, ports))
        wait_until(lambda: is_answered(balancer))
        yield balancer, log, {name: process for name, (process, _) in replicas.items()}


@pytest.mark.skipif(not WHOLE, reason="a balancer and its replicas take 18 s of CPU: `make torture` runs it")
def test_replicas_behind_the_balancer(balanced, tmp_path):
    """Without their store they are not ready and pass requests on; then each conversation has its replica."""
    balancer, log, processes = balanced
    clients = [ClaudeCode(session=f"s{number}", task=f"Task {number}", words=500) for number in range(8)]
    wait_until(lambda: is_answered(balancer) and " alive/gateway" in log.read_text())
    assert {play(balancer, client.request(2)) for client in clients} == {"bypassed;store"}
    assert {name.partition("/")[0] for name in replicas_in(log)} == {"alive"}
    (tmp_path / "data").mkdir()
    back = [f"Server ready/{name} is UP" for name in processes]
    wait_until(lambda: is_answered(balancer) and all(line in log.read_text() for line in back))
    since = len(log.read_text().splitlines())
    for steps in (3, 4, 5):
        assert {play(balancer, client.request(steps), "&q=canary-query") for client in clients} == {"none"}
    wait_until(lambda: is_answered(balancer) and len(replicas_in(log, since)) == 3 * len(clients))
    served = replicas_in(log, since)
    assert set(served) == {"ready/gateway-1", "ready/gateway-2"}
    assert served == served[: len(clients)] * 3
    assert "canary" not in log.read_text()
    processes["gateway-1"].kill()
    processes["gateway-1"].wait(LIMIT)  # a connection that it still takes is lost with its request
    assert {play(balancer, client.request(20)) for client in clients} == {"made"}
