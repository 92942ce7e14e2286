"""Pairs and labels in one risk on a GPU: `mixture`, wherever the pairs are summed there."""

from __future__ import annotations

from typing import Any

from precede.engine.arrangement import Arrangement
from precede.engine.workers import Workers
from precede.risks.device_pairs import PullThere
from precede.risks.mixture import Labels, MixtureRisk, QuadraticMixture

__all__ = ["DeviceMixtureRisk"]

# Bytes of a row: its label, whether it has one, its weights, and what a state keeps of it.
OF_ROW = 64


class DeviceMixtureRisk(PullThere, MixtureRisk):
    """The risk on a device, wherever the scores are there; on the CPU otherwise."""

    def __init__(
        self, mixture: QuadraticMixture, arrangement: Arrangement, workers: Workers | None = None
    ):
        super().__init__(mixture, arrangement, workers)
        assert self.workers.device is not None
        self._device = self.workers.device
        self.on_device = self._pairs.on_device
        if self.on_device:
            self._device.check_room(OF_ROW * arrangement.n_arranged, "the pulls of all labels")
            self._weight = self._device.put(arrangement.weight)
            self._labels_there = Labels(*map(self._device.put, self._labels))

    def _labels_at(self, scores: Any) -> Labels:
        return self._labels_there if self._device.holds(scores) else self._labels
