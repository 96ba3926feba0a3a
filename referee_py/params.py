"""The protocol's constants, on which contracts and daemons must agree: unit, origin and contract of each number."""

from __future__ import annotations

REVEAL_LEVELS = 4
"""Levels of a tree in one reveal (contracts/commit/Descents.sol): 16 children are 512 bytes of calldata, 15 hashes."""

POST_BYTES = 2048
"""Bytes of states in one post of a trial, at most (contracts/court/StepSearch.sol; docs/adjudication.md, section 1)."""
MAX_PLACES = 256
"""Places in one round of a trial, at most (contracts/court/StepSearch.sol; docs/adjudication.md, section 1)."""

# --- arithmetic modes -------------------------------------------------------------------------------------------

MODE_SUMMARIES = {
    "repops-f32": "a fixed order",
    "exact": "real sums, rounded once",
    "rounded-f64": "binary64 in any order, with rounding logs",
    "tc16": "as repops-f32; products of bf16 as tensor cores add",
}
"""Names of the modes, in the order of their table (`program.modes`). NOTE: to show them, a command loads no mode."""

# --- rounding ---------------------------------------------------------------------------------------------------

MIN_BITS, MAX_BITS = 26, 32
"""Bits of a result in rounded-f64: the grids that a mode byte can name (docs/protocol.md, section 8)."""

# --- money ------------------------------------------------------------------------------------------------------

BURNED = "0x000000000000000000000000000000000000dEaD"
"""Account whose credit is burned ether (contracts/Escrow.sol)."""
PRIZE_DIVISOR = 2
"""The prize is a lost stake or bond divided by this (contracts/jobs/Pairing.sol, contracts/panel/Appeals.sol).
NOTE: the prize is at most half, so that nobody profits from losing to itself."""
VERDICT_DIVISOR = 10
"""The deciding verifiers' share: a lost stake divided by this, out of the prize if any (contracts/jobs/Pairing.sol)."""
FLAT = 16
"""Each new root of a challenger costs a stake divided by this more than the one before (contracts/Jobs.sol)."""

# --- data requests ----------------------------------------------------------------------------------------------

# Twins: contracts/DataAvailability.sol. Gas of a response and its bytes: tests/contracts/availability/RequestGas.t.sol.
ANSWER_GAS, BYTE_GAS = 150_000, 80
RESPONSE_BYTES, BLOCKS_RESPONSE_BYTES = (
    13_312,
    53_088,
)  # of a response with its paths: a record of 255 inputs, 8 blocks
RECORD_SECONDS, LOG_SECONDS = 10, 60
"""Seconds that an open piece adds. At 100,000 bytes per minute: seven of the longest leaves, or one page of blocks."""
MAX_REQUEST_PLACES, MAX_OPEN = 96, 512
"""Places in one call, some 34,000 gas each, 120,000 under Amsterdam; pieces open under one root, from which `LISTS` of
the contracts follows."""
STEP, MAX_RANK = 64, 15
"""A deposit doubles with each other open checkpoint and with every `STEP` open pieces, at most `MAX_RANK` times."""
CROWD = 32
"""Open pages of logs at which time counts as waited. With fewer, one page a block could delay the end."""
PRICE_UNIT = 1_000
"""Unit of a request's price, in wei: the price is rounded up to a multiple of it (`UNIT` of the contract)."""
