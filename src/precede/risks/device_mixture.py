"""Pairs and labels in one risk on a GPU: `mixture`, wherever the pairs are summed there."""

from __future__ import annotations

from typing import Any

from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.risks.device_pairs import DevicePull
from precede.risks.mixture import Labels, MixtureRisk, QuadraticMixture

__all__ = ["DeviceMixtureRisk"]

# Bytes of a row: its label, whether it has one, its weights, and what a state keeps of it.
OF_ROW = 64


class DeviceMixtureRisk(DevicePull, MixtureRisk):
    """The risk on a device, wherever the scores are there; on the CPU otherwise."""

    def __init__(
        self, mixture: QuadraticMixture, layout: QueryLayout, context: Context | None = None
    ):
        super().__init__(mixture, layout, context)
        assert self.context.device is not None
        self._device = self.context.device
        self.on_device = self._pairs.on_device
        if self.on_device:
            self._device.check_room(OF_ROW * layout.n_used_rows, "the pulls of all labels")
            self._weight = self._device.put(layout.weight)
            self._labels_on_device = Labels(*map(self._device.put, self._labels))

    def _labels_at(self, scores: Any) -> Labels:
        return self._labels_on_device if self._device.holds(scores) else self._labels
