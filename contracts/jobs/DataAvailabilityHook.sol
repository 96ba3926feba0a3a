// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {IDataAvailability} from "../interfaces/IDataAvailability.sol";
import {JobPhase, KeptGroup, KeptJob} from "../interfaces/JobTypes.sol";
import {Refuting} from "./Refuting.sol";

/// @title DataAvailabilityHook
/// @notice The effects of data requests on a job: a longer challenge phase, and loss where data is withheld.
abstract contract DataAvailabilityHook is Refuting {
    // ------------------------------------------------------------------ storage

    /// @notice Requests extend the challenge phase by at most this many verdict and challenge periods.
    uint64 private constant ROUNDS = 4;
    /// @notice Twice the seconds that the longest list of open requests adds to the time for an answer: a party that
    /// must ask twice for logs, each time behind a list that others have filled, has a challenge period left.
    uint64 private constant LISTS = 2 * 512 * 60;

    IDataAvailability public immutable DATA_AVAILABILITY;

    // ------------------------------------------------------------------ constructor

    constructor(IDataAvailability dataAvailability) {
        DATA_AVAILABILITY = dataAvailability;
    }

    // ------------------------------------------------------------------ guards

    modifier onlyDataAvailability() {
        _checkCaller();
        _;
    }

    // ------------------------------------------------------------------ moves

    function extend(uint256 jobId, bytes32 root, uint64 start, uint64 until) external onlyDataAvailability {
        KeptJob storage job = _jobs[jobId];
        if (start == 0 && phaseOf(jobId) == JobPhase.Closing) {
            // SAFETY: otherwise a root that is claimed in the last second, or claimed again after its data was
            // withheld, would be accepted without any request. NOTE: the end waits for open requests.
            uint64 last = _groups[jobId][_groupOf(jobId, job, root) - 1].until;
            if (_time() < last) return;
        }
        _checkPhase(jobId, JobPhase.Challenge);
        // SAFETY: otherwise a trainer that has revealed nothing could have the job made void, and save its stake.
        if (job.reveals == 0) revert NothingRevealed(jobId);
        uint64 period = job.challengePeriod;
        uint64 extended = until + period;
        uint64 from = job.reopened == 0 ? job.revealEnd + period : job.reopened;
        if (start > from) from = start;
        uint64 limit = from + ROUNDS * (job.verdictPeriod + period) + LISTS;
        if (extended > limit) extended = limit;
        // NOTE: where logs are withheld nothing is accepted, so nobody needs time to challenge it; and a request that
        // nobody answers costs its requester nothing.
        if (extended > job.challengeEnd && job.finder == address(0)) {
            _setChallenge(jobId, job, uint40(extended));
        }
    }

    function forfeit(uint256 jobId, bytes32 root, bool logs, address finder)
        external
        onlyDataAvailability
        nonReentrant
    {
        KeptJob storage job = _jobs[jobId];
        if (logs) return _withhold(jobId, job, finder);
        uint32 number = uint32(_groupOf(jobId, job, root) - 1);
        KeptGroup storage group = _groups[jobId][number];
        if (group.opponent != 0) revert GroupPlays(jobId, root);
        // INVARIANT: a living group without a match is the one that waits; where logs are withheld no group waits.
        job.waiting = 0;
        uint256 pot = 0;
        for (uint256 place = group.spokesman; place < group.size; ++place) {
            pot += _seatOf(jobId, job, _memberAt(jobId, number, place)).stake;
        }
        group.spokesman = group.size;
        ++group.deaths;
        _reward(finder, pot);
        _reenter(jobId, job, number);
    }

    /// @dev Records that the one trainer has withheld the logs. SAFETY: its running match continues, because an opponent
    /// that shows it wrong there gets the prize; but it enters no other match, so it cannot delay its loss by playing
    /// itself.
    function _withhold(uint256 jobId, KeptJob storage job, address finder) private {
        if (job.finder != address(0)) return;
        job.finder = finder;
        emit LogsWithheld(jobId, finder);
        // NOTE: no group plays any more, whichever one waited.
        job.waiting = 0;
        if (_groups[jobId][TRAINERS_GROUP].opponent == 0) _condemn(jobId, job);
    }

    // ------------------------------------------------------------------ views

    function standing(uint256 jobId, bytes32 root) external view returns (uint32 life, bool claimed) {
        claimed = _isClaimed(jobId, root);
        if (claimed) life = uint32(_groups[jobId][_groupOf(jobId, _jobs[jobId], root) - 1].deaths) + 1;
    }

    function _checkCaller() private view {
        if (msg.sender != address(DATA_AVAILABILITY)) revert NotDataAvailability(msg.sender);
    }

    /// @dev Reverts while requests about the logs or the waiting root are open. SAFETY: requested data must be
    /// published or lost before anything is accepted. NOTE: where logs are withheld no group waits.
    function _checkRequests(uint256 jobId, KeptJob storage job) internal view {
        if (job.waiting == 0) return;
        uint32 number = uint32(job.waiting) - 1;
        uint32 life = uint32(_groups[jobId][number].deaths) + 1;
        bytes32 root = _rootOf(jobId, job, number);
        uint256 open = DATA_AVAILABILITY.pending(this, jobId, job.logs, root, life);
        if (open != 0) revert RequestsOpen(jobId, open);
    }
}
