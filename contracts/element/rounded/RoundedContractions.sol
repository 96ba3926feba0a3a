// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../../commit/Modes.sol";
import {Grid} from "../../float/Grid.sol";
import {Cases} from "../Cases.sol";
import {ContractionRule} from "../ContractionRule.sol";
import {Entry} from "../IRule.sol";
import {RoundedSums} from "./RoundedSums.sol";

/// @title RoundedContractions
/// @notice Contractions in rounded-f64: exact sums of products (RoundedSums).
contract RoundedContractions is ContractionRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.ROUNDED_F64;
    }

    function _size(bool) internal pure override returns (uint256) {
        return RoundedSums.PRODUCTS_BYTES;
    }

    function _next(uint256, bytes calldata state) internal pure override returns (bytes memory) {
        return RoundedSums.same(state);
    }

    function _next(uint256, bytes calldata state, uint256 a, uint256 b)
        internal
        pure
        override
        returns (bytes memory)
    {
        return RoundedSums.plus(state, a, b);
    }

    function _element(uint8 mode, bytes calldata state, Entry calldata entry, bool narrow)
        internal
        pure
        override
        returns (uint256)
    {
        return RoundedSums.element(mode, state, entry, narrow ? Grid.BF16_BITS : Modes.bits(mode));
    }
}
