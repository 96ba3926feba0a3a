// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {KeptGroup, KeptJob, Seat} from "../interfaces/JobTypes.sol";

/// @title JobStorage
/// @notice The storage of Jobs that views show in full. The Notary has the same layout, by which it finds their words,
/// and stores nothing.
///
///     job       six words and, if they are needed, logs and finder
///     seat      two words: of the slot holders 0 to 15, as they joined; behind them of all later claims, as they came
///     group     one word, with its first members; others ten a word
///
/// What can be derived is not stored, because each new word is dear: a claim's group follows from its root, a group's
/// root from its first member, a match's id from both groups. URIs and last checkpoints are in events alone.
/// @dev INVARIANT: both contracts inherit this one first, so these are the first slots of both.
abstract contract JobStorage {
    // ------------------------------------------------------------------ storage

    /// @dev Flags of a seat: it has a claim, whose payment was collected, that founded its group, that is a refutation.
    uint8 internal constant CLAIMS = 1;
    uint8 internal constant COLLECTED = 2;
    uint8 internal constant FOUNDS = 4;
    uint8 internal constant REFUTES = 8;
    /// @dev The upper four bits of a slot holder's flags are the number of the group that it founded.
    uint8 internal constant GROUP_BITS = 4;
    /// @dev The first seat of those who hold no slot. INVARIANT: above the seats of all slots (Notary).
    uint256 internal constant LATER = 16;
    /// @dev Members of a group in its own word, in each further word, and the bits of each.
    uint256 internal constant FIRST_MEMBERS = 3;
    uint256 internal constant MORE_MEMBERS = 10;
    uint256 internal constant MEMBER_BITS = 24;

    mapping(uint256 jobId => KeptJob) internal _jobs;
    mapping(uint256 jobId => mapping(uint256 number => Seat)) internal _seats;
    mapping(uint256 jobId => mapping(uint256 group => KeptGroup)) internal _groups;
    mapping(uint256 jobId => mapping(uint256 group => mapping(uint256 word => uint256))) internal
        _moreMembers;
    /// @dev Of a group that no slot holder founded: its number plus one; zero means none.
    mapping(uint256 jobId => mapping(bytes32 root => uint256)) internal _laterGroups;
    mapping(uint256 jobId => mapping(uint256 group => bytes32 root)) internal _refutationRoots;
}
