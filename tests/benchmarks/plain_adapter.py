"""An adapter on plain Python: keeps the last messages and a summary; what the tests of the protocol talk to."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "peers"))

from serving import Adapter, serve


class Plain(Adapter):
    package = "pytest"
    ways = ("tail",)

    def fold(self, messages, budget, ask, window):
        if self.told.get("sleep"):
            time.sleep(self.told["sleep"])
        if self.told.get("count"):
            return [{"role": "user", "content": f"{self.counted(self.told['count'])} tokens"}]
        print("a library that prints")  # noqa: T201  # some do, between the lines
        if sum(len(message["content"]) for message in messages) // 4 <= budget:
            return messages
        said = ask("Summarise: " + messages[0]["content"])
        if said.finish != "stop":
            raise ValueError(f"ended by {said.finish} with {said.calls} calls")
        return [{"role": "user", "content": said.text}, *messages[-1:]]

    modules = b""
    """Stands for what is loaded when it is first needed."""

    def decide(self, messages):
        Plain.modules = Plain.modules or b"x" * 50_000_000
        return lambda: lambda: len(messages)

    def act(self, messages):
        return lambda: lambda: messages[-5:]

    def count(self, messages):
        return lambda: sum(len(message.get("content") or "") // 4 for message in messages)


serve(Plain)
