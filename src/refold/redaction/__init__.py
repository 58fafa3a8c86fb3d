"""Find secrets and take them out of texts and messages."""

from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["off", "export", "storage"]
"""Where secrets are replaced: "off" nowhere, "export" in exports, summaries, receipts and events, "storage"
also in the store."""
