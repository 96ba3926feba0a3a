// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "../float/Float32.sol";
import {Cases} from "./Cases.sol";
import {ContractionRule} from "./ContractionRule.sol";
import {Entry} from "./IRule.sol";

/// @title Contractions
/// @notice Contractions in repops-f32: chunks of 512 fused multiply-adds (docs/opset.md, section 2).
/// @dev State: `total u32be ‖ chunk u32be`, the sums of earlier chunks and of this one. -0 is the identity of both.
contract Contractions is ContractionRule {
    uint256 private constant CHUNK = 512;
    bytes8 private constant NOTHING = 0x8000000080000000;

    function _modes() internal pure virtual override returns (uint256) {
        return Cases.REPOPS_F32;
    }

    function _size(bool) internal pure virtual override returns (uint256) {
        return NOTHING.length;
    }

    function _begin(bool) internal pure virtual override returns (bytes memory) {
        return abi.encodePacked(NOTHING);
    }

    function _next(uint256 t, bytes calldata state) internal pure virtual override returns (bytes memory) {
        (uint256 total, uint256 chunk) = _before(t, state);
        return abi.encodePacked(uint32(total), uint32(chunk));
    }

    function _next(uint256 t, bytes calldata state, uint256 a, uint256 b)
        internal
        pure
        virtual
        override
        returns (bytes memory)
    {
        (uint256 total, uint256 chunk) = _before(t, state);
        return abi.encodePacked(uint32(total), uint32(Float32.fma(a, b, chunk)));
    }

    /// @dev There are no logs in repops-f32, so the entry is ignored. The sum is one of binary32 also if it must be
    /// narrow: `finish` rounds it again.
    function _element(uint8, bytes calldata state, Entry calldata, bool)
        internal
        pure
        virtual
        override
        returns (uint256)
    {
        (uint256 total, uint256 chunk) = _sums(state);
        return Float32.add(total, chunk);
    }

    /// @dev Returns the sums to which step `t` adds its term: a new chunk where one begins.
    function _before(uint256 t, bytes calldata state) private pure returns (uint256 total, uint256 chunk) {
        (total, chunk) = _sums(state);
        if (t % CHUNK == 0) (total, chunk) = (Float32.add(total, chunk), Float32.SIGN);
    }

    function _sums(bytes calldata state) private pure returns (uint256 total, uint256 chunk) {
        return (uint32(bytes4(state[0:4])), uint32(bytes4(state[4:8])));
    }
}
