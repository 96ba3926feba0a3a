// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Merkle} from "../commit/Merkle.sol";
import {Position} from "../interfaces/IReferee.sol";

/// @title Agreed
/// @notice Proofs about the part of the trees to the left of the position, which both sides have in common.
library Agreed {
    /// @notice Checks a leaf to the left of the position, under either root: there the trees are equal, and each side
    /// knows its own. SAFETY: with one root only, its owner could withhold the path.
    function check(
        Position memory here,
        uint8 tag,
        bytes32 leaf,
        uint256 index,
        uint256 levels,
        bytes32[] calldata path
    ) internal view {
        bytes32 have = Merkle.rootOf(tag, leaf, index, levels, path);
        if (have != here.root[0] && have != here.root[1]) revert Merkle.PathMismatch(have, here.root[0]);
    }
}
