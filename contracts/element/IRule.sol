// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice Element `element`, row-major, of output `output` of an operator.
struct Case {
    uint16 op;
    uint8 mode;
    uint8 output;
    uint64 element;
    /// @dev Types of all inputs and of all outputs, packed (Types).
    bytes inputs;
    bytes outputs;
    /// @dev As in the structure's encoding (docs/protocol.md, section 4).
    bytes attributes;
}

/// @notice An element of an input, proven to be part of the tensor that the record's input hash commits to.
/// @dev A binary32 is in the low 32 bits, an i64 in 64 (two's complement), a bool is 0 or 1, a bf16 is in
/// 16.
struct Opened {
    uint8 input;
    uint64 element;
    uint64 bits;
}

/// @notice A rounding log's entry for an element: 0 rounded down, 1 nothing, 2 rounded up, 3 the value is written.
struct Entry {
    uint8 kind;
    uint32 written;
}

/// @title IRule
/// @notice The operators of one family, as chains of steps (docs/adjudication.md, section 2).
/// @dev `begin` returns the number of steps and the state before the first step, `step` makes the state after step `t`
/// from the one before, `finish` makes the element from the last one. Every function depends on its arguments only: a
/// rule has no storage and no owner. The Python twin is `referee_py/element`.
interface IRule {
    /// @notice The next operand that the step takes is another one than was opened, or none was.
    error NotOpened(uint8 input, uint64 element);
    /// @notice Operands were opened that the step does not take.
    error NotTaken(uint256 opened, uint256 taken);
    error NoSuchStep(uint64 step, uint64 length);
    error BadState(uint256 bytesGiven, uint256 bytesWanted);
    /// @notice The rule is for other operators, modes or types than the case's.
    error NotMine(uint16 op, uint8 mode);

    /// @notice Returns the number of steps, and the state before the first step.
    /// @dev All states of a case have one size, below 2^16.
    function begin(Case calldata which) external pure returns (uint64 steps, bytes memory first);

    /// @notice Returns the state after step `t`. Steps are numbered from 0; `state` is the state before the step.
    /// @param opened The operand elements that the step reads, all of them and no others, in the order of reading.
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next);

    /// @notice Returns the element, of which the log says `entry`. NaN is 0x7FC00000, of bf16 0x7FC0.
    function finish(Case calldata which, bytes calldata state, Entry calldata entry)
        external
        pure
        returns (uint64 bits);
}
