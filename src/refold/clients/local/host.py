"""The program that runs the model: a llama.cpp server in a process of its own, as long as its parent lives.

It reads one line of JSON from its input: `model`, `alias`, `context`, `threads`, `key`. It writes one line of
JSON: `url`, or `error`. Then it serves until its input ends, which happens however the parent dies. It
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
"""Log level of llama.cpp; a higher number would log parts of conversations."""


def make_parameters(runtime: Any, order: dict[str, Any]) -> Any:
    """Return the server's settings: one question at a time, on this machine, for callers with the key."""
    parameters = runtime.CommonParams()
    parameters.model.path = order["model"]
    parameters.model_alias = {order["alias"]}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [order["key"]]
    parameters.n_ctx = order["context"]
    parameters.n_parallel = 1
    parameters.cache_ram_mib = 0
    parameters.offline = True
    parameters.ui = False
    parameters.verbosity = ERRORS_ONLY
    # to look for what fits a GPU is 0.4 of the 1.1 s CPU of a start; without one it finds nothing to change
    parameters.fit_params = any("GPU" in device["type"].name for device in runtime.get_device_info())
    for processors in (parameters.cpuparams, parameters.cpuparams_batch):
        processors.n_threads = order["threads"]
    return parameters


def main() -> None:
    """Serve until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent, who may go on
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the runtime prints goes to the error output and never into our answer
    order = json.loads(sys.stdin.readline())
    watch = Thread(target=_exit_with_parent)
    watch.start()
    try:
        runtime = import_module("xllamacpp")
        server = runtime.Server(make_parameters(runtime, order))
        print(json.dumps({"url": server.listening_address}), file=output, flush=True)
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent reports it
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=output, flush=True)
        os._exit(1)
    watch.join()  # the server runs in threads of its own for as long as this function does


def _exit_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
