#!/bin/sh
# `make tour`: a long agent session is measured, planned, compacted and checked. No network, no model.
# Every command is shown before its output and can be typed as it stands.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
export PATH
mkdir -p build/tour

bold='' dim='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
fi

say() { printf '\n\n%s# %s%s' "$dim" "$1" "$plain"; }
show() {
    printf '\n%s$ %s%s\n\n' "$bold" "$1" "$plain"
    eval "$1"
}

say 'A coding agent worked for days on a berth booking service. Does its session fit into 32,000 tokens?'
show 'refold measure examples/long-agent-session.json --window 32k'

say 'What would a compaction do, and what would it cost at the prices of gpt-4o? Nothing is changed yet.'
show 'refold plan examples/long-agent-session.json --window 32k --model gpt-4o'

say 'The same session under the policies of five other systems and our own.'
show 'refold plan examples/long-agent-session.json --window 32k --policy all'

say 'Do it, without any model. The original stays as it is.'
show 'refold compact examples/long-agent-session.json --window 32k -o build/tour/shorter.json'

say 'How full is the window now, and would OpenAI take what is left?'
show 'refold measure build/tour/shorter.json --window 32k'
show 'refold validate build/tour/shorter.json --format openai'

say 'The user laid down rules in the first message and corrected a number much later. Both are still there.'
show "grep -o 'Never change a signature in quayside/api.py' build/tour/shorter.json"
show "grep -o 'The harbour regulations say 20 minutes, and 45 for a tanker' build/tour/shorter.json"

say 'What stands for the messages that left.'
show "refold compact examples/long-agent-session.json --window 32k --json -q |
    python -c 'import json, sys; print(json.load(sys.stdin)[\"summary\"])' | cut -c 1-100 | sed -n 1,24p"

say 'Another provider: thinking blocks, tool results in user messages, the system prompt beside the messages.'
show 'refold compact examples/long-agent-session.anthropic.json --window 32k |
    refold validate - --format anthropic'

printf '\n%sThe result is build/tour/shorter.json. See `refold --help` for more.%s\n' "$dim" "$plain"
