"""precede: learning to rank by boosting."""
