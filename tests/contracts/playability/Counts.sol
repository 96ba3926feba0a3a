// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Merkle} from "contracts/commit/Merkle.sol";
import {Programs} from "contracts/commit/Programs.sol";
import {Structures} from "contracts/commit/Structures.sol";
import {Tensors} from "contracts/commit/Tensors.sol";
import {Shapes} from "contracts/element/Shapes.sol";
import {Specs} from "contracts/element/Specs.sol";
import {Program} from "contracts/interfaces/IJobs.sol";

/// @notice The rules of sizes and counts, callable with any types.
contract Counts {
    /// @notice Returns elements as operators' rules count them, bytes and leaves as trials and requests do, and the
    /// depth.
    function tensor(bytes calldata spec)
        external
        pure
        returns (uint256 elements, uint256 size, uint256 leaves, uint8 depth)
    {
        elements = Shapes.count(Specs.from(spec, 0));
        size = Tensors.size(spec);
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
        returns (uint16 op, bytes memory types, bytes memory attributes)
    {
        (op,,) = Structures.header(encoding);
        (types, attributes) = Structures.outputs(encoding);
    }
}
