"""What export targets share: the model to write, checks of what a target can hold, float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from precede.decomposition import Decomposition, Nodes
from precede.engine.parameters import Argument, ParameterError
from precede.judgments import feature_names
from precede.weak_rankers.columns import LinearWeakRanker

if TYPE_CHECKING:
    from precede.estimator import BaseRanker

LARGEST_SINGLE = float(np.finfo(np.float32).max)
SMALLEST_SINGLE = np.finfo(np.float32).tiny


class Line(NamedTuple):
    """A weighted function of one feature, as `predict` computes it.

    ``weight * clip((x * factor - low) / width, 0, 1)``, and 0 for missing values; ``weight * x``
    if the width is None; the weight itself if the feature is None.
    """

    feature: int | None
    low: float | None
    width: float | None
    factor: float
    weight: float


@dataclass(frozen=True)
class ExportedModel:
    """A model to export: its decomposition, and the names of features and categories.

    `title` describes the model; `probability` is a formula to be put after it, or empty.
    """

    parts: Decomposition
    names: tuple[str, ...]
    title: str
    probability: str = ""
    categories: Mapping[str, Sequence[str | float]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: BaseRanker) -> ExportedModel:
        """Take what is exported of a fitted model."""
        ensemble, probability = model.ensemble_, ""
        if model.link_ is not None:
            formula = f"1 / (1 + exp(-{model.link_!r} * (score + {model.intercept_!r})))"
            probability = f"; probability of the second class: {formula}"
        return cls(
            ensemble.decomposition,
            tuple(feature_names(getattr(model, "feature_names_in_", None), ensemble.n_features)),
            f"precede {type(model).__name__}, {len(ensemble)} rounds",
            probability,
            model.categories_,
        )

    @cached_property
    def trees(self) -> list[Nodes]:
        """The model without its lines as a sum of trees, at least one.

        All stumps of a feature become at most two trees, whatever the number of rounds.
        """
        trees = [*self.parts.nodes_of_stumps(), *self.parts.nodes()]
        constant = self.parts.constant
        return [*trees, Nodes.of_constant(constant)] if constant != 0 or not trees else trees

    @property
    def lines(self) -> list[Line]:
        """The linear functions of one feature and the constant, in the order of `predict`."""
        lines = []
        for weak_ranker, weight in self.parts.others:
            line = weak_ranker if isinstance(weak_ranker, LinearWeakRanker) else None
            if line is None or line.ends is None:
                feature = None if line is None else line.feature
                lines.append(Line(feature, None, None, 1.0, weight))
            else:
                low, high = line.ends
                factor = 0.5 if high - low == math.inf else 1.0
                width = high * factor - low * factor
                lines.append(Line(line.feature, low * factor, width, factor, weight))
        return lines

    @property
    def linear_weights(self) -> dict[str, float] | None:
        """Weights of the features, if the score is a weighted sum of features and nothing else."""
        parts, lines = self.parts, self.parts.lines
        others = parts.stumps or parts.trees or parts.terms or len(parts.others) > len(lines)
        if others or not lines or any(line.ends is not None for line, _ in lines):
            return None
        return {self.names[line.feature]: as_single(weight) for line, weight in lines}


# -- what a target can hold ------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """An export target.

    Attributes
    ----------
    write : function from the model to the text or bytes of the file; its keyword-only arguments
        are the options of the format
    name : name of the format in messages
    suffix : suffix of file names that determines the format, or empty
    lines : whether it holds linear functions of features
    columns : whether it holds a weighted sum of raw features alone
    categories : whether it holds splits by category
    zeros_for_missing : what takes missing values for 0, in messages; empty if nothing does. The
        format then has the option ``missing``
    """

    write: Callable[..., str | bytes]
    name: str
    suffix: str = ""
    lines: bool = False
    columns: bool = False
    categories: bool = False
    zeros_for_missing: str = ""

    @property
    def options(self) -> list[str]:
        """Names of the options."""
        parameters = signature(self.write).parameters.values()
        names = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        return sorted([*names, *(["missing"] if self.zeros_for_missing else [])])

    def check(self, model: ExportedModel) -> None:
        """Raise ValueError if the model has a part that the format cannot hold."""
        if model.parts.unknown:
            kind = model.parts.unknown[0][0].name
            raise ValueError(
                f"a ranker of kind {kind!r} cannot be exported: no format knows it; save the model "
                "as JSON and serve it with precede"
            )
        if self.columns and model.linear_weights is not None:
            return
        if model.parts.lines and not self.lines:
            kind = model.parts.lines[0][0].name
            raise ParameterError(
                f"{self.name} holds trees only, but the model has rankers of kind {kind!r}, "
                "straight lines; use ", Argument("format", "onnx"), ", 'python' or 'c', or fit "
                "with weak_rankers='stumps'",
            )  # fmt: skip
        if not self.categories and any(nodes.categories for nodes in model.trees):
            raise ParameterError(
                f"{self.name} cannot hold splits by category here; use ",
                Argument("format", "python"),
                " or 'c', or fit without categorical_features",
            )


def refuse_other_missing(
    model: ExportedModel, reader: str, among: Container[str] | None = None
) -> None:
    """Raise ValueError if missing values and zeros are treated differently, for a reader of zeros.

    With `among`, only those features are read as 0.
    """
    for nodes in model.trees:
        for node in np.flatnonzero(nodes.feature >= 0).tolist():
            name = model.names[nodes.feature[node]]
            threshold, left = float(nodes.threshold[node]), bool(nodes.missing_left[node])
            if left == (threshold >= 0) or (among is not None and name not in among):
                continue
            side, other_side = ("below", "above") if left else ("above", "below")
            raise ParameterError(
                f"the model counts missing values of {name!r} as {side} {threshold:.6g}, but "
                f"{reader} takes them for 0, which is {other_side}; if all features are there when "
                "serving, or 0 is what you mean, pass ", Argument("missing", "zero"),
            )  # fmt: skip


# -- single precision ------------------------------------------------------------------------


def as_single(value: float) -> float:
    """Return a float32 in few digits that read back equal in single and double precision.

    >>> as_single(1 / 3)
    0.33333334
    """
    return float(str(np.float32(min(max(value, -LARGEST_SINGLE), LARGEST_SINGLE))))


def at_most(threshold: float) -> np.float32:
    """Return the largest float32 t with ``x <= t`` exactly if ``x <= threshold``, for float32 x.

    Rounding to nearest could move the threshold across a value. Infinite thresholds become
    the largest finite numbers; so -3.4028235e38 itself counts as missing.

    >>> bool(float(at_most(0.1)) <= 0.1 < float(np.nextafter(at_most(0.1), np.float32(1))))
    True
    """
    bounded = min(max(threshold, -LARGEST_SINGLE), LARGEST_SINGLE)
    single = np.float32(bounded)
    if float(single) > bounded:
        single = np.nextafter(single, np.float32(-np.inf))
    return single


def above(threshold: float) -> np.float32:
    """Return the float32 t with ``x < t`` exactly if ``x <= threshold``, for float32 x.

    Never a subnormal number, which some machines take for 0: positive values below 1.2e-38
    count as 0.

    >>> float(above(1.0))
    1.0000001192092896
    """
    with np.errstate(over="ignore"):  # overflows to infinity
        after = np.nextafter(at_most(threshold), np.float32(np.inf))
    if 0 < after < SMALLEST_SINGLE:
        return SMALLEST_SINGLE
    return min(after, np.float32(LARGEST_SINGLE))
