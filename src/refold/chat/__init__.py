"""Talking to a model in a session, without a terminal: turns, tools and slash commands.

`turns.turn` is the loop of one turn and yields what happens. `commands.COMMANDS` is the table of slash
commands. Both work on a `Desk`, the only thing here that changes, and reach a person through `Person`.
"""
