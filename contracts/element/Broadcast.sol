// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Cases} from "./Cases.sol";
import {Case, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Shapes} from "./Shapes.sol";
import {Spec, Specs} from "./Specs.sol";

/// @title Broadcast
/// @notice Operands of elementwise operators.
library Broadcast {
    /// @notice Checks that the case has one output and this many inputs, whose broadcast shape is the output's.
    function check(Case calldata which, uint256 inputs) internal pure {
        unchecked {
            Cases.check(which, inputs, 1);
            Spec shape = Specs.get(which.outputs, 0);
            uint256 places = 0;
            for (uint256 i = 0; i < inputs; ++i) {
                places |= Shapes.spreads(Specs.get(which.inputs, i), shape);
            }
            Shapes.fit(places + 1 == 1 << shape.rank());
        }
    }

    /// @notice Returns input `i`'s value for the element, opened as number `i`.
    function read(Case calldata which, Opened[] calldata opened, uint256 i) internal pure returns (uint256) {
        uint256 element =
            Shapes.broadcast(which.element, Specs.get(which.outputs, 0), Specs.get(which.inputs, i));
        return Operands.read(which, opened, i, i, element);
    }
}
