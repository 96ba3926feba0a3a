// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Cases} from "../Cases.sol";
import {Entry} from "../IRule.sol";
import {ReductionRule} from "../ReductionRule.sol";
import {ExactSums} from "./ExactSums.sol";

/// @title RoundedReductions
/// @notice Reductions in rounded-f64: `sum` of f32 is an exact sum (ExactSums), over elements in row-major order.
contract RoundedReductions is ReductionRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.ROUNDED_F64;
    }

    function _size(uint256) internal pure override returns (uint256) {
        return ExactSums.VALUES_BYTES;
    }

    function _begin(uint256) internal pure override returns (bytes memory) {
        return new bytes(ExactSums.VALUES_BYTES);
    }

    function _item(uint256, uint256 t) internal pure override returns (uint256) {
        return t;
    }

    function _next(uint256, uint256, bytes calldata state, uint256 value)
        internal
        pure
        override
        returns (bytes memory)
    {
        return ExactSums.plus(state, value);
    }

    function _element(uint8 mode, bytes calldata state, Entry calldata entry)
        internal
        pure
        override
        returns (uint256)
    {
        return ExactSums.element(mode, state, entry);
    }
}
