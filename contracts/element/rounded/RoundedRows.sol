// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Cases} from "../Cases.sol";
import {Entry} from "../IRule.sol";
import {RowsRule} from "../RowsRule.sol";
import {ExactSums} from "./ExactSums.sol";

/// @title RoundedRows
/// @notice `take` and `scatter_add` in rounded-f64: additions to a row are an exact sum (ExactSums).
contract RoundedRows is RowsRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.ROUNDED_F64;
    }

    function _size() internal pure override returns (uint256) {
        return ExactSums.VALUES_BYTES;
    }

    function _begin() internal pure override returns (bytes memory) {
        return new bytes(ExactSums.VALUES_BYTES);
    }

    function _next(uint256, bytes calldata state, bool exists, uint256 value)
        internal
        pure
        override
        returns (bytes memory)
    {
        return exists ? ExactSums.plus(state, value) : ExactSums.same(state);
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
