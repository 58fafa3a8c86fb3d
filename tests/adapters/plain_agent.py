"""A plain loop with the OpenAI client and sessions, no adapter: the suite itself is proven with it."""

import json

from conformance_case import MODEL, SYSTEM, Agent, look, mask, need, outline, write_json

need("openai", extra="adapters-test")

import openai

import refold

MOST_STEPS = 40
"""More than any turn of the suite has."""
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": look.__doc__,
        "parameters": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "note": {"type": "string"}},
            "required": ["n"],
        },
    },
}


class PlainAgent(Agent):
    """A loop as the documentation of OpenAI shows it; histories are files."""

    def __init__(self, setup):
        self.setup = setup
        self.client = openai.OpenAI(base_url=setup.url, api_key="none", max_retries=0)
        self.sessions = refold.Sessions(format="openai", **setup.options) if setup.with_refold else None

    def run(self, key, text, *, stream=False):
        return self._run(key, text, stream)

    def show_image(self, key, text, png):
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}}
        return self._run(key, [{"type": "text", "text": text}, picture], stream=False)

    def show_document(self, key, text, pdf):
        document = {"filename": "page.pdf", "file_data": f"data:application/pdf;base64,{pdf}"}
        content = [{"type": "text", "text": text}, {"type": "file", "file": document}]
        return self._run(key, content, stream=False)

    def _run(self, key, content, stream):
        history = [*self.load(key), {"role": "user", "content": content}]
        self.save(key, history)
        for _ in range(MOST_STEPS):
            message = self.ask(key, history, stream)
            history.append(message)
            for call in message.get("tool_calls", ()):
                answer = self._call_tool(key, call["function"]["name"], call["function"]["arguments"])
                history.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
            self.save(key, history)
            if "tool_calls" not in message:
                return message["content"]
        raise AssertionError(f"the turn has not ended after {MOST_STEPS} steps")

    def ask(self, key, history, stream):
        """Return the model's next message."""
        messages = [{"role": "system", "content": SYSTEM}, *history]
        tools = self.list_tools(key)

        def call(view):
            return self.call_model(view, tools, stream)

        if self.sessions is None:
            answer = call(messages)
        else:
            session = self.session(key)
            answer = (session.stream if stream else session.send)(call, messages, tools=tools)
        return join(answer) if stream else answer.choices[0].message.model_dump(exclude_none=True)

    def list_tools(self, key):
        return [TOOL] if self.sessions is None else [TOOL, self.session(key).recall_tool()]

    def call_model(self, messages, tools, stream):
        more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return self.client.chat.completions.create(
            model=MODEL["openai"], messages=messages, tools=tools, **more
        )

    def _call_tool(self, key, name, arguments):
        try:
            return (
                self.session(key).answer_recall(arguments)
                if name == "recall"
                else look(**json.loads(arguments))
            )
        except ValueError as error:
            return f"Error: {error}"

    def history(self, key):
        return mask(self.load(key), "annotations")

    def outline(self, key):
        return outline(self.load(key), "openai")

    def session(self, key):
        return self.sessions.get(key)

    def rewind(self, key, turns):
        history = self.load(key)
        users = [index for index, message in enumerate(history) if message["role"] == "user"]
        self.save(key, history[: users[-turns]])

    def close(self):
        self.client.close()
        if self.sessions is not None:
            self.sessions.close()

    def load(self, key):
        file = self.setup.folder / f"{key}.json"
        return json.loads(file.read_text()) if file.exists() else []

    def save(self, key, history):
        write_json(self.setup.folder / f"{key}.json", history)


def join(chunks):
    """Put the chunks of a stream together, as every loop without a framework does."""
    text, calls = "", []
    for delta in (chunk.choices[0].delta for chunk in chunks if chunk.choices):
        text += delta.content or ""
        for part in delta.tool_calls or ():
            if part.index == len(calls):
                calls.append(part.model_dump(exclude_none=True, exclude={"index"}))
            else:
                calls[part.index]["function"]["arguments"] += part.function.arguments
    return {"role": "assistant", **({"tool_calls": calls} if calls else {"content": text})}
