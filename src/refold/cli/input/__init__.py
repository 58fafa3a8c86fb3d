"""What commands read: files, transcripts of agents, stores, and who answers."""
