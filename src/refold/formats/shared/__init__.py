"""What every wire format shares: reading, writing, checks, documents, the lossless form."""
