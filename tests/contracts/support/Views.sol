// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Jobs} from "contracts/Jobs.sol";
import {Group, Job, StakedClaim, Trainer} from "contracts/interfaces/IJobs.sol";

/// @title Views
/// @notice The parts of `viewOf`, one at a time.
library Views {
    function jobOf(Jobs jobs, uint256 jobId) internal view returns (Job memory job) {
        (, job,,,) = jobs.viewOf(jobId);
    }

    function trainersOf(Jobs jobs, uint256 jobId) internal view returns (Trainer[] memory trainers) {
        (,, trainers,,) = jobs.viewOf(jobId);
    }

    function claimsOf(Jobs jobs, uint256 jobId) internal view returns (StakedClaim[] memory claims) {
        (,,, claims,) = jobs.viewOf(jobId);
    }

    function groupsOf(Jobs jobs, uint256 jobId) internal view returns (Group[] memory groups) {
        (,,,, groups) = jobs.viewOf(jobId);
    }
}
