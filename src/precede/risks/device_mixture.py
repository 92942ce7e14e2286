"""The risk of `QBRank` on a GPU, if its pairs can be summed on the device."""

from __future__ import annotations

from typing import Any

from precede.engine.execution import Context
from precede.engine.query_layout import QueryLayout
from precede.risks.device_pairs import DevicePull
from precede.risks.mixture import Labels, MixtureRisk, QuadraticMixture

# Device memory for labels, weights and states.
BYTES_PER_ROW = 64


class DeviceMixtureRisk(DevicePull, MixtureRisk):
    """`MixtureRisk` for scores on the device; falls back to the CPU for scores on the CPU."""

    def __init__(
        self, mixture: QuadraticMixture, layout: QueryLayout, context: Context | None = None
    ):
        super().__init__(mixture, layout, context)
        assert self.context.device is not None
        self._device = self.context.device
        self.on_device = self._pairs.on_device
        if self.on_device:
            self._device.check_room(BYTES_PER_ROW * layout.n_used_rows, "the pulls of all labels")
            self._weight = self._device.put(layout.weight)
            self._device_labels = Labels(*map(self._device.put, self._labels))

    def _labels_for(self, scores: Any) -> Labels:
        return self._device_labels if self._device.holds(scores) else self._labels
