// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {LogBlock} from "../commit/Logs.sol";
import {IOpset} from "../element/IOpset.sol";
import {Entry} from "../element/IRule.sol";
import {Dispute} from "./ICourt.sol";

/// @notice An output of an operator, and what both sides agree on.
struct Question {
    uint8 mode;
    uint8 output;
    /// @dev Encoding of the node's structure.
    bytes structure;
    /// @dev Hashes of the operator's inputs, and of its log.
    bytes32[] hashes;
    bytes32 log;
}

/// @notice An element of an output, and what the agreed log says of it.
struct Element {
    uint64 number;
    Entry entry;
}

/// @notice What two leaves of an output show.
struct Found {
    /// @dev Bit `s`: side `s` has a leaf of another length. Then all else is zero.
    uint8 losers;
    /// @dev The first element that differs, and each side's bits of it.
    Element element;
    uint64[2] values;
    /// @dev How many steps its chain has, the state before the first one, and the element if there is no step.
    uint64 steps;
    bytes first;
    uint64 bits;
}

/// @notice The operator's inputs: their types, packed (Types), and the root over the data of each.
struct Inputs {
    bytes types;
    bytes32[] roots;
}

/// @notice An operand element, by the leaf that it is in.
struct Opening {
    uint8 input;
    uint64 element;
    bytes leaf;
    bytes32[] path;
}

/// @title IExaminer
/// @notice Reads what is shown of an operator, and computes what follows: the element in which two leaves differ, how its chain
/// begins, one step of it, and what it ends with.
/// @dev Everything is a function of the arguments: no storage, no owner, and nobody need be asked who calls. A question is what
/// it is said to be: that its hashes and its structure are the agreed ones is the caller's.
interface IExaminer {
    error RecordsDiffer();
    error OutputsEqual();
    error WrongInputCount(uint256 have, uint256 want);
    /// @notice An input's hash is not the agreed one.
    error AnotherInput(uint256 input, bytes32 have, bytes32 want);
    /// @notice More types than inputs: so many bytes, of which so many are read.
    error TypesFollow(uint256 length, uint256 read);
    error OutsideTensor(uint8 input, uint64 element);

    /// @notice The rules.
    function OPSET() external view returns (IOpset);

    /// @notice What two records differ in, which must be outputs alone.
    /// @return differs The first output whose hashes differ.
    /// @return hash Of the dispute's encoding.
    function disputed(Dispute calldata dispute) external pure returns (uint8 differs, bytes32 hash);

    /// @notice An output with data under these roots.
    /// @return hashes What records call it, for each root.
    /// @return leaves How many its data has.
    function output(bytes calldata structure, uint8 number, bytes32[2] calldata roots)
        external
        view
        returns (bytes32[2] memory hashes, uint64 leaves);

    /// @notice What the sides' leaves number `index` show. INVARIANT: there is such a leaf, and these two differ.
    /// @param log The element's block of the agreed log; not looked at if there is none.
    function find(
        Question calldata question,
        uint64 index,
        bytes calldata leaf0,
        bytes calldata leaf1,
        Inputs calldata inputs,
        LogBlock calldata log
    ) external view returns (Found memory);

    /// @notice Step `t` of the chain.
    /// @param agreed The state before it.
    /// @param last Whether it is the last one.
    /// @param openings The operands that the step reads, in this order.
    /// @return next The state after it.
    /// @return bits The element, if it is the last step. Else 0.
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
