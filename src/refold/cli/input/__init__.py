"""The inputs of commands: files, transcripts of agents, stores, and the model that answers."""
