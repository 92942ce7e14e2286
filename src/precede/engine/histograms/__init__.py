"""Histograms: sums of integers over bins. No other code sums over bins.

Codes, rows and integers are mapped to the sums of all bins; a backend only has to implement this.

* `columns`: all rows, feature by feature, for stumps
* `nodes`: the rows of a tree's node and the search for its split; `precede.engine.cuda` is the
  GPU implementation, with the same bits
* `feature_pairs`: the cells of pairs of features
"""
