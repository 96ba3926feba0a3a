// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Merkle} from "contracts/commit/Merkle.sol";
import {Programs} from "contracts/commit/Programs.sol";
import {Structures} from "contracts/commit/Structures.sol";
import {Tensors} from "contracts/commit/Tensors.sol";
import {Shape} from "contracts/element/IRule.sol";
import {Shapes} from "contracts/element/Shapes.sol";
import {Program} from "contracts/interfaces/IJobs.sol";

/// @notice The rules of sizes and counts, to be called with anything.
contract Counts {
    /// @notice Elements as rules of operators count them, bytes and leaves as trials and demands do, and the depth of the tree.
    function tensor(Shape calldata shape)
        external
        pure
        returns (uint256 elements, uint256 size, uint256 leaves, uint8 depth)
    {
        elements = Shapes.count(shape.dims);
        size = Tensors.size(shape);
        leaves = Tensors.leaves(size);
        depth = Merkle.depth(leaves);
    }

    function checkpoints(uint64 length, uint64 stride) external pure returns (uint64 count, uint8 depth) {
        count = Programs.checkpoints(length, stride);
        depth = Merkle.depth(count);
    }

    function program(Program calldata given) external pure {
        Programs.check(given);
    }

    function structure(bytes calldata encoding)
        external
        pure
        returns (uint16 op, Shape[] memory shapes, bytes memory attributes)
    {
        (op,,) = Structures.header(encoding);
        (shapes, attributes) = Structures.outputs(encoding);
    }
}
