// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Record} from "../interfaces/IReferee.sol";
import {Hash} from "./Hash.sol";
import {Structures} from "./Structures.sol";

/// @title Records
/// @notice Hashes a node's record of one step, and checks its form against the program.
///
///     04 ‖ structure hash ‖ nin u8 ‖ nout u8 ‖ input hashes ‖ output hashes ‖ log hash
library Records {
    uint256 internal constant MAX_INPUTS = 255;
    uint256 internal constant MAX_OUTPUTS = 8;

    error TooManyInputs(uint256 count);
    error TooManyOutputs(uint256 count);

    /// @notice Returns the record's hash, a leaf of the step tree.
    function hash(Record calldata record) internal view returns (bytes32) {
        // SAFETY: without these bounds the counts would wrap and two records could share a preimage.
        if (record.inputs.length > MAX_INPUTS) revert TooManyInputs(record.inputs.length);
        if (record.outputs.length > MAX_OUTPUTS) revert TooManyOutputs(record.outputs.length);
        return Hash.sha(
            abi.encodePacked(
                Hash.RECORD,
                record.structure,
                uint8(record.inputs.length),
                uint8(record.outputs.length),
                record.inputs,
                record.outputs,
                record.log
            )
        );
    }

    /// @notice Returns whether the record has the structure's hash and counts, and a log only in a mode that has logs.
    /// @dev NOTE: in the mode repops-f32 nothing is rounded, so a log could only be a way to differ.
    function wellFormed(Record calldata record, bytes calldata structure, bool rounded)
        internal
        view
        returns (bool)
    {
        (, uint8 nin, uint8 nout) = Structures.header(structure);
        return record.structure == Hash.structure(structure) && record.inputs.length == nin
            && record.outputs.length == nout && (rounded || record.log == 0);
    }

    /// @notice Returns output `i`, or zero (which is not a hash) if the record has no such output.
    function outputOrZero(Record calldata record, uint256 i) internal pure returns (bytes32) {
        return i < record.outputs.length ? record.outputs[i] : bytes32(0);
    }
}
