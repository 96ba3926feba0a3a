// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {KeptGroup, KeptJob, Seat} from "../interfaces/JobTypes.sol";
import {PostedJobs} from "./PostedJobs.sol";

/// @title SeatLookup
/// @notice Who takes part in a job: finds seats, claims, groups and their members by each other.
abstract contract SeatLookup is PostedJobs {
    // ------------------------------------------------------------------ counts

    function _claimCount(KeptJob storage job) internal view returns (uint32) {
        return uint32(job.reveals) + job.founded + job.followers + job.refutations;
    }

    function _groupCount(KeptJob storage job) internal view returns (uint32) {
        return uint32(job.slotGroups) + job.founded + job.refutations;
    }

    // ------------------------------------------------------------------ seats

    /// @dev Returns the seat of a claim. INVARIANT: slot holders claim in Reveal, all others later: so the slot holders'
    /// claims have the first numbers, and their count does not change once there is another claim.
    function _seatOf(uint256 jobId, KeptJob storage job, uint256 claim) internal view returns (Seat storage) {
        uint256 reveals = job.reveals;
        return _seats[jobId][claim < reveals ? (job.order >> (4 * claim)) & 0xF : LATER + claim - reveals];
    }

    /// @dev Returns the number of an account's slot plus one; zero if it holds none.
    function _slotOf(uint256 jobId, KeptJob storage job, address account) internal view returns (uint256) {
        for (uint256 slot = job.joined; slot != 0; --slot) {
            if (_seats[jobId][slot - 1].owner == account) return slot;
        }
        return 0;
    }

    // ------------------------------------------------------------------ groups

    /// @dev Returns the number of a root's group plus one; zero if nobody has claimed it. NOTE: who holds a slot can
    /// commit to what looks like a root.
    function _groupOf(uint256 jobId, KeptJob storage job, bytes32 root) internal view returns (uint256) {
        if (job.slotGroups != 0) {
            for (uint256 slot = job.joined; slot != 0; --slot) {
                Seat storage seat = _seats[jobId][slot - 1];
                if (seat.mark == root && seat.flags & FOUNDS != 0) return (seat.flags >> GROUP_BITS) + 1;
            }
        }
        return _laterGroups[jobId][root];
    }

    function _groupOf(uint256 jobId, KeptJob storage job, Seat storage seat) internal view returns (uint32) {
        if (seat.flags & REFUTES != 0) return uint32(uint256(seat.mark));
        return uint32(_groupOf(jobId, job, seat.mark) - 1);
    }

    function _rootOf(uint256 jobId, KeptJob storage job, uint32 group) internal view returns (bytes32) {
        if (_groups[jobId][group].refutes != 0) return _refutationRoots[jobId][group];
        // NOTE: the first member is in the group's own word.
        return _seatOf(jobId, job, uint24(_groups[jobId][group].members)).mark;
    }

    /// @dev Returns the root of the group that waits. INVARIANT: one does.
    function _waitingRoot(uint256 jobId, KeptJob storage job) internal view returns (bytes32) {
        return _rootOf(jobId, job, uint32(job.waiting) - 1);
    }

    // ------------------------------------------------------------------ members

    /// @dev Returns the claim at this place among a group's members.
    function _memberAt(uint256 jobId, uint32 group, uint256 place) internal view returns (uint32) {
        if (place < FIRST_MEMBERS) {
            return uint24(_groups[jobId][group].members >> (MEMBER_BITS * place));
        }
        place -= FIRST_MEMBERS;
        uint256 word = _moreMembers[jobId][group][place / MORE_MEMBERS];
        return uint24(word >> (MEMBER_BITS * (place % MORE_MEMBERS)));
    }

    /// @dev Adds a claim behind a group's members. SAFETY: a number does not reach 2^24, because so many claims cost
    /// more than a thousand million stakes; nor do members reach 2^8 (Group).
    function _addMember(uint256 jobId, uint32 number, KeptGroup storage group, uint32 claim) internal {
        uint256 place = group.size++;
        if (place < FIRST_MEMBERS) {
            group.members |= uint72(uint256(claim) << (MEMBER_BITS * place));
            return;
        }
        place -= FIRST_MEMBERS;
        _moreMembers[jobId][number][place / MORE_MEMBERS] |= uint256(claim)
        << (MEMBER_BITS * (place % MORE_MEMBERS));
    }

    /// @dev Returns the seat of the member that speaks for a group.
    function _spokesman(uint256 jobId, KeptJob storage job, uint32 group)
        internal
        view
        returns (Seat storage)
    {
        return _seatOf(jobId, job, _memberAt(jobId, group, _groups[jobId][group].spokesman));
    }
}
