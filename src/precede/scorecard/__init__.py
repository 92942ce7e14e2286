"""Scorecards: integer points from an additive model, reason codes, cut-offs, stability."""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.scorecard.calibration import LogOdds as LogOdds
    from precede.scorecard.calibration import fit_log_odds as fit_log_odds
    from precede.scorecard.card import Reason as Reason
    from precede.scorecard.card import Scorecard as Scorecard
    from precede.scorecard.cutting import CutOffs as CutOffs
    from precede.scorecard.cutting import cut_offs as cut_offs
    from precede.scorecard.rounding import OrderChanges as OrderChanges
    from precede.scorecard.rounding import order_changes as order_changes
    from precede.scorecard.stability import Stability as Stability
    from precede.scorecard.stability import population_stability as population_stability
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "calibration": "LogOdds fit_log_odds",
            "card": "Reason Scorecard",
            "cutting": "CutOffs cut_offs",
            "rounding": "OrderChanges order_changes",
            "stability": "Stability population_stability",
        },
    )
