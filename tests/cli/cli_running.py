"""Ways to run the program: inside this process, as a process of its own, and on a terminal."""

import contextlib
import fcntl
import json
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

from refold.cli import main

ROOT = Path(__file__).resolve().parents[2]
LONG = ROOT / "examples" / "long-agent-session.json"
ANTHROPIC = ROOT / "examples" / "long-agent-session.anthropic.json"
PROGRAM = (sys.executable, "-m", "refold.cli")


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str = ""

    @property
    def json(self):
        return json.loads(self.out)


def inside(capsys, *args) -> Done:
    """Run in this process."""
    status = main([str(arg) for arg in args])
    said = capsys.readouterr()
    return Done(status, said.out, said.err)


def process(*args, stdin=b"", env=None, **more) -> Done:
    """Run as a process of its own, with pipes."""
    ran = subprocess.run(
        [*PROGRAM, *map(str, args)],
        input=stdin,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=60,
        check=False,
        **more,
    )
    return Done(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def terminal(*args, env=None, columns=100, stdin=None) -> Done:
    """Run on a pseudo-terminal; what standard output and error show comes back together."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    program = subprocess.Popen(
        [*PROGRAM, *map(str, args)],
        stdin=slave if stdin is None else stdin,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "COLUMNS": str(columns), **(env or {})},
    )
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # the other side closed it
        while block := os.read(master, 1 << 16):
            shown += block
    os.close(master)
    return Done(program.wait(60), shown.decode().replace("\r\n", "\n"))


@contextlib.contextmanager
def started(*args, **more):
    """A process that runs while a test looks at it, and not longer."""
    program = subprocess.Popen(
        [*PROGRAM, *map(str, args)],
        stderr=subprocess.PIPE,
        preexec_fn=_heeding_interrupts,  # noqa: PLW1509  # a test has no other threads
        **more,
    )
    try:
        yield program
    finally:
        program.kill()
        program.wait(30)
        program.stderr.close()


def _heeding_interrupts() -> None:
    """Undo what a shell does to jobs in the background: it lets them ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def cpu_seconds(*args) -> float:
    """Processor time of one run, the best of two: others may be at work on this machine."""
    return min(_cpu(args) for _ in range(2))


def _cpu(args) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*PROGRAM, *map(str, args)], stdout=subprocess.DEVNULL, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def talk(turns=3, words="the quick brown fox jumps over the lazy dog, again and again"):
    """A plain conversation of so many turns."""
    return [
        message
        for number in range(turns)
        for message in (user(f"question {number}: {words}"), assistant(f"answer {number}: {words}"))
    ]


def saved(path, value) -> Path:
    """A file with this value as JSON."""
    path = Path(path)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path
