"""``precede ask``: a page on this machine that asks for votes on pairs of items."""
