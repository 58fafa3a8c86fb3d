"""Facts that must survive a fold: found without a model, kept in a ledger, shown within a budget."""
