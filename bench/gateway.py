"""What the gateway costs, beside litellm's proxy and the thinnest proxy there can be, in one run.

    python bench/gateway.py [--only refold,floor,litellm] [--quick] [--json FILE] [--markdown FILE]

CPU time of the proxy's process and its children, per request; the upstream and the driver are others'
processes. Each conversation grows by one tool step a request, as an agent's does, so that all but the newest
messages are known. The gateway finds the conversation, stores what is new in SQLite and sends the folds that
stand: its policy folds histories of more than 200,000 tokens, and does so before anything is measured here.
litellm's proxy has one worker, no database and no key check. CPU time hardly depends on what else the
machine does; the load average is written beside it all the same.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("", "src", "tests", "tests/gateway")]

import aiohttp  # noqa: E402  # after the path is set
from client_bodies import Opencode  # noqa: E402

ENVIRONMENT: Final = ROOT / "bench" / ".envs" / "litellm-proxy"
LITELLM: Final = "litellm[proxy]==1.106.2"
GOALS: Final = {"10 kB": 1.2, "1 MB": 8.0, "10 MB": 90.0}
"""CPU-milliseconds that the gateway may take."""
STREAM_GOAL: Final = 1.5
"""Times the thinnest proxy, for a stream."""
LITELLM_GOAL: Final = 1 / 20
OPEN_STREAMS: Final = 2_000
OPEN_MEGABYTES: Final = 400
_LITELLM_VARIABLES: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
_TICK: Final = os.sysconf("SC_CLK_TCK")
_PORT: Final = re.compile(r"http://(?:127\.0\.0\.1|0\.0\.0\.0|localhost):(\d+)")
_REST_SECONDS: Final = 0.5
"""What goes on behind an answer belongs to its request."""
_MARKS: Final = ("<!-- gateway costs -->", "<!-- end -->")


@dataclass(frozen=True, slots=True)
class Size:
    """Requests of one size."""

    name: str
    steps: int
    words: int
    talks: int
    """Conversations."""
    slow_talks: int
    """The same for a proxy that takes a hundred times as long."""


SIZES: Final = (
    Size("10 kB", 8, 130, 100, 8),
    Size("1 MB", 680, 200, 8, 1),
    Size("10 MB", 6_800, 200, 2, 1),
)
"""A step of an agent has two messages and some 1.5 kB."""
_MORE: Final = 4
"""Requests of each conversation that are measured, each with one step more."""


# -- the proxies -------------------------------------------------------------------------------------------


@contextmanager
def running(words: list[str], folder: Path, **variables: str) -> Iterator[tuple[int, str]]:
    """Run a server; gives its process and its address."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), **variables}
    log = folder / f"{Path(words[0]).name}-{len(list(folder.iterdir()))}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=folder)
    try:
        yield process.pid, _wait_for_address(log, process)
    finally:
        process.terminate()
        process.wait()


