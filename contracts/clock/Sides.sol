// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice A set of the two sides of a match or a trial: bit `s` is set if side `s` is in it.
type Sides is uint8;

Sides constant NOBODY = Sides.wrap(0);
Sides constant SIDE0 = Sides.wrap(1);
Sides constant SIDE1 = Sides.wrap(2);
Sides constant BOTH = Sides.wrap(3);

using {equal as ==, different as !=, has, bits} for Sides global;

function equal(Sides a, Sides b) pure returns (bool) {
    return Sides.unwrap(a) == Sides.unwrap(b);
}

function different(Sides a, Sides b) pure returns (bool) {
    return Sides.unwrap(a) != Sides.unwrap(b);
}

/// @notice Whether all sides of `other` are in `sides`.
function has(Sides sides, Sides other) pure returns (bool) {
    return Sides.unwrap(sides) & Sides.unwrap(other) == Sides.unwrap(other);
}

/// @notice The set as it is stored and passed on.
function bits(Sides sides) pure returns (uint8) {
    return Sides.unwrap(sides);
}
