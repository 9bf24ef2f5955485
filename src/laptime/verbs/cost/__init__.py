"""`cost`: what measured speeds cost on which machine, and what another machine cannot beat."""

from __future__ import annotations

from laptime.verbs.cost.request import CostRequest as CostRequest
from laptime.verbs.cost.run import cost as cost
