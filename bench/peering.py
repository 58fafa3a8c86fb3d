"""The peers from outside: their environments, made when needed, and their adapters, spoken to as processes.

    with Peer(pin, "summarization") as peer:
        view = peer.call("fold", messages=[...], budget=4_000, model=script)

A process that does not answer in time is ended and started anew at the next call.
"""

import json
import queue
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

BENCH: Final = Path(__file__).resolve().parent
ENVIRONMENTS: Final = BENCH / ".envs"

Model = Callable[[str], dict[str, Any]]
"""From a prompt to the line that answers it: `{"answer": ...}` or `{"error": ...}`."""


@dataclass(frozen=True)
class Pin:
    """One peer of bench/peers/pins.toml."""

    name: str
    packages: tuple[str, ...]
    adapter: str
    module: str
    ways: tuple[str, ...]
    asks: tuple[str, ...] = ()
    no_budget: tuple[str, ...] = ()
    """Ways that promise no size: they shorten what they can, or keep a number of messages."""
    drops: tuple[str, ...] = ()
    """Windows and trims: what is old leaves, as their documentation says."""
    uses: str = ""
    """What a program takes from the module."""
    docs: str = ""
    set_up: str = ""

    @property
    def home(self) -> Path:
        """Its environment."""
        return ENVIRONMENTS / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.home / "bin" / "python" if self.packages else Path(sys.executable)

    @property
    def ready(self) -> bool:
        """Whether every package is there in the version that is pinned."""
        sites = [*self.home.glob("lib/python*/site-packages")]
        return all(
            any(list(site.glob(f"{_normal(package)}.dist-info")) for site in sites)
            for package in self.packages
        )


def _normal(package: str) -> str:
    """`langchain-core==1.7.2` as its folder is called."""
    name, version = package.split("==")
    return f"{name.replace('-', '_')}-{version}"


OURS: Final = Pin(
    name="refold",
    packages=(),
    adapter="with_refold.py",
    module="refold",
    uses="compact, measure, open",
    ways=(
        "refold",
        "ripple",
        "codebuddy",
        "umwelten",
        "neurolink",
        "opal",
        *("stateless", "session", "model", "truncate", "prepare", "lists", "copies"),
    ),
    asks=("refold", "ripple", "codebuddy", "umwelten", "neurolink", "opal"),
    set_up="refold.compact(window=budget, policy=...); in turns, a session in memory with say and prepare.",
)


def table() -> dict[str, Any]:
    """The whole of pins.toml."""
    return tomllib.loads((BENCH / "peers" / "pins.toml").read_text(encoding="utf-8"))


def pins() -> list[Pin]:
    """The peers."""
    lists = ("packages", "ways", "asks", "no_budget", "drops")
    return [
        Pin(**{key: tuple(value) if key in lists else value for key, value in row.items()})
        for row in table()["peer"]
    ]


def made(pin: Pin, told: Callable[[str], None] = print) -> str:
    """Make the environment of a peer where it is missing; "" where it is ready, else the reason."""
    if pin.ready:
        return ""
    told(f"installing {' '.join(pin.packages)} into {pin.home.relative_to(BENCH.parent)}")
    uv = shutil.which("uv")
    make = [uv, "venv", "--quiet", "--clear"] if uv else [sys.executable, "-m", "venv", "--clear"]
    install = [str(pin.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install = [uv, "pip", "install", "--quiet", "--python", str(pin.python)] if uv else install
    for command in ([*make, str(pin.home)], [*install, *pin.packages]):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            return f"could not be installed: {said[-1][:200]}"
    return "" if pin.ready else "the installed versions are not those that are pinned"


@dataclass
class Peer:
    """An adapter that runs."""

    pin: Pin
    way: str
    command: Sequence[str] = ()
    """Another program than the pin's adapter."""
    asked: list[str] = field(default_factory=list)
    """What the model was asked in the last call."""
    counter: Callable[[str], int] | None = None
    """An exact count, for those that ask how a provider would count; without it they estimate."""
    _process: subprocess.Popen[str] | None = None
    _lines: "queue.Queue[str | None]" = field(default_factory=queue.Queue)

    @property
    def name(self) -> str:
        """`langchain summarization`."""
        return self.pin.name if self.pin.name == self.way else f"{self.pin.name} {self.way}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def call(
        self, what: str, *, model: Model | None = None, seconds: float = 60, most: int = 10_000, **told: Any
    ) -> dict[str, Any]:
        """Tell the adapter to do something; answer what it asks meanwhile, but not more often than `most`."""
        self.asked.clear()
        deadline = time.monotonic() + seconds
        self._write({"id": 1, "op": what, **({"counts": True} if self.counter else {}), **told})
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                self.stop()
                return {"error": f"no answer in {seconds:.0f} s", "late": True}
            if line is None:
                self.stop()
                return {"error": "the process ended"}
            reply: dict[str, Any] = json.loads(line)
            if "count" in reply:
                assert self.counter is not None  # noqa: S101  # only then an adapter asks
                self._write({"id": 1, "tokens": self.counter(reply["count"])})
                continue
            if "ask" not in reply:
                return reply
            self.asked.append(reply["ask"])
            if len(self.asked) > most:
                self.stop()
                return {"error": f"asked the model more than {most} times", "late": True}
            self._write({"id": 1, **(model(reply["ask"]) if model else {"error": "server"})})

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def _write(self, value: dict[str, Any]) -> None:
        if self._process is None:
            self._start()
        assert self._process is not None  # noqa: S101  # started just now
        assert self._process.stdin is not None  # noqa: S101  # a pipe was asked for
        try:
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._lines.put(None)

    def _start(self) -> None:
        command = self.command or (str(self.pin.python), str(BENCH / "peers" / self.pin.adapter), self.way)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._lines = queue.Queue()
        assert self._process.stdout is not None  # noqa: S101  # a pipe was asked for
        threading.Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True).start()


def _read(pipe: IO[str], lines: "queue.Queue[str | None]") -> None:
    """Hand lines over until there are no more."""
    try:
        for line in pipe:
            lines.put(line)
    except ValueError:  # closed meanwhile
        pass
    lines.put(None)
