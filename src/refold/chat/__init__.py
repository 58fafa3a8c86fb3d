"""A chat with a model in a session, without a terminal: turns, tools and slash commands.

`turns.run_turn` runs one turn and yields its events. `commands.COMMANDS` is the table of slash commands. Both
work on a `Conversation`, the only mutable value here, and reach the user through a `UserInterface`.
"""
