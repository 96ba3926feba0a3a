// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Cases} from "../Cases.sol";
import {ContractionRule} from "../ContractionRule.sol";
import {Entry} from "../IRule.sol";
import {ExactSums} from "./ExactSums.sol";

/// @title RoundedContractions
/// @notice Contractions in rounded-f64: exact sums of products (ExactSums).
contract RoundedContractions is ContractionRule {
    function _modes() internal pure override returns (uint256) {
        return Cases.ROUNDED_F64;
    }

    function _size() internal pure override returns (uint256) {
        return ExactSums.PRODUCTS_BYTES;
    }

    function _begin() internal pure override returns (bytes memory) {
        return new bytes(ExactSums.PRODUCTS_BYTES);
    }

    function _next(uint256, bytes calldata state) internal pure override returns (bytes memory) {
        return ExactSums.same(state);
    }

    function _next(uint256, bytes calldata state, uint256 a, uint256 b)
        internal
        pure
        override
        returns (bytes memory)
    {
        return ExactSums.plus(state, a, b);
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
