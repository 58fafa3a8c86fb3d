"""The client of a real small model on this machine: `local` or `local:model.gguf`; offline, on demand.

    python -m refold.clients.local fetch        once: the weights of the smallest model, 94 MB

A llama.cpp server runs in a process of its own. It listens on a free port of this machine and wants a key
that only this process has. It is asked like any server that speaks OpenAI chat. Asking downloads nothing.
"""

from refold.clients.local.client import open_client

__all__ = ["open_client"]
