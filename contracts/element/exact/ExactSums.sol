// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Grid} from "../../float/Grid.sol";
import {Kulisch} from "../../float/Kulisch.sol";

/// @title ExactSums
/// @notice States of sums in the mode exact (docs/adjudication.md, section 2): the sum of the terms so far, 96 bytes, as
/// Kulisch encodes it. Without terms they are zeros.
/// @dev INVARIANT: every state that Kulisch.decode accepts has one next state and one element. So a party may post any
/// bytes: they are refused by a named error, or end at a wrong element.
library ExactSums {
    uint256 internal constant BYTES = 96;

    /// @notice Returns the same state; reverts if it is none.
    function same(bytes calldata state) internal pure returns (bytes memory) {
        return Kulisch.encode(Kulisch.decode(state));
    }

    /// @notice Returns a state with one more term, `a b`. A value is a term with `b` 1 (Kulisch.ONE).
    function plus(bytes calldata state, uint256 a, uint256 b) internal pure returns (bytes memory) {
        return Kulisch.encode(Kulisch.addProduct(Kulisch.decode(state), a, b));
    }

    /// @notice Returns the element: the sum, rounded once to binary32.
    function element(bytes calldata state) internal pure returns (uint256) {
        return Grid.toGrid(Kulisch.decode(state), Grid.F32_BITS, Grid.NEAREST);
    }

    /// @notice Returns an element of bf16 as binary32: the sum, rounded once.
    function narrowElement(bytes calldata state) internal pure returns (uint256) {
        return Grid.toGrid(Kulisch.decode(state), Grid.BF16_BITS, Grid.NEAREST);
    }
}
