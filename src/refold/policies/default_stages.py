"""The stages of the default policy: cheapest first, floors that need no model and always end."""

from dataclasses import replace
from typing import Final

from refold.core.compaction.task import Stage
from refold.core.messages.transcript import default_layout
from refold.core.summaries.wrappers import wrap_summary
from refold.stages import digest
from refold.stages.arguments import TrimArguments
from refold.stages.clamp import Clamp
from refold.stages.dedupe import Dedupe
from refold.stages.grade import Before, Grade
from refold.stages.offload import Offload
from refold.stages.slide import Slide
from refold.stages.summarize import Summarize
from refold.stages.thinking import DropThinking
from refold.stages.truncate import Truncate

WRITE_DIGEST: Final = Truncate(keep=Before(0), words=digest.write_digest, name="digest")
DIGEST: Final = Grade(stage=WRITE_DIGEST)
FLOORS: Final[tuple[Stage, ...]] = (
    Slide(fraction=None, keep_first=0, least=1, role="user"),
    Offload(name="offload all"),
    TrimArguments(limit=400, name="arguments of all"),
    Clamp(),
)
"""Stages that need no model, keep less and less, and end below any room that can be met."""


def make_stages(
    *, keep_tokens: int | None, summary_tokens: int, least_gain: float, ledger_tokens: int
) -> tuple[Stage, ...]:
    """Return the stages with these knobs of the policy."""
    summarize = Summarize(
        keep=Before(0),
        prompt="refold",
        style=default_layout,
        frame=wrap_summary,
        output_tokens=summary_tokens,
        least_gain=least_gain,
        originals=True,
        ledger_tokens=ledger_tokens,
    )
    return (
        Dedupe(),
        DropThinking(),
        Grade(stage=summarize, keep_tokens=keep_tokens, otherwise=WRITE_DIGEST),
        replace(DIGEST, keep_tokens=keep_tokens),
        *FLOORS,
    )
