"""The tool `recall`, by which a model reads what was folded; made without Refold, which is slow to load."""

from collections.abc import Callable

import llm

DESCRIPTION = (
    "Fetch back earlier parts of this conversation that were folded away or shortened, word for word. Give"
    " `query` to search everything that was said, or `handle` (#12 or #12-#57, as summaries and shortened"
    " messages name them) to read it."
)
SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words to look for."},
        "handle": {"type": "string", "description": "Messages by number: #12 or #12-#57."},
    },
}


def make_recall_tool(answer: Callable[[str, str], str], name: str = "recall") -> llm.Tool:
    """Return the tool; `answer` takes a query and a handle."""
    return llm.Tool(name=name, description=DESCRIPTION, input_schema=SCHEMA, implementation=answer)
