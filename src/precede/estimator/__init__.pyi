from .base import BaseRanker as BaseRanker
from .base import FitContext as FitContext
from .saving import Saved as Saved
from .saving import described_parameters as described_parameters
from .saving import load as load
from .saving import saved_parameters as saved_parameters
from .signatures import restore_on_failure as restore_on_failure
