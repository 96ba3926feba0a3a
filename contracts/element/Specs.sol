// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice A tensor's dtype and dimensions, read where they lie in calldata: the position of a type (Types).
type Spec is uint256;

using {dtype, rank, dim, next} for Spec global;

/// @notice Returns the dtype (docs/protocol.md, section 2).
function dtype(Spec spec) pure returns (uint8 found) {
    assembly ("memory-safe") {
        found := byte(0, calldataload(spec))
    }
}

/// @notice Returns the number of dimensions.
function rank(Spec spec) pure returns (uint256 found) {
    assembly ("memory-safe") {
        found := byte(1, calldataload(spec))
    }
}

/// @notice Returns dimension `d`. SAFETY: other data follows the last one, so callers check the rank first.
function dim(Spec spec, uint256 d) pure returns (uint256 found) {
    assembly ("memory-safe") {
        found := shr(192, calldataload(add(add(spec, 2), shl(3, d))))
    }
}

/// @notice Returns the next type, if there is one.
function next(Spec spec) pure returns (Spec found) {
    uint256 dims = rank(spec);
    assembly ("memory-safe") {
        found := add(add(spec, 2), shl(3, dims))
    }
}

/// @title Specs
/// @notice Finds types by their numbers.
library Specs {
    /// @notice Returns the type that begins at byte `start`.
    function from(bytes calldata types, uint256 start) internal pure returns (Spec spec) {
        assembly ("memory-safe") {
            spec := add(types.offset, start)
        }
    }

    /// @notice Returns type `i`, counted from 0; the caller has checked the types and their number.
    function get(bytes calldata types, uint256 i) internal pure returns (Spec spec) {
        spec = from(types, 0);
        for (; i != 0; --i) {
            spec = spec.next();
        }
    }
}
