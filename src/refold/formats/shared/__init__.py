"""Code that all wire formats share: reading, writing, checks, documents, and refold's lossless form."""
