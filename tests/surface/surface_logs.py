"""Logs that the code before the redesign wrote, and what they told when they were read.

`logs/jsonl` and `logs/sqlite.db.gz` are kept as they were written. The memory store cannot be kept, so it is
written anew and read with the same eyes.
"""

import asyncio
import gzip
import shutil
import warnings
from pathlib import Path
from typing import Any

from surface_histories import history
from surface_sessions import Recorder, Setting, change, converse, look, session_options, wait_for
from surface_values import plain

import refold

HERE = Path(__file__).parent / "logs"
STORES = ("jsonl", "sqlite", "memory")
SETTINGS = (
    Setting("openai", 7, "refold", True, {"window": 1_100}),
    Setting("anthropic", 26, "codebuddy", True, {"window": 1_100}),
)
SCALE = 0.05
"""The tool outputs are short here, so that the files stay small."""


def session_name(setting: Setting) -> str:
    """The name of a session in the store; names are any text."""
    return f"{setting.wire} / {setting.policy}"


def address(kind: str, folder: Path) -> str:
    """Where a store of a kind lies in a folder."""
    return {
        "jsonl": f"jsonl:{folder / 'jsonl'}",
        "sqlite": f"sqlite:{folder / 'sqlite.db'}",
        "memory": "memory:",
    }[kind]


def write(store: Any) -> None:
    """Write the sessions into an open store."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", refold.RefoldWarning)
        asyncio.run(_write(store))


async def _write(store: Any) -> None:
    for setting in SETTINGS:
        options = session_options(setting, store=store)
        session = refold.open(session_name(setting), **options)
        recorder = Recorder()
        one = history(setting.wire, setting.number, scale=SCALE)
        await converse(session, one, options, recorder)
        options["now"].now += 4_000
        await wait_for(session.compact(keep=2))
        await wait_for(session.unfold())
        await wait_for(session.checkpoint())
        await wait_for(session.say("What was the ticket?"))
        await wait_for(session.prepare())
        session.close()
    store.put_note("surface", "kept")


def read(store: Any, setting: Setting) -> Recorder:
    """Open a session of a store as a new process would, look at everything, then go on in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", refold.RefoldWarning)
        return asyncio.run(_read(store, setting))


async def _read(store: Any, setting: Setting) -> Recorder:
    options = session_options(setting, store=store)
    options["now"].now += 20_000
    session = refold.open(session_name(setting), **options)
    recorder = Recorder()
    await look(session, recorder)
    folds = await wait_for(session.folds())
    for number, fold in enumerate(folds):
        await recorder.call(f"original of fold {number}", lambda fold=fold: session.original(fold.name))
        recorder.note(f"receipt of fold {number}", receipt=plain(fold.receipt))
    if folds:
        await recorder.call("unfold the first", lambda: session.unfold(folds[0].name))
        await recorder.call("view", session.view)
    await change(session, recorder, options["now"])
    session.close()
    return recorder


def copy_store(kind: str, folder: Path) -> Any:
    """An open copy of a golden store; the memory store is written anew."""
    if kind == "jsonl":
        shutil.copytree(HERE / "jsonl", folder / "jsonl")
    elif kind == "sqlite":
        packed = (HERE / "sqlite.db.gz").read_bytes()
        (folder / "sqlite.db").write_bytes(gzip.decompress(packed))
    store = refold.open_store(address(kind, folder))
    if kind == "memory":
        write(store)
    return store
