"""The stand-ins of CompactBench: a reader that only reads, and a ledger in the sections it asks for."""
