"""One file for each line of papers, each an estimator."""
