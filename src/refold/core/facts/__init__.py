"""What must survive a fold: facts found without a model, and the ledger that keeps them."""