def _wait_for_address(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the address that a server has printed, as soon as it has."""
    for _ in range(3_000):
        if found := _PORT.search(log.read_text(encoding="utf-8", errors="replace")):
            return f"http://127.0.0.1:{found[1]}"
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"no address: {log.read_text(errors='replace')[-1000:]}")


@contextmanager
def running_proxy(name: str, upstream: str, folder: Path) -> Iterator[tuple[int, str]]:
    """Run one of the proxies in front of an upstream."""
    python = [sys.executable]
    if name == "floor":
        words = [*python, str(ROOT / "bench" / "gateway_servers.py"), "floor", upstream]
        with running(words, folder) as found:
            yield found
    elif name == "refold":
        words = [*python, "-m", "refold.cli", "serve", "--port", "0", "--window", "9000000"]
        words += ["--store", f"sqlite:{folder}/sessions.db", "--upstream-openai", f"{upstream}/v1"]
        with running(words, folder, PYTHONPATH=str(ROOT / "src")) as found:
            yield found
    else:
        with running(_write_litellm(upstream, folder), folder, **_LITELLM_VARIABLES) as found:
            yield found


def _write_litellm(upstream: str, folder: Path) -> list[str]:
    """Install litellm's proxy if it is missing, and return how it is started."""
    program = ENVIRONMENT / "bin" / "litellm"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        pip = [str(ENVIRONMENT / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", LITELLM]
        subprocess.run(pip, check=True)
    parameters = {"model": "openai/gpt-4o", "api_base": f"{upstream}/v1", "api_key": "sk-none"}
    names = ("gpt-4o", "open")
    models = [{"model_name": name, "litellm_params": parameters} for name in names]
    config = {"model_list": models, "general_settings": {}, "litellm_settings": {"telemetry": False}}
    place = folder / "litellm.json"
    place.write_text(json.dumps(config), encoding="utf-8")
    return [str(program), "--config", str(place), "--host", "127.0.0.1", "--port", str(_find_port())]


def _find_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


# -- measuring ---------------------------------------------------------------------------------------------


def read_cpu(pid: int) -> float:
    """Return the CPU-milliseconds that a process and its children have used."""
    total = 0.0
    for process in [pid, *_list_children(pid)]:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) * 1000 / _TICK
    return total


def _list_children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_list_children(int(child))]
    return found


def read_memory(pid: int) -> float:
    """Return the megabytes of a process and its children."""
    rows = []
    for process in [pid, *_list_children(pid)]:
        rows += [row for row in Path(f"/proc/{process}/status").read_text().splitlines() if "VmRSS" in row]
    return sum(int(row.split()[1]) for row in rows) / 1024


async def measure_sizes(
    pid: int, address: str, http: aiohttp.ClientSession, *, slow: bool
) -> dict[str, float]:
    """Return the CPU-milliseconds of a request of each size, in a conversation that grows."""
    found = {}
    for size in SIZES:
        talks = [
            Opencode(session=f"s{size.words}_{number}", task=f"{number}", words=size.words, restless=False)
            for number in range(size.slow_talks if slow else size.talks)
        ]
        for client in talks:
            await _send_steps(http, address, client, range(size.steps, size.steps + 2))
        await asyncio.sleep(_REST_SECONDS)
        before = read_cpu(pid)
        for client in talks:
            await _send_steps(http, address, client, range(size.steps + 2, size.steps + 2 + _MORE))
        await asyncio.sleep(_REST_SECONDS)
        found[size.name] = (read_cpu(pid) - before) / (len(talks) * _MORE)
    return found


async def _send_steps(http: aiohttp.ClientSession, address: str, client: Opencode, steps: range) -> None:
    for step in steps:
        request = client.request(step)
        body = json.dumps({**request.body, "stream": False}).encode()
        await _post(http, address, body, {**request.headers, "Content-Type": "application/json"})


async def measure_streams(pid: int, address: str, http: aiohttp.ClientSession, *, slow: bool) -> float:
    """Return the CPU-milliseconds of a stream of 500 events, ten at a time."""
    count = 10 if slow else 60
    request = Opencode(session="ses_stream", restless=False).request(4)
    body, headers = request.bytes, {**request.headers, "Content-Type": "application/json"}
    await _post(http, address, body, headers)
    before, places = read_cpu(pid), asyncio.Semaphore(10)

    async def read_stream() -> None:
        async with places:
            await _post(http, address, body, headers)

    await asyncio.gather(*(read_stream() for _ in range(count)))
    await asyncio.sleep(_REST_SECONDS)
    return (read_cpu(pid) - before) / count


async def measure_open_streams(pid: int, address: str, upstream: str, http: aiohttp.ClientSession) -> float:
    """Return the megabytes of a proxy with many streams open, each of another conversation."""
    request = Opencode(session="ses_open", restless=False).request(1)
    places = asyncio.Semaphore(100)

    async def open_stream(number: int) -> aiohttp.ClientResponse:
        messages = [request.body["messages"][0], {"role": "user", "content": f"Task {number}"}]
        body = {"model": "open", "stream": True, "messages": [*messages, *request.body["messages"][2:]]}
        async with places:
            response = await http.post(f"{address}/v1/chat/completions", json=body, headers=_AUTHORIZED)
            await response.content.readany()
        return response

    streams = await asyncio.gather(*(open_stream(number) for number in range(OPEN_STREAMS)))
    memory = read_memory(pid)
    await http.get(f"{upstream}/end")
    await asyncio.gather(*(stream.read() for stream in streams))
    return memory


_AUTHORIZED: Final = {"Authorization": "Bearer sk-none"}


async def _post(http: aiohttp.ClientSession, address: str, body: bytes, headers: dict[str, str]) -> None:
    async with http.post(f"{address}/v1/chat/completions", data=body, headers=headers) as response:
        text = await response.read()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {text[:300]!r}")


@asynccontextmanager
async def _serving(name: str) -> AsyncIterator[tuple[int, str, str, aiohttp.ClientSession]]:
    """Run a proxy that has done nothing yet; gives its process, both addresses and a client."""
    limits = aiohttp.ClientTimeout(total=600)
    connector = aiohttp.TCPConnector(limit=0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        servers = [sys.executable, str(ROOT / "bench" / "gateway_servers.py"), "upstream"]
        with (
            running(servers, folder) as (_, upstream),
            running_proxy(name, upstream, folder) as (pid, address),
        ):
            async with aiohttp.ClientSession(connector=connector, timeout=limits) as http:
                await _wait_until_it_answers(http, address)
                yield pid, address, upstream, http


async def measure(name: str, *, open_streams: bool) -> dict[str, float]:
    """Return the numbers of one proxy."""
    slow = name == "litellm"
    async with _serving(name) as (pid, address, _, http):
        found = await measure_sizes(pid, address, http, slow=slow)
        found["stream"] = await measure_streams(pid, address, http, slow=slow)
        found["memory"] = read_memory(pid)
    if open_streams and not slow:  # beside histories of 10 MB it would be their memory that is measured
        async with _serving(name) as (pid, address, upstream, http):
            found["open_streams"] = await measure_open_streams(pid, address, upstream, http)
    return {key: round(value, 2) for key, value in found.items()}


async def _wait_until_it_answers(http: aiohttp.ClientSession, address: str) -> None:
    """Wait for a server that prints its address before it listens."""
    body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}).encode()
    for _ in range(600):
        try:
            return await _post(http, address, body, {**_AUTHORIZED, "Content-Type": "application/json"})
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(0.2)
    raise RuntimeError(f"{address} does not answer")


