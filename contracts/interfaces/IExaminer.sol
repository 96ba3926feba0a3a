// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {LogBlock} from "../commit/Logs.sol";
import {IOpset} from "../element/IOpset.sol";
import {Entry} from "../element/IRule.sol";
import {Dispute} from "./ICourt.sol";

/// @notice An output of an operator, with everything that both sides agree on.
struct Question {
    uint8 mode;
    uint8 output;
    /// @dev Encoding of the node's structure.
    bytes structure;
    /// @dev Hashes of the operator's inputs, and the hash of its log.
    bytes32[] hashes;
    bytes32 log;
}

/// @notice An element of an output, with the agreed log's statement about it.
struct Element {
    uint64 number;
    Entry entry;
}

/// @notice The result of comparing two leaves of an output.
struct Found {
    /// @dev Bit `s`: side `s` has a leaf of the wrong length. Then all other fields are zero.
    uint8 losers;
    /// @dev The first element that differs, and each side's bits of it.
    Element element;
    uint64[2] values;
    /// @dev The number of steps of its chain, the first step's previous state, and the element if there is no step.
    uint64 steps;
    bytes first;
    uint64 bits;
}

/// @notice The operator's inputs: their types, packed (Types), and the data root of each.
struct Inputs {
    bytes types;
    bytes32[] roots;
}

/// @notice An operand element, shown with the leaf that contains it.
struct Opening {
    uint8 input;
    uint64 element;
    bytes leaf;
    bytes32[] path;
}

/// @title IExaminer
/// @notice Reads what is shown of an operator, and computes from it: the element in which two leaves differ, the first
/// state of its chain, one step of the chain, and the element at its end.
/// @dev Every function depends on its arguments only: no storage, no owner, no check of the caller. The caller ensures
/// that the hashes and the structure of a question are the agreed ones.
interface IExaminer {
    error RecordsDiffer();
    error OutputsEqual();
    error WrongInputCount(uint256 have, uint256 want);
    /// @notice The hash of an input is not the agreed one.
    error AnotherInput(uint256 input, bytes32 have, bytes32 want);
    /// @notice There are more types than inputs: `length` bytes, of which `read` are used.
    error TypesFollow(uint256 length, uint256 read);
    error OutsideTensor(uint8 input, uint64 element);

    /// @notice The operators' rules.
    function OPSET() external view returns (IOpset);

    /// @notice Checks that two records differ in outputs only, and finds the first such output.
    /// @return differs The first output whose hashes differ.
    /// @return hash keccak256 of the dispute's encoding.
    function disputed(Dispute calldata dispute) external pure returns (uint8 differs, bytes32 hash);

    /// @notice Hashes an output whose data has one of these roots.
    /// @return hashes The tensor hash in a record, for each root.
    /// @return leaves The number of leaves of the data.
    function output(bytes calldata structure, uint8 number, bytes32[2] calldata roots)
        external
        view
        returns (bytes32[2] memory hashes, uint64 leaves);

    /// @notice Compares the sides' leaves number `index`. INVARIANT: there is such a leaf, and these two differ.
    /// @param log The element's block of the agreed log; ignored if there is no log.
    function find(
        Question calldata question,
        uint64 index,
        bytes calldata leaf0,
        bytes calldata leaf1,
        Inputs calldata inputs,
        LogBlock calldata log
    ) external view returns (Found memory);

    /// @notice Computes step `t` of the chain.
    /// @param agreed The state before the step.
    /// @param last Whether the step is the last one.
    /// @param openings The operands that the step reads, in the order in which it reads them.
    /// @return next The state after the step.
    /// @return bits The element, if the step is the last one; otherwise 0.
    function step(
        Question calldata question,
        Element calldata element,
        Inputs calldata inputs,
        uint64 t,
        bool last,
        bytes calldata agreed,
        Opening[] calldata openings
    ) external view returns (bytes memory next, uint64 bits);
}
