"""Where a policy would cut a history, for tests that check the exact place."""

from refold import formats
from refold.core.compaction.keep_rules import MeasuredHistory


def parse(messages):
    """Plain messages as values."""
    return formats.detect(messages).parse(messages)


def find_segment(policy, messages, *, window=128_000, force=False, checkpoint=None):
    """First position and end of the stretch that the first stage of a policy would take; None for none."""
    parsed = parse(messages)
    sizes = policy.counter.sizes(parsed)
    history = MeasuredHistory(parsed, sizes, window, window, force=force, checkpoint=checkpoint)
    segment = policy.stages[0].keep.segment(history)
    return None if segment is None else (segment.start, segment.end)
