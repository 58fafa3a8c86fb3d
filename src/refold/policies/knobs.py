"""What the presets' knobs mean beyond a number: their other names, and the functions some become."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from refold.core.compaction.task import Task
from refold.core.models.windows import TABLES, Window, lookup
from refold.core.tokens.units import codebuddy_window
from refold.policies.clip_files import saver

OTHER_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "neurolink": {
        "compaction_threshold": "threshold",
        "compact_threshold": "threshold",
        "protect_tokens": "prune_protect_tokens",
        "minimum_savings": "prune_minimum_savings",
        "protected_tools": "prune_protected_tools",
        "fraction": "truncation_fraction",
        "max_bytes": "max_tool_output_bytes",
        "max_lines": "max_tool_output_lines",
        "model": "summarization_model",
        "summarization_enabled": "enable_summarization",
    },
}
"""What else a document calls a knob: NeuroLink's stages and its command line have words of their own."""


def codebuddy_chunk(setting: int | None, task: Task) -> int:
    """Tokens of messages in one request: 0.4 of the window, at most 12,000; a share of 0.15 is the least."""
    if setting is not None:
        return setting
    ratio = max(0.15, min(0.4, 12_000 / task.window))
    return min(math.floor(task.window * ratio), 12_000)


def neurolink_saver(
    save: bool | Callable[[str], str],  # noqa: FBT001  # a knob
    folder: str | None,
) -> Callable[[str], str] | None:
    """Where full tool outputs go: nowhere, to a folder of the document's name, or to the caller's own."""
    if callable(save) or not save:
        return save or None
    from tempfile import gettempdir  # slow to load, and few save

    return saver(folder or f"{gettempdir()}/neurolink-tool-output")


def window_of_codebuddy(setting: str | int | None, model: str | None) -> Window:
    """The window that a setting names, else the document's table."""
    if setting is not None:
        return Window(codebuddy_window(str(setting)), None, "setting")
    return lookup(model, table=TABLES["codebuddy"], fallback=16_000)
