// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Jobs} from "contracts/Jobs.sol";
import {Group, Job, PAGE, StakedClaim, Trainer} from "contracts/interfaces/IJobs.sol";

/// @title Views
/// @notice The parts of `viewOf`, one at a time; for claims and groups all pages.
library Views {
    function jobOf(Jobs jobs, uint256 jobId) internal view returns (Job memory job) {
        (, job,,,) = jobs.viewOf(jobId);
    }

    function trainersOf(Jobs jobs, uint256 jobId) internal view returns (Trainer[] memory trainers) {
        (,, trainers,,) = jobs.viewOf(jobId);
    }

    function claimsOf(Jobs jobs, uint256 jobId) internal view returns (StakedClaim[] memory claims) {
        Job memory job;
        (, job,, claims,) = jobs.viewOf(jobId);
        if (job.claims <= PAGE) return claims;
        claims = new StakedClaim[](job.claims);
        for (uint256 from = 0; from < claims.length; from += PAGE) {
            StakedClaim[] memory page = jobs.claimsFrom(jobId, from);
            for (uint256 i = 0; i < page.length; ++i) {
                claims[from + i] = page[i];
            }
        }
    }

    function groupsOf(Jobs jobs, uint256 jobId) internal view returns (Group[] memory groups) {
        Job memory job;
        (, job,,, groups) = jobs.viewOf(jobId);
        if (job.groups <= PAGE) return groups;
        groups = new Group[](job.groups);
        for (uint256 from = 0; from < groups.length; from += PAGE) {
            Group[] memory page = jobs.groupsFrom(jobId, from);
            for (uint256 i = 0; i < page.length; ++i) {
                groups[from + i] = page[i];
            }
        }
    }
}
