"""The torture matrix: failures of real compactors, from public issues, against ours and the peers.

    python -m bench.matrix [--only NAME] [--case A1] [--peers ready|all|none]

Each case is one small function: a conversation, a scripted model, and a check of what comes back. The same
function runs against every subject through the protocol of bench/peers/serving.py. A cell of the table is

    survives   what must happen, happened
    stops      the subject raised an error and changed nothing: no damage, but no next turn either
    breaks     something else happened; how, in a few words
    n/a        the subject has no such feature; why

Results go to bench/results/matrix.json, the page to docs/torture.md; both are made by the program alone.
"""
