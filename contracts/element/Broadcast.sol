// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Cases} from "./Cases.sol";
import {Case, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Shapes} from "./Shapes.sol";

/// @title Broadcast
/// @notice Operands of elementwise operators.
library Broadcast {
    /// @notice The case has one output and so many inputs, which broadcast to its shape and no larger one would do.
    function check(Case calldata which, uint256 inputs) internal pure {
        unchecked {
            Cases.check(which, inputs, 1);
            uint64[] calldata shape = which.outputs[0].dims;
            uint256 places = 0;
            for (uint256 i = 0; i < inputs; ++i) {
                places |= Shapes.spreads(which.inputs[i].dims, shape);
            }
            Shapes.fit(places + 1 == 1 << shape.length);
        }
    }

    /// @notice What input `i` has for the element, opened as number `i`.
    function read(Case calldata which, Opened[] calldata opened, uint256 i) internal pure returns (uint256) {
        uint256 element = Shapes.broadcast(which.element, which.outputs[0].dims, which.inputs[i].dims);
        return Operands.read(which, opened, i, i, element);
    }
}
