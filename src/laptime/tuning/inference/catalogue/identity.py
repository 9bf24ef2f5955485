"""The model as it is, once more: the control of all races.

Lies when: never; that is its use.
Source: decision 0010.
"""

from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "the model as it is"
NUMERICS = "exact"
SAVES = 0.0
BUILDS = 0.0


def apply(draft: Draft, options: Options) -> None:
    """Nothing."""