# -- reporting ---------------------------------------------------------------------------------------------


def find_misses(found: dict[str, dict[str, float]]) -> list[str]:
    """Return the goals that were missed."""
    ours = found.get("refold", {})
    misses = [
        f"{size}: {ours[size]} ms, not {goal}" for size, goal in GOALS.items() if ours.get(size, 0) > goal
    ]
    floor, litellm = found.get("floor", {}), found.get("litellm", {})
    if ours and floor and ours["stream"] > STREAM_GOAL * floor["stream"]:
        misses.append(f"stream: {ours['stream'] / floor['stream']:.1f} times the floor, not {STREAM_GOAL}")
    columns = (*GOALS, "stream") if ours and litellm else ()
    misses += [
        f"{name}: over 1/20 of litellm" for name in columns if ours[name] > LITELLM_GOAL * litellm[name]
    ]
    if ours.get("open_streams", 0) > OPEN_MEGABYTES:
        misses.append(f"{OPEN_STREAMS:,} open streams: {ours['open_streams']} MB, not {OPEN_MEGABYTES}")
    return misses


def write_table(report: dict[str, Any]) -> str:
    """Return the numbers as a table for a page."""
    names = {
        "refold": "`refold serve`",
        "floor": "thinnest aiohttp proxy",
        "litellm": "litellm's proxy 1.106.2",
    }
    rows = ["| CPU-ms per request | 10 kB | 1 MB | 10 MB | stream of 500 | 2,000 open streams |"]
    rows.append("|---|---|---|---|---|---|")
    for name, found in report["proxies"].items():
        numbers = [f"{found[column]:,.1f}" for column in (*GOALS, "stream")]
        memory = f"{found['open_streams']:,.0f} MB" if "open_streams" in found else "not measured"
        rows.append(f"| {names[name]} | {' | '.join(numbers)} | {memory} |")
    return "\n".join(rows)


def main() -> None:
    """Measure the proxies, print a table, and exit 1 if a goal was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="refold,floor,litellm")
    parser.add_argument("--quick", action="store_true", help="without the open streams")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, help="a page with the marks between which the table stands")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (16_384, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    found = {}
    for name in options.only.split(","):
        found[name] = asyncio.run(measure(name, open_streams=not options.quick))
        print(name, json.dumps(found[name]), flush=True)
    report = {
        "proxies": found,
        "missed": find_misses(found),
        "load_average": [round(one, 2) for one in os.getloadavg()],
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "aiohttp": aiohttp.__version__,
    }
    table = write_table(report)
    print(table, *report["missed"], sep="\n")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if options.markdown:
        page = options.markdown.read_text(encoding="utf-8")
        head, _, rest = page.partition(_MARKS[0])
        tail = rest.partition(_MARKS[1])[2]
        text = (
            f"{head}{_MARKS[0]}\n\n{table}\n\nLoad average {report['load_average'][0]}.\n\n{_MARKS[1]}{tail}"
        )
        options.markdown.write_text(text, encoding="utf-8")
    sys.exit(1 if report["missed"] else 0)


if __name__ == "__main__":
    main()
