// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IReferee} from "../interfaces/IReferee.sol";
import {Program} from "../interfaces/JobTypes.sol";
import {Hash} from "./Hash.sol";
import {Modes} from "./Modes.sol";

/// @title Programs
/// @notice The limits of a program, its hash, and the number of checkpoints of an interval at a stride.
library Programs {
    uint32 internal constant OPSET_VERSION = 1;
    uint256 internal constant NODE_LIMIT = 1 << 24;
    uint256 internal constant STEP_LIMIT = 1 << 48;
    uint256 internal constant TENSOR_LIMIT = 1 << 20;
    uint256 internal constant MAX_STRIDES = 8;

    error BadNodeCount(uint256 count);
    error BadSlotCount(uint256 count);
    error BadConstantCount(uint256 count);
    error BadSteps(uint256 steps);
    error BadStrideCount(uint256 count);
    /// @notice Stride `position` does not divide the one before, is not below it, or (the last one) is not 1.
    error BadStride(uint256 position, uint64 stride);

    /// @notice Reverts unless the opset version and the mode are known.
    function checkKnown(Program calldata program) internal pure {
        if (program.opsetVersion != OPSET_VERSION) revert IReferee.UnknownOpset(program.opsetVersion);
        if (!Modes.known(program.mode)) revert IReferee.UnknownMode(program.mode);
    }

    /// @notice Reverts unless every field is within its limits.
    function check(Program calldata program) internal pure {
        if (program.nodeCount == 0 || program.nodeCount >= NODE_LIMIT) {
            revert BadNodeCount(program.nodeCount);
        }
        if (program.slotCount >= TENSOR_LIMIT) revert BadSlotCount(program.slotCount);
        if (program.constantCount >= TENSOR_LIMIT) revert BadConstantCount(program.constantCount);
        if (program.steps == 0 || program.steps >= STEP_LIMIT) revert BadSteps(program.steps);
        uint64[] calldata strides = program.strides;
        if (strides.length == 0 || strides.length > MAX_STRIDES) revert BadStrideCount(strides.length);
        for (uint256 i = 0; i < strides.length; ++i) {
            uint64 stride = strides[i];
            if (stride == 0) revert BadStride(i, stride);
            if (i > 0 && (stride >= strides[i - 1] || strides[i - 1] % stride != 0)) {
                revert BadStride(i, stride);
            }
        }
        uint256 last = strides.length - 1;
        if (strides[last] != 1) revert BadStride(last, strides[last]);
    }

    /// @notice Returns `H(06 ‖ fields ‖ count u8 ‖ strides u64be each)`.
    function hash(Program calldata program) internal view returns (bytes32) {
        bytes memory strides;
        for (uint256 i = 0; i < program.strides.length; ++i) {
            strides = abi.encodePacked(strides, program.strides[i]);
        }
        return Hash.sha(
            abi.encodePacked(
                Hash.PROGRAM,
                program.opsetVersion,
                program.mode,
                program.nodeCount,
                program.slotCount,
                program.constantCount,
                program.steps,
                program.structureRoot,
                program.slotRoot,
                program.constantRoot,
                program.initialRoot,
                uint8(program.strides.length),
                strides
            )
        );
    }

    /// @notice Returns the number of checkpoints of `length` steps at a stride: `ceil(length / stride)`.
    function checkpoints(uint64 length, uint64 stride) internal pure returns (uint64) {
        // SAFETY: `length + stride - 1` could overflow.
        return length / stride + (length % stride == 0 ? 0 : 1);
    }
}
