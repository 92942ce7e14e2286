"""One page that says what a model is, how good it is and where it errs."""
