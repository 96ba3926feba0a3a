// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Kulisch} from "../../float/Kulisch.sol";
import {Cases} from "../Cases.sol";
import {Entry} from "../IRule.sol";
import {ReductionRule} from "../ReductionRule.sol";
import {ExactSums} from "./ExactSums.sol";

/// @title ExactReductions
/// @notice Reductions in the mode exact: `sum` of f32 over elements in row-major order (ExactSums).
contract ExactReductions is ReductionRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.EXACT;
    }

    function _size(uint256) internal pure override returns (uint256) {
        return ExactSums.BYTES;
    }

    function _next(uint256, uint256, bytes calldata state, uint256 value)
        internal
        pure
        override
        returns (bytes memory)
    {
        return ExactSums.plus(state, value, Kulisch.ONE);
    }

    /// @dev There are no logs in exact, so the entry is ignored.
    function _element(uint8, bytes calldata state, Entry calldata) internal pure override returns (uint256) {
        return ExactSums.element(state);
    }
}
