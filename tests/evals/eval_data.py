"""Small data sets in the layouts that evals read, made up here."""

import json
from pathlib import Path

WORDS = ("bolts", "paint", "cable", "gravel", "timber", "tiles", "hoses", "gloves")


def run(steps=30):
    """An agent's run that looks at files and comes back to one of them at the end."""
    messages = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Please mend the importer."},
    ]
    for number in range(steps):
        word = WORDS[number % len(WORDS)]
        messages.append(
            {"role": "assistant", "content": f"I look.\n\n```bash\ncat src/{word}_{number}.py\n```"}
        )
        body = "\n".join(f"def {word}_{number}_{line}(): return {line * 17}" for line in range(12))
        messages.append(
            {"role": "user", "content": f"<returncode>0</returncode>\n<output>\n{body}\n</output>"}
        )
    messages.append(
        {"role": "assistant", "content": "Back to src/paint_1.py and paint_1_3, then src/tiles_5.py."}
    )
    return messages


def transcript(boundary=24):
    """A Claude Code transcript with one compaction of its own."""
    lines = []
    for number, message in enumerate(run()[1:]):
        if number == boundary:
            told = {"role": "user", "content": "This session is being continued. src/paint_1.py was read."}
            lines.append({"type": "user", "isCompactSummary": True, "message": told})
        blocks = [{"type": "text", "text": message["content"]}]
        lines.append({"type": message["role"], "message": {"role": message["role"], "content": blocks}})
    return "\n".join(json.dumps(line) for line in lines) + "\n{torn"


def longmemeval():
    """One long chat with one question."""
    sessions = []
    for number in range(12):
        turns = [
            {"role": "user", "content": f"How do I store {WORDS[number % 8]} in winter, number {number}?"},
            {"role": "assistant", "content": f"Keep the {WORDS[number % 8]} dry and covered. " * 12},
        ]
        sessions.append(turns)
    sessions[2][0] = {
        "role": "user",
        "content": "I bought a violin from Marchetti for 840 euros last week.",
        "has_answer": True,
    }
    return {
        "question_id": "q1",
        "question": "How much did I pay for the violin?",
        "answer": "840 euros",
        "haystack_sessions": sessions,
    }


def locomo():
    """A dialogue of two people with questions."""
    said = [
        ("Ana", "I moved to Porto in March."),
        ("Ben", "What do you do there?"),
        ("Ana", "I repair clocks in a small workshop."),
        *(
            (WORDS[number % 8].title(), f"Nothing new about the {WORDS[number % 8]} today.")
            for number in range(40)
        ),
    ]
    turns = [{"speaker": who, "dia_id": f"D1:{at}", "text": text} for at, (who, text) in enumerate(said, 1)]
    qa = [
        {"question": "Where did Ana move?", "answer": "Porto", "evidence": ["D1:1"], "category": 1},
        {"question": "What does Ana do in the workshop?", "answer": "repair clocks", "evidence": ["D1:3"]},
        {"question": "Unanswerable?", "category": 5, "evidence": []},
    ]
    return [{"sample_id": "s1", "conversation": {"session_1": turns}, "qa": qa}]


TEMPLATE = """\
template:
  key: buried
  variables:
    - name: who
      generator: person_name
    - name: deed
      generator: action_phrase
  transcript:
    turns:
      - role: user
        template: "Critical: never {{deed}}, says {{who}}."
      - role: distractor_block
        count: 2
      - role: user
        template: "What next?"
  evaluation_items:
    - key: rule
      prompt: "What must never happen?"
      expected: {check: contains_normalized, value: "{{deed}}"}
    - key: apply
      prompt: "Propose a step."
      expected: {check: forbidden_absent, value: "{{deed}}"}
"""


def write_all(folder: Path) -> Path:
    """Every layout, each in a folder of its own."""
    files = {
        "runs/a.traj.json": json.dumps({"messages": run(), "info": {}}),
        "code/b.jsonl": transcript(),
        "lme/c.json": json.dumps(longmemeval()),
        "loc/d.json": json.dumps(locomo()),
        "tau/e.json": json.dumps([{"task_id": 1, "traj": run(6)}, {"task_id": 2, "traj": run(6)}]),
        "cb/f.yaml": TEMPLATE,
    }
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder
