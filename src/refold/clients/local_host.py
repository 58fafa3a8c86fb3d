"""The program that runs the model: a llama.cpp server in a process of its own, as long as its parent lives.

Reads one line of JSON from its input: `model`, `alias`, `context`, `threads`, `key`. Writes one line of JSON:
`url`, or `error`. Then it serves until its input ends, which it does when the parent dies in any manner. It
imports nothing of refold, so that it starts fast.
"""

import json
import os
import signal
import sys
from importlib import import_module
from threading import Thread
from typing import Any

ERRORS_ONLY = 1
"""What llama.cpp writes down; more would tell of conversations."""


def parameters(runtime: Any, wish: dict[str, Any]) -> Any:
    """The settings of the server: one question at a time, on this machine, for whoever has the key."""
    given = runtime.CommonParams()
    given.model.path = wish["model"]
    given.model_alias = {wish["alias"]}
    given.hostnames = ["127.0.0.1"]
    given.port = 0
    given.api_keys = [wish["key"]]
    given.n_ctx = wish["context"]
    given.n_parallel = 1
    given.cache_ram_mib = 0
    given.offline = True
    given.ui = False
    given.verbosity = ERRORS_ONLY
    for processors in (given.cpuparams, given.cpuparams_batch):
        processors.n_threads = wish["threads"]
    return given


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent, who may go on
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the runtime prints does not mix with what is told
    wish = json.loads(sys.stdin.readline())
    watch = Thread(target=_leave_with_the_parent)
    watch.start()
    try:
        runtime = import_module("xllamacpp")
        server = runtime.Server(parameters(runtime, wish))
        told.write(json.dumps({"url": server.listening_address}) + "\n")
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent tells it
        told.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
        told.flush()
        os._exit(1)
    told.flush()
    watch.join()  # the server, which threads of its own serve, lives as long as this function


def _leave_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
