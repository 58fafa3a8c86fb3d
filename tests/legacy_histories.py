"""Chat histories in OpenAI's old form of calls, which has no ids, mixed with the new one and with empty lists."""

import random

NAMES = "read", "write"


def make_legacy_talk(seed, messages):
    """Return a talk of some messages and a last word of the user; calls stay open and results go astray."""
    chance, open_calls = random.Random(seed), []
    talk = [{"role": "system", "content": "Be kind."}] if chance.random() < 0.3 else []
    while len(talk) < messages:
        kind = chance.random()
        if kind < 0.25:
            words = write_words(chance)
            talk.append(
                {"role": "user", "content": chance.choice([words, [{"type": "text", "text": words}]])}
            )
        elif kind < 0.4:
            empty = {"tool_calls": chance.choice([[], None]), "function_call": None}
            kept = [name for name in empty if chance.random() < 0.6]
            content = chance.choice([write_words(chance), "", None])
            talk.append({"role": "assistant", "content": content, **{name: empty[name] for name in kept}})
        elif kind < 0.72:
            talk.append(make_call(chance, open_calls, len(talk)))
        elif open_calls and kind < 0.95:
            result = open_calls.pop(0 if chance.random() < 0.8 else -1)
            words = write_words(chance)
            content = chance.choice([words, "", None, [{"type": "text", "text": words}]])
            talk.append({**result, "content": content})
        else:  # nobody has called for it
            stray = chance.choice(
                [{"role": "function"}, {"role": "function", "name": "read"}, {"role": "tool"}]
            )
            talk.append({**stray, "content": write_words(chance)})
    return [*talk, {"role": "user", "content": "Go on."}]


def make_call(chance, open_calls, number):
    """Return a reply that calls tools, and note how their results begin."""
    reply = {"role": "assistant", "content": chance.choice([None, "", write_words(chance)])}
    if chance.random() < 0.6:
        name = chance.choice(NAMES)
        open_calls.append({"role": "function", "name": name})
        empty = {"tool_calls": []} if chance.random() < 0.3 else {}
        return {**reply, "function_call": {"name": name, "arguments": '{"a": 1}'}, **empty}
    calls = []
    for at in range(chance.choice([1, 1, 2])):
        name, call_id = chance.choice(NAMES), {"id": f"c{number}-{at}"} if chance.random() < 0.8 else {}
        calls.append({**call_id, "type": "function", "function": {"name": name, "arguments": "{}"}})
        named = {"name": name} if not call_id or chance.random() < 0.5 else {}
        open_calls.append({"role": "tool", **({"tool_call_id": call_id["id"]} if call_id else {}), **named})
    return {**reply, "tool_calls": calls}


def write_words(chance):
    return " ".join(chance.choice(["alpha", "beta", "gamma"]) for _ in range(chance.choice([1, 20, 300])))
