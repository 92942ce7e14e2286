"""Everything left of the pull: what is minimised, its value, its gradient and its curvature."""
