"""Replicas of the gateway on one PostgreSQL under mixed load, while one of them is killed again and again.

    python -m bench.gateway_load [--seconds N] [--agents N] [--kill-every S] [--json FILE] [--log FILE] ...

Agents in the shapes of Claude Code, Codex and opencode send their requests to either replica at random, with
title requests, counts, rewinds and sub-agents in between. A request whose connection breaks is sent again, as
clients do. The upstream is a `refold.testing.Provider`: it checks every request, and it writes the summaries,
which the callers pay for. At the end the store is compared with what was said:

    failed       requests that got an error, although no replica was killed while they ran
    invalid      requests at the upstream that a provider would not have taken
    lost         messages that an agent said and that are not stored, once, in its session
    foreign      messages in a session that its agent did not say
    split        conversations with more than one session
    moved        lists at the upstream that do not begin with the one before, beyond the folds stored and
                 the requests that went on as they came, or as their replica had folded them last, because
                 the session did not answer in time (`fold_headers` counts them)
    doubled      steps that were summarised twice, although the first summary was not lost with a replica
    folded_twice folds of one branch over the same messages

Every one of these numbers must be 0. `summaries` says what became of each summary: stored in a fold, lost
with a replica that was killed before it could store it (the log has no trace of it then), or dropped; why is
in `dropped_why`, in the words of the log. `asks` has each question in the order it came, with `--log FILE`.
"""
