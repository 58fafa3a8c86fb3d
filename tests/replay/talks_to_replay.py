"""Conversations to replay, made up from numbers."""

from refold.core.tokens.usage import Usage
from refold.replay import Recorded

WORDS = "the work goes on step by step and nobody knows how it will end "
MODEL = "claude-sonnet-4-5"


def agent(turns, *, size=40, model=MODEL, usages=None, times=None):
    """A task, then commands and their outputs; each output names a file that is used six turns later."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Mend the build."}]
    for turn in range(turns):
        said = f"I look at src/part_{max(0, turn - 6)}.py"
        messages.append({"role": "assistant", "content": said})
        messages.append({"role": "user", "content": f"src/part_{turn}.py: " + WORDS * size})
    return Recorded(messages, model=model, usages=usages or {}, times=times or {})


def reported(recorded, *, beside=500, factor=1.25):
    """The same with reports of a provider that counts more and has read something in front."""
    sums = [0]
    for size in recorded.sizes:
        sums.append(sums[-1] + size)
    usages = {at: Usage(input=beside + round(sums[at] * factor), output=50) for at in recorded.requests}
    return Recorded(recorded.messages, model=recorded.model, usages=usages)
