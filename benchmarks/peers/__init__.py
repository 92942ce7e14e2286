"""One file for each library, one function of the same signature in each."""
