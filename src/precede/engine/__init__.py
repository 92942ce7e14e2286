"""The data and the arithmetic below every algorithm: sums, threads, tables, training sets."""
