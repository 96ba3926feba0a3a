// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Program, Terms} from "../interfaces/JobTypes.sol";
import {SafeCastLib} from "solady/utils/SafeCastLib.sol";

/// @title TermsFile
/// @notice The terms that a job keeps as the code of an account: those that its words do not have (KeptJob). Each byte of
/// code is dear, so nothing is padded.
///
///     opset version u32 ‖ mode u8 ‖ nodes u32 ‖ slots u32 ‖ constants u32 ‖ steps u64 ‖ structure root ‖ slot root ‖
///     constant root ‖ initial root ‖ program file ‖ train period u32 ‖ strides u8 ‖ verifiers u8 ‖ stride u64 each ‖
///     verifier (20 bytes) each ‖ uri
library TermsFile {
    uint256 private constant ROOTS = 25;
    uint256 private constant PROGRAM_FILE = ROOTS + 4 * 32;
    uint256 private constant TRAIN_PERIOD = PROGRAM_FILE + 32;
    uint256 private constant COUNTS = TRAIN_PERIOD + 4;
    uint256 private constant LISTS = COUNTS + 2;

    function encode(Terms calldata terms) internal pure returns (bytes memory file) {
        Program calldata program = terms.program;
        file = abi.encodePacked(
            program.opsetVersion,
            program.mode,
            program.nodeCount,
            program.slotCount,
            program.constantCount,
            program.steps,
            program.structureRoot,
            program.slotRoot,
            program.constantRoot,
            program.initialRoot
        );
        file = abi.encodePacked(
            file,
            terms.programFile,
            terms.trainPeriod,
            SafeCastLib.toUint8(program.strides.length),
            SafeCastLib.toUint8(terms.verifiers.length)
        );
        for (uint256 i = 0; i < program.strides.length; ++i) {
            file = abi.encodePacked(file, program.strides[i]);
        }
        for (uint256 i = 0; i < terms.verifiers.length; ++i) {
            file = abi.encodePacked(file, terms.verifiers[i]);
        }
        file = abi.encodePacked(file, terms.uri);
    }

    function programOf(bytes memory file) internal pure returns (Program memory program) {
        program.opsetVersion = uint32(_field(file, 0, 4));
        program.mode = uint8(_field(file, 4, 1));
        program.nodeCount = uint32(_field(file, 5, 4));
        program.slotCount = uint32(_field(file, 9, 4));
        program.constantCount = uint32(_field(file, 13, 4));
        program.steps = uint64(_field(file, 17, 8));
        program.structureRoot = bytes32(_field(file, ROOTS, 32));
        program.slotRoot = bytes32(_field(file, ROOTS + 32, 32));
        program.constantRoot = bytes32(_field(file, ROOTS + 64, 32));
        program.initialRoot = bytes32(_field(file, ROOTS + 96, 32));
        program.strides = new uint64[](_field(file, COUNTS, 1));
        for (uint256 i = 0; i < program.strides.length; ++i) {
            program.strides[i] = uint64(_field(file, LISTS + 8 * i, 8));
        }
    }

    function verifiersOf(bytes memory file) internal pure returns (address[] memory verifiers) {
        uint256 start = LISTS + 8 * _field(file, COUNTS, 1);
        verifiers = new address[](_field(file, COUNTS + 1, 1));
        for (uint256 i = 0; i < verifiers.length; ++i) {
            verifiers[i] = address(uint160(_field(file, start + 20 * i, 20)));
        }
    }

    /// @dev Returns what the file has beside the program and the verifiers.
    function restOf(bytes memory file)
        internal
        pure
        returns (bytes32 programFile, uint32 trainPeriod, string memory uri)
    {
        programFile = bytes32(_field(file, PROGRAM_FILE, 32));
        trainPeriod = uint32(_field(file, TRAIN_PERIOD, 4));
        uint256 start = LISTS + 8 * _field(file, COUNTS, 1) + 20 * _field(file, COUNTS + 1, 1);
        bytes memory text = new bytes(file.length - start);
        for (uint256 i = 0; i < text.length; ++i) {
            text[i] = file[start + i];
        }
        uri = string(text);
    }

    /// @dev Returns `size` bytes from `start` on as a number.
    function _field(bytes memory file, uint256 start, uint256 size) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := shr(sub(256, mul(8, size)), mload(add(add(file, 0x20), start)))
        }
    }
}
