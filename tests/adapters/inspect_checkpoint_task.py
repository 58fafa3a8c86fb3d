"""A task of Inspect that is killed and retried from its checkpoint, in a process of its own.

python inspect_checkpoint_task.py begin|kill|retry URL FOLDER
"""

import os
import sys
import warnings
from pathlib import Path

from conformance_case import look as open_box
from inspect_ai import Task, eval_retry, task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.tool import tool
from inspect_ai.util import CheckpointConfig, TurnInterval

from refold.adapters.inspect_ai import Refold

STEPS, KILLED_AT = 16, 11
how, url, folder = sys.argv[1:4]
opened: list[int] = []


@tool(name="look")
def look():
    """Return the tool; the process ends by itself, as if killed, in the middle of the task."""

    async def execute(n: int) -> str:
        """Look into box n and return what is in it.

        Args:
            n: number of the box
        """
        opened.append(n)
        if how == "kill" and len(opened) == KILLED_AT:
            os._exit(9)
        return open_box(n)

    return execute


@task
def boxes():
    """Return the task; Inspect loads it from this file for a retry."""
    refold = Refold(
        lambda state: f"{state.sample_id}-{state.epoch}", store=f"sqlite:{folder}/refold.db", window=4000
    )
    inner = get_model(
        "openai/gpt-4o",
        base_url=url,
        api_key="none",
        config=GenerateConfig(max_retries=0),
        memoize=False,
        responses_api=False,
        max_retries=0,
    )
    agent = react(tools=[look()], submit=False, model=refold.wrap(inner))
    return Task(dataset=[Sample(id="one", input=f"STEPS {STEPS} go")], solver=agent)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logs = Path(folder) / "logs"
    options = {"display": "none", "log_dir": str(logs), "checkpoint": CheckpointConfig(TurnInterval(every=3))}
    if how == "retry":
        (log,) = eval_retry(str(next(logs.glob("*.eval"))), **options)
    else:
        (log,) = evaluate(boxes(), model="mockllm/model", **options)
    sys.exit(0 if log.status == "success" else 1)
