#!/bin/sh
# What is kept beside other libraries, with one summariser for all (bench/extractive.py) and the same tokens.
#   sh bench/retention_peers.sh DATASET RESULT.json
set -eu
cd "$(dirname "$0")/.."
peer() { printf -- '%s=bench/.envs/%s/bin/python bench/peers/%s %s' "$1" "$2" "$3" "$4"; }
.venv/bin/python -m refold.cli eval retention "$1" --json "$2" --sample "${SAMPLE:-1}" \
    --only planted --folds 1,3,10 \
    --policy refold --policy opal --policy neurolink --ask '.venv/bin/python bench/extractive.py' \
    --peer "$(peer langchain langchain with_langchain.py summarization)" \
    --peer "$(peer langmem langmem with_langmem.py summarize)" \
    --peer "$(peer strands strands with_strands.py summarizing)" \
    --peer "$(peer pydantic-ai pydantic-ai with_pydantic_ai.py manager)" \
    --peer "$(peer agent-framework agent-framework with_agent_framework.py composed)" \
    --peer "$(peer llama-index llama-index with_llama_index.py summary)"
