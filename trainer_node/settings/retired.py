"""Former names of settings, and what they are called now."""

from __future__ import annotations

RETIRED = {"max_demands_eth": "max_data_requests_eth"}
