// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../commit/Modes.sol";
import {IDemands} from "../interfaces/IDemands.sol";
import {Group, Job, JobPhase} from "../interfaces/IJobs.sol";
import {Pairing} from "./Pairing.sol";

/// @title Withheld
/// @notice What becomes of a job in which something was demanded, and of claims whose data nobody has published.
abstract contract Withheld is Pairing {
    // ------------------------------------------------------------------ storage

    /// @notice How often a demand may make way for another and for a challenge after that.
    uint64 private constant ROUNDS = 4;
    /// @notice Twice the seconds that the longest list of open demands adds to the time for an answer: whoever has to ask twice for
    /// logs, with the lists filled by others, has a challenge period left.
    uint64 private constant LISTS = 2 * 512 * 60;

    IDemands public immutable DEMANDS;

    // ------------------------------------------------------------------ constructor

    constructor(IDemands demands) {
        DEMANDS = demands;
    }

    // ------------------------------------------------------------------ guards

    modifier onlyDemands() {
        _checkDemandsCall();
        _;
    }

    // ------------------------------------------------------------------ moves

    function extend(uint256 jobId, uint64 first, uint64 until)
        external
        onlyDemands
        during(jobId, JobPhase.Challenge)
    {
        Job storage job = _jobs[jobId];
        // SAFETY: a trainer who has revealed nothing could have the job made void, and save its stake.
        if (job.reveals == 0 && Modes.rounded(job.terms.program.mode)) revert LogsNotRevealed(jobId);
        uint64 period = job.terms.challengePeriod;
        uint64 extended = until + period;
        uint64 limit = first + ROUNDS * (job.terms.rules.verdictPeriod + period) + LISTS;
        if (extended > limit) extended = limit;
        if (extended > job.challengeEnd) _setChallenge(jobId, job, extended);
    }

    function forfeit(uint256 jobId, bytes32 root, bool logs, address finder)
        external
        onlyDemands
        nonReentrant
    {
        Job storage job = _jobs[jobId];
        // NOTE: the logs are the one trainer's.
        uint256 number = logs
            ? _claims[jobId][_claimOf[jobId][_trainers[jobId][0].owner] - 1].group
            : _groupOf[jobId][root] - 1;
        Group storage group = _groups[jobId][number];
        (uint256 pot, address rival) = (0, address(0));
        if (!logs) {
            if (group.matchId != 0) revert GroupPlays(jobId, root);
            // INVARIANT: a living group that plays no match is the one that waits.
            job.waiting = 0;
            while (group.spokesman < group.members.length) pot += _lose(jobId, job, uint8(number));
        } else if (group.spokesman == 0) {
            // INVARIANT: the trainer's claim is the first of its group, so it speaks for it until it has lost.
            rival = _rival(jobId, uint8(number));
            pot = _lose(jobId, job, uint8(number));
        }
        uint256 prize = pot / PRIZE_DIVISOR;
        _credit(BURNED, pot - prize);
        if (rival != address(0)) {
            // NOTE: a trainer that is about to lose a match could be its own finder, one that is found out its own rival.
            uint256 share = prize / 2;
            _credit(rival, share);
            prize -= share;
        }
        _credit(finder, prize);
        if (logs) _void(jobId, job);
        else _reenter(jobId, job, uint8(number));
    }

    // ------------------------------------------------------------------ views

    function standing(uint256 jobId, bytes32 root) external view returns (uint8 members, bool claimed) {
        claimed = _isClaimed(jobId, root);
        if (claimed) members = uint8(_groups[jobId][_groupOf[jobId][root] - 1].members.length);
    }

    function _checkDemandsCall() private view {
        if (msg.sender != address(DEMANDS)) revert NotDemands(msg.sender);
    }

    /// @dev SAFETY: what is waited for must be answered or lost before anything is accepted.
    function _checkDemands(uint256 jobId, Job storage job) internal view {
        if (job.waiting == 0) return;
        Group storage group = _groups[jobId][job.waiting - 1];
        uint256 open = DEMANDS.pending(this, jobId, job.logs, group.root, uint8(group.members.length));
        if (open != 0) revert DemandsOpen(jobId, open);
    }
}
