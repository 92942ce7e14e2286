"""Sums of integers over bins: the only code that computes histograms.

Codes, rows and integers go in, sums for every bin come out; a second backend has to do no more.

* `columns`: all rows, feature by feature, as stumps and votes need them
* `nodes`: the rows of a node of a tree, and the search for its split; `precede.engine.cuda` does
  the same on a GPU, to the same bits
* `feature_pairs`: the cells of two features
"""
