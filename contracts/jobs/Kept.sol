// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Group, KeptClaim, KeptJob, Trainer} from "../interfaces/JobTypes.sol";

/// @title Kept
/// @notice What Jobs keeps and shows whole. The Notary has the same layout and keeps nothing: it finds by it where Jobs has a word.
/// @dev INVARIANT: both contracts have this first of all they inherit, so these are the first slots of both.
abstract contract Kept {
    // ------------------------------------------------------------------ storage

    mapping(uint256 jobId => KeptJob) internal _jobs;
    mapping(uint256 jobId => Trainer[]) internal _trainers;
    mapping(uint256 jobId => KeptClaim[]) internal _claims;
    mapping(uint256 jobId => Group[]) internal _groups;
}
