// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../../commit/Modes.sol";
import {Cases} from "../Cases.sol";
import {Entry} from "../IRule.sol";
import {RowsRule} from "../RowsRule.sol";
import {RoundedSums} from "./RoundedSums.sol";

/// @title RoundedRows
/// @notice `take` and `scatter_add` in rounded-f64: additions to a row are an exact sum (RoundedSums).
contract RoundedRows is RowsRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.ROUNDED_F64;
    }

    function _size() internal pure override returns (uint256) {
        return RoundedSums.VALUES_BYTES;
    }

    function _next(uint256, bytes calldata state, bool exists, uint256 value)
        internal
        pure
        override
        returns (bytes memory)
    {
        return exists ? RoundedSums.plus(state, value) : RoundedSums.same(state);
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
