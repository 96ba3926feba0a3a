// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Group, KeptClaim, KeptJob, Trainer} from "../interfaces/JobTypes.sol";

/// @title Kept
/// @notice The storage of Jobs that views show in full. The Notary has the same layout, by which it finds their words,
/// and stores nothing.
/// @dev INVARIANT: both contracts inherit this one first, so these are the first slots of both.
abstract contract Kept {
    // ------------------------------------------------------------------ storage

    mapping(uint256 jobId => KeptJob) internal _jobs;
    mapping(uint256 jobId => Trainer[]) internal _trainers;
    mapping(uint256 jobId => KeptClaim[]) internal _claims;
    mapping(uint256 jobId => Group[]) internal _groups;
}
