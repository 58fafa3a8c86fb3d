"""Messages in the shape of OpenAI's chat, and whether a provider takes a list of them."""

import json

import refold


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def call(call_id, name="sh", **arguments):
    return written_call(call_id, json.dumps(arguments), name=name)


def written_call(call_id, arguments='{"path": "a.py"}', text=None, *, name="read_file"):
    """A call whose arguments are this very text, which need not be JSON."""
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id, text):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def find_problems(messages, wire=None):
    """What a provider would refuse; an open call at the very end is the caller's own."""
    return [problem for problem in refold.validate(messages, wire) if problem.rule != "open-call"]
