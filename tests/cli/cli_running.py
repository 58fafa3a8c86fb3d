"""Ways to run the program: run_cli this process, as a process of its own, and on a terminal."""

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

from chat_messages import assistant, user
from forked_program import Forked, is_forkable
from refold.cli import main
from refold.cli.program import COMMANDS as _COMMANDS
from refold.cli.program import make_parsers

ROOT = Path(__file__).resolve().parents[2]
LONG = ROOT / "examples" / "long-agent-session.json"
ANTHROPIC = ROOT / "examples" / "long-agent-session.anthropic.json"
PROGRAM = (sys.executable, "-m", "refold.cli")
_TICKS = re.compile(r"(?:\r\x1b\[2K[^\r\x1b\n]* \(\d+ s\))+(?:\r\x1b\[2K)?")
COMMANDS = tuple(_COMMANDS)
"""The names of the commands."""


def parser_of(command: str):
    """The parser of a command, and the examples of its help."""
    _, parser, module = make_parsers(command)
    return parser, module.EXAMPLES


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str = ""

    @property
    def json(self):
        return json.loads(self.out)


def run_cli(*args, stdin: str | bytes | None = None) -> Done:
    """Run the program in this process; `stdin` is what it reads, and nothing is a terminal."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(streams[0]))
        stack.enter_context(contextlib.redirect_stderr(streams[1]))
        if stdin is not None:
            raw = stdin.encode() if isinstance(stdin, str) else stdin
            before, sys.stdin = sys.stdin, io.TextIOWrapper(_Pipe(raw), encoding="utf-8")
            stack.callback(setattr, sys, "stdin", before)
        status = main([str(arg) for arg in args])
    for stream in streams:
        stream.flush()
    return Done(status, *(stream.buffer.getvalue().decode() for stream in streams))


class _Pipe(io.BytesIO):
    """Bytes with the number of an open file, as a pipe has."""

    def fileno(self):
        reader, writer = os.pipe()
        os.close(writer)
        self._keep = reader
        return reader


def process(*args, stdin=b"", env=None, **more) -> Done:
    """Run as a process of its own, with pipes."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(args, {**os.environ, **(env or {})}, **pipes, **more) as program:
        out, err = program.communicate(stdin, timeout=300)
    return Done(program.returncode, out.decode(), err.decode())


def start(args, env, **options):
    """Start the program: forked where its environment allows that, else from nothing; on a terminal it heeds Ctrl-C."""
    if is_forkable(env):
        return Forked(args, env=env, **options)
    taking = _take_terminal if options.get("start_new_session") else None
    return subprocess.Popen([*PROGRAM, *map(str, args)], env=env, preexec_fn=taking, **options)  # noqa: PLW1509  # as below


def _take_terminal():
    """Make standard input the terminal that sends signals to this process, where it is one."""
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def terminal(*args, env=None, columns=100, stdin=None, slow=False, answer=(b"", b"")) -> Done:
    """Run on a pseudo-terminal; what standard output and error show comes back together.

    slow     also the line about work that takes long, which a busy machine shows for anything
    answer   what is typed, and the question behind which it is
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    program = start(
        args,
        {**os.environ, "COLUMNS": str(columns), **(env or {})},
        stdin=slave if stdin is None else stdin,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    shown, (typed, question), has_typed = b"", answer, False
    with contextlib.suppress(OSError):  # the other side closed it
        while True:
            # Python sees a Ctrl-C that comes right before it reads only when it has read: people type it again.
            has_block = bool(select.select([master], [], [], 5)[0])
            if has_block and not (block := os.read(master, 1 << 16)):
                break
            shown += block if has_block else b""
            if typed and question in shown and (not has_typed or (typed == b"\x03" and not has_block)):
                os.write(master, typed)
                has_typed = True
    os.close(master)
    text = shown.decode().replace("\r\n", "\n")
    return Done(program.wait(300), text if slow else _TICKS.sub("", text))


@contextlib.contextmanager
def started(*args, **more):
    """A process that runs while a test looks at it, and not longer."""
    program = start(args, dict(os.environ), stderr=subprocess.PIPE, **more)
    try:
        yield program
    finally:
        program.kill()
        program.wait(30)
        program.stderr.close()


def modules_loaded(*args) -> set[str]:
    """The modules of refold that one run of the program imports; what is not imported costs no time."""
    code = (
        "import sys\nfrom refold.cli import main\nstatus = main(sys.argv[1:])\n"
        "print(*sorted(name for name in sys.modules if name.startswith('refold')), file=sys.stderr)\n"
        "sys.exit(status)"
    )
    words = [sys.executable, "-c", code, *map(str, args)]
    ran = subprocess.run(words, capture_output=True, timeout=300, check=True)
    return set(ran.stderr.decode().split())


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
