"""Reports on fitted models: quality, comparisons, errors, features, data and parameters."""
