// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../../commit/Modes.sol";
import {Cases} from "../Cases.sol";
import {Entry} from "../IRule.sol";
import {ReductionRule} from "../ReductionRule.sol";
import {RoundedSums} from "./RoundedSums.sol";

/// @title RoundedReductions
/// @notice Reductions in rounded-f64: `sum` of f32 is an exact sum (RoundedSums), over elements in row-major order.
contract RoundedReductions is ReductionRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.ROUNDED_F64;
    }

    function _size(uint256) internal pure override returns (uint256) {
        return RoundedSums.VALUES_BYTES;
    }

    function _next(uint256, uint256, bytes calldata state, uint256 value)
        internal
        pure
        override
        returns (bytes memory)
    {
        return RoundedSums.plus(state, value);
    }

    function _element(uint8 mode, bytes calldata state, Entry calldata entry)
        internal
        pure
        override
        returns (uint256)
    {
        return RoundedSums.element(mode, state, entry, Modes.bits(mode));
    }
}
