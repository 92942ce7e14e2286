"""Models for others to serve, one file for each format; `precede.export` chooses among them."""
