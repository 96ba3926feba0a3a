// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IJobs} from "../interfaces/IJobs.sol";
import {MatchTerms} from "../interfaces/IReferee.sol";
import {
    Group,
    Job,
    JobPhase,
    KeptGroup,
    KeptJob,
    Program,
    Seat,
    StakedClaim,
    Trainer
} from "../interfaces/JobTypes.sol";
import {MatchIds} from "../match/MatchIds.sol";
import {JobStorage} from "./JobStorage.sol";

/// @title StoredJobs
/// @notice Decodes the caller's jobs, claims and groups from its storage (see JobStorage). In a word the first field has
/// the lowest bits.
abstract contract StoredJobs is JobStorage {
    uint256 private constant JOB_WORDS = 8;
    uint256 private constant CHECKPOINTS_WORD = 1;
    uint256 private constant CHECKPOINTS_BIT = 88;

    // ------------------------------------------------------------------ jobs

    /// @dev Returns a job as it is stored.
    function _readKept(uint256 jobId) internal view returns (KeptJob memory kept) {
        bytes32[] memory words = IJobs(msg.sender).wordsAt(bytes32(_jobSlot(jobId)), JOB_WORDS);
        bytes32 word = words[0];
        (kept.referee, kept.slots, kept.rounded) =
        (_account(word), uint8(_field(word, 160, 8)), _field(word, 168, 8) != 0);
        (kept.revealPeriod, kept.challengePeriod) =
        (uint32(_field(word, 176, 32)), uint32(_field(word, 208, 32)));
        word = words[1];
        (kept.stake, kept.checkpoints) = (uint88(_field(word, 0, 88)), uint48(_field(word, 88, 48)));
        (kept.lowFee, kept.highFee) = (uint40(_field(word, 136, 40)), uint40(_field(word, 176, 40)));
        kept.watchPeriod = uint32(_field(word, 216, 32));
        word = words[2];
        (kept.file, kept.verdictPeriod) = (_account(word), uint32(_field(word, 160, 32)));
        (kept.appealPeriod, kept.clock) = (uint32(_field(word, 192, 32)), uint32(_field(word, 224, 32)));
        (kept.client, kept.reward) = (_account(words[3]), uint96(_field(words[3], 160, 96)));
        word = words[4];
        kept.commitEnd = uint40(_field(word, 0, 40));
        kept.revealEnd = uint40(_field(word, 40, 40));
        kept.challengeEnd = uint40(_field(word, 80, 40));
        kept.reclaimEnd = uint40(_field(word, 120, 40));
        kept.reopened = uint40(_field(word, 160, 40));
        kept.ended = JobPhase(_field(word, 200, 8));
        kept.threshold = uint8(_field(word, 208, 8));
        kept.joined = uint8(_field(word, 216, 8));
        kept.commitments = uint8(_field(word, 224, 8));
        kept.reveals = uint8(_field(word, 232, 8));
        word = words[5];
        kept.posted = uint40(_field(word, 0, 40));
        kept.openMatches = uint24(_field(word, 40, 24));
        kept.waiting = uint24(_field(word, 64, 24));
        kept.founded = uint24(_field(word, 88, 24));
        kept.followers = uint24(_field(word, 112, 24));
        kept.refutations = uint24(_field(word, 136, 24));
        kept.slotGroups = uint8(_field(word, 160, 8));
        kept.order = uint64(_field(word, 168, 64));
        (kept.logs, kept.finder) = (words[6], _account(words[7]));
    }

    /// @dev Returns a job without its terms.
    function _readJob(uint256 jobId, KeptJob memory kept) internal view returns (Job memory job) {
        (job.client, job.posted, job.reward) = (kept.client, kept.posted, kept.reward);
        (job.commitEnd, job.revealEnd, job.challengeEnd) = (kept.commitEnd, kept.revealEnd, kept.challengeEnd);
        (job.ended, job.commitments, job.reveals) = (kept.ended, kept.commitments, kept.reveals);
        (job.reclaimEnd, job.openMatches, job.waiting) = (kept.reclaimEnd, kept.openMatches, kept.waiting);
        (job.founded, job.followers, job.reopened) = (kept.founded, kept.followers, kept.reopened);
        (job.logs, job.finder) = (kept.logs, kept.finder);
        job.acceptedRoot = IJobs(msg.sender).acceptedRoot(jobId);
        (job.claims, job.groups) = (_claimCount(kept), _groupCount(kept));
        for (uint256 slot = 0; slot < kept.joined; ++slot) {
            Seat memory seat = _seat(jobId, slot);
            if (seat.flags & CLAIMS == 0) job.unrevealed += seat.stake;
        }
    }

    /// @dev Returns the number of leaves of a run tree of the job at the first stride.
    function _readCheckpoints(uint256 jobId) internal view returns (uint64) {
        return uint64(_field(_word(_jobSlot(jobId) + CHECKPOINTS_WORD), CHECKPOINTS_BIT, 48));
    }

    function _readTrainers(uint256 jobId, KeptJob memory kept) internal view returns (Trainer[] memory list) {
        list = new Trainer[](kept.joined);
        for (uint256 slot = 0; slot < list.length; ++slot) {
            Seat memory seat = _seat(jobId, slot);
            bool revealed = seat.flags & CLAIMS != 0;
            list[slot] = Trainer(seat.owner, revealed, seat.stake, revealed ? bytes32(0) : seat.mark);
        }
    }

    // ------------------------------------------------------------------ claims and groups

    function _readClaims(uint256 jobId, KeptJob memory kept, uint256 from, uint256 most)
        internal
        view
        returns (StakedClaim[] memory list)
    {
        list = new StakedClaim[](_length(_claimCount(kept), from, most));
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 number = from + i;
            Seat memory seat = _claim(jobId, kept, number);
            uint256 group = seat.flags & REFUTES != 0 ? uint256(seat.mark) : _groupOf(jobId, kept, seat.mark);
            list[i] = StakedClaim({
                owner: seat.owner,
                stake: seat.stake,
                group: uint32(group),
                slot: number < kept.reveals,
                lost: _isLost(jobId, group, number),
                collected: seat.flags & COLLECTED != 0
            });
        }
    }

    /// @dev With the program a group's match is found, too.
    function _readGroups(
        uint256 jobId,
        KeptJob memory kept,
        Program memory program,
        uint256 from,
        uint256 most
    ) internal view returns (Group[] memory list) {
        list = new Group[](_length(_groupCount(kept), from, most));
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 number = from + i;
            KeptGroup memory group = _group(jobId, number);
            Group memory shown = list[i];
            shown.root = _rootOf(jobId, kept, number, group);
            (shown.spokesman, shown.slots, shown.deaths) = (group.spokesman, group.slots, group.deaths);
            (shown.until, shown.refutableUntil) = (group.until, group.refutableUntil);
            shown.refutes = group.refutes;
            shown.members = new uint32[](group.size);
            for (uint256 place = 0; place < group.size; ++place) {
                uint256 claim = _member(jobId, number, group, place);
                shown.members[place] = uint32(claim);
                if (place >= group.spokesman) shown.atRisk += _claim(jobId, kept, claim).stake;
            }
            if (group.opponent != 0) shown.matchId = _matchOf(jobId, kept, program, number, group);
        }
    }

    /// @dev Returns the id of the match that a group is in.
    function _matchOf(
        uint256 jobId,
        KeptJob memory kept,
        Program memory program,
        uint256 number,
        KeptGroup memory group
    ) private view returns (uint256) {
        MatchTerms memory matchTerms;
        uint256 other = group.opponent - 1;
        uint256[2] memory groups = group.second ? [other, number] : [number, other];
        for (uint256 side = 0; side < 2; ++side) {
            KeptGroup memory playing = _group(jobId, groups[side]);
            matchTerms.roots[side] = _rootOf(jobId, kept, groups[side], playing);
            uint256 spokesman = _member(jobId, groups[side], playing, playing.spokesman);
            matchTerms.players[side] = _claim(jobId, kept, spokesman).owner;
        }
        (matchTerms.clock, matchTerms.program) = (kept.clock, program);
        matchTerms.number = (groups[0] << MEMBER_BITS) | groups[1];
        return MatchIds.idOf(msg.sender, jobId, matchTerms);
    }

    function _claimCount(KeptJob memory kept) private pure returns (uint32) {
        return uint32(kept.reveals) + kept.founded + kept.followers + kept.refutations;
    }

    function _groupCount(KeptJob memory kept) private pure returns (uint32) {
        return uint32(kept.slotGroups) + kept.founded + kept.refutations;
    }

    function _claim(uint256 jobId, KeptJob memory kept, uint256 number) private view returns (Seat memory) {
        uint256 reveals = kept.reveals;
        return _seat(jobId, number < reveals ? (kept.order >> (4 * number)) & 0xF : LATER + number - reveals);
    }

    /// @dev Returns the number of a claimed root's group.
    function _groupOf(uint256 jobId, KeptJob memory kept, bytes32 root) private view returns (uint256) {
        for (uint256 slot = 0; slot < kept.joined; ++slot) {
            Seat memory seat = _seat(jobId, slot);
            if (seat.mark == root && seat.flags & FOUNDS != 0) return seat.flags >> GROUP_BITS;
        }
        return uint256(_word(_entry(_laterGroupsSlot(jobId), root))) - 1;
    }

    function _rootOf(uint256 jobId, KeptJob memory kept, uint256 number, KeptGroup memory group)
        private
        view
        returns (bytes32)
    {
        if (group.refutes != 0) return _word(_entry(_refutationRootsSlot(jobId), bytes32(number)));
        return _claim(jobId, kept, _member(jobId, number, group, 0)).mark;
    }

    function _isLost(uint256 jobId, uint256 number, uint256 claim) private view returns (bool) {
        KeptGroup memory group = _group(jobId, number);
        for (uint256 place = 0; place < group.spokesman; ++place) {
            if (_member(jobId, number, group, place) == claim) return true;
        }
        return false;
    }

    function _member(uint256 jobId, uint256 number, KeptGroup memory group, uint256 place)
        private
        view
        returns (uint256)
    {
        if (place < FIRST_MEMBERS) return uint24(group.members >> (MEMBER_BITS * place));
        place -= FIRST_MEMBERS;
        mapping(uint256 word => uint256) storage more = _moreMembers[jobId][number];
        uint256 slot;
        assembly ("memory-safe") {
            slot := more.slot
        }
        bytes32 word = _word(_entry(slot, bytes32(place / MORE_MEMBERS)));
        return _field(word, MEMBER_BITS * (place % MORE_MEMBERS), MEMBER_BITS);
    }

    // ------------------------------------------------------------------ words

    function _seat(uint256 jobId, uint256 number) private view returns (Seat memory seat) {
        Seat storage kept = _seats[jobId][number];
        uint256 slot;
        assembly ("memory-safe") {
            slot := kept.slot
        }
        bytes32[] memory words = IJobs(msg.sender).wordsAt(bytes32(slot), 2);
        (seat.owner, seat.mark) = (_account(words[0]), words[1]);
        seat.stake = uint88(_field(words[0], 160, 88));
        seat.flags = uint8(_field(words[0], 248, 8));
    }

    function _group(uint256 jobId, uint256 number) private view returns (KeptGroup memory group) {
        KeptGroup storage kept = _groups[jobId][number];
        uint256 slot;
        assembly ("memory-safe") {
            slot := kept.slot
        }
        bytes32 word = _word(slot);
        group.spokesman = uint8(_field(word, 0, 8));
        group.size = uint8(_field(word, 8, 8));
        group.slots = uint8(_field(word, 16, 8));
        group.deaths = uint16(_field(word, 24, 16));
        group.until = uint40(_field(word, 40, 40));
        group.refutableUntil = uint40(_field(word, 80, 40));
        group.refutes = uint24(_field(word, 120, 24));
        group.opponent = uint24(_field(word, 144, 24));
        group.second = _field(word, 168, 8) != 0;
        group.members = uint72(_field(word, 176, 72));
    }

    function _jobSlot(uint256 jobId) private view returns (uint256 slot) {
        KeptJob storage kept = _jobs[jobId];
        assembly ("memory-safe") {
            slot := kept.slot
        }
    }

    function _laterGroupsSlot(uint256 jobId) private view returns (uint256 slot) {
        mapping(bytes32 root => uint256) storage kept = _laterGroups[jobId];
        assembly ("memory-safe") {
            slot := kept.slot
        }
    }

    function _refutationRootsSlot(uint256 jobId) private view returns (uint256 slot) {
        mapping(uint256 group => bytes32) storage kept = _refutationRoots[jobId];
        assembly ("memory-safe") {
            slot := kept.slot
        }
    }

    /// @dev Returns the slot of a mapping's entry.
    function _entry(uint256 slot, bytes32 key) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(key, slot)));
    }

    function _word(uint256 slot) private view returns (bytes32) {
        return IJobs(msg.sender).wordsAt(bytes32(slot), 1)[0];
    }

    /// @dev Returns how many of `count` are in a page from `from` on.
    function _length(uint256 count, uint256 from, uint256 most) private pure returns (uint256) {
        uint256 left = from < count ? count - from : 0;
        return left < most ? left : most;
    }

    function _account(bytes32 word) private pure returns (address) {
        return address(uint160(uint256(word)));
    }

    function _field(bytes32 word, uint256 offset, uint256 bits) private pure returns (uint256) {
        return (uint256(word) >> offset) & ((1 << bits) - 1);
    }
}
