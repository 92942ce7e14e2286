"""Figures, computed first and drawn second, by one engine for pages and for matplotlib.

``figures`` has the ``..._info`` functions, which compute, and the ``draw_...`` functions, which
draw onto matplotlib's axes; ``drawing`` has the charts and their layers, which both these and
reports are made of.
"""

from typing import TYPE_CHECKING

from precede.engine.lazy import lazily

if TYPE_CHECKING:
    from precede.plots.drawing import new_axes as new_axes
    from precede.plots.figures import CalibrationInfo as CalibrationInfo
    from precede.plots.figures import ImportanceInfo as ImportanceInfo
    from precede.plots.figures import LearningInfo as LearningInfo
    from precede.plots.figures import MarginInfo as MarginInfo
    from precede.plots.figures import PairInfo as PairInfo
    from precede.plots.figures import PrecisionInfo as PrecisionInfo
    from precede.plots.figures import ShapeInfo as ShapeInfo
    from precede.plots.figures import calibration_info as calibration_info
    from precede.plots.figures import draw_calibration as draw_calibration
    from precede.plots.figures import draw_critical_difference as draw_critical_difference
    from precede.plots.figures import draw_importances as draw_importances
    from precede.plots.figures import draw_learning as draw_learning
    from precede.plots.figures import draw_margins as draw_margins
    from precede.plots.figures import draw_pair as draw_pair
    from precede.plots.figures import draw_precision as draw_precision
    from precede.plots.figures import draw_shape as draw_shape
    from precede.plots.figures import draw_shapes as draw_shapes
    from precede.plots.figures import importance_info as importance_info
    from precede.plots.figures import learning_info as learning_info
    from precede.plots.figures import margin_info as margin_info
    from precede.plots.figures import pair_info as pair_info
    from precede.plots.figures import precision_info as precision_info
    from precede.plots.figures import shape_info as shape_info
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "drawing": "new_axes",
            "figures": (
                "CalibrationInfo ImportanceInfo LearningInfo MarginInfo PairInfo PrecisionInfo "
                "ShapeInfo calibration_info draw_calibration draw_critical_difference "
                "draw_importances draw_learning draw_margins draw_pair draw_precision "
                "draw_shape draw_shapes importance_info learning_info margin_info "
                "pair_info precision_info shape_info"
            ),
        },
    )
