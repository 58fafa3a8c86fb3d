"""What commands read: files, transcripts, stores, and who answers questions."""
