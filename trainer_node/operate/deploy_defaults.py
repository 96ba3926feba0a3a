"""Values of a deployment unless the deployer says otherwise; its flags show it."""

from __future__ import annotations

DAY_S = 24 * 3600
NOBODY = "0x" + "00" * 20
"""The guardian of a deployment whose clocks nobody can stop."""
PRICE_FACTOR = 4
"""Factor on the chain's gas price at deployment: what an honest party may have to pay on a bad day."""
