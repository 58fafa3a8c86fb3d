"""Another system for the tests: keeps the first message and a summary, by the contract; can misbehave."""

import json
import sys

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"


def say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    request = json.loads(line)
    if request.get("op") == "about":
        say({"id": request["id"], "name": "example", "version": "1.2"})
    elif MODE == "error":
        say({"id": request["id"], "error": "no, thank you"})
    elif MODE == "garbage":
        sys.stdout.write("hello\n")
        sys.stdout.flush()
    elif MODE == "silent":
        continue
    elif MODE == "circles":
        while True:
            say({"id": request["id"], "ask": "Again."})
            sys.stdin.readline()
    elif MODE == "counts":
        say({"id": request["id"], "count": "one two three"})
        told = json.loads(sys.stdin.readline())
        words = f"{told['tokens']} tokens, a window of {request.get('window')}"
        say({"id": request["id"], "messages": [{"role": "user", "content": words}]})
    elif MODE == "dies":
        sys.exit(3)
    elif MODE == "late":
        say({"id": 99, "messages": []})
        say({"id": request["id"], "messages": request["messages"][:1]})
    else:
        say({"id": request["id"], "ask": "Summarise: " + request["messages"][-1]["content"]})
        answer = json.loads(sys.stdin.readline())
        told = {"role": "user", "content": answer.get("answer") or "failed: " + answer["error"]}
        say({"id": request["id"], "messages": [request["messages"][0], told]})
