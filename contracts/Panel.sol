// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Dispute, ICourt} from "./interfaces/ICourt.sol";
import {Hearing, HearingPhase, Submission} from "./interfaces/IPanel.sol";
import {IVerifierRegistry} from "./interfaces/IVerifierRegistry.sol";
import {Rules} from "./interfaces/JobTypes.sol";
import {Appeals} from "./panel/Appeals.sol";
import {Hearings} from "./panel/Hearings.sol";
import {KeptHearing} from "./panel/KeptHearings.sol";

/// @title Panel
/// @notice See IPanel. The moves are in `panel/`: Votes, and Appeals, which also receives the Court's decisions.
contract Panel is Appeals {
    // ------------------------------------------------------------------ constructor

    constructor(ICourt court, IVerifierRegistry registry) Hearings(court, registry) {}

    /// @dev Receives the bonds that the panel takes.
    receive() external payable {
        if (msg.sender != address(REGISTRY)) revert WrongBond(msg.value, 0);
    }

    // ------------------------------------------------------------------ moves

    function hear(Submission calldata submission, Dispute calldata dispute) external nonReentrant {
        // NOTE: the referee ensures that the submission contains the dispute's hash: the match is its own.
        uint256 hearingId = hearingOf(msg.sender, submission.matchId);
        KeptHearing storage h = _hearings[hearingId];
        if (h.phase != HearingPhase.None) revert AlreadyHeard(hearingId);
        (Rules memory rules,) = _rules(submission);

        h.referee = msg.sender;
        h.matchId = submission.matchId;
        bool court = rules.threshold == 0;
        h.phase = court ? HearingPhase.Trial : HearingPhase.Voting;
        if (!court) {
            h.until = uint40(_time()) + rules.verdictPeriod;
            h.file = keccak256(abi.encode(submission));
        }
        emit Submitted(hearingId, msg.sender, submission.matchId, h.until, submission, dispute);
        if (court) _try(h, hearingId, rules.clock, submission, dispute);
    }

    // ------------------------------------------------------------------ views

    function getHearing(uint256 hearingId) external view returns (Hearing memory) {
        KeptHearing storage h = _hearings[hearingId];
        return Hearing({
            referee: h.referee,
            until: h.until,
            phase: h.phase,
            trials: h.trials,
            side: h.side,
            losers: h.losers,
            matchId: h.matchId,
            file: h.file,
            verdict: _verdict(h, hearingId),
            players: [h.player0, h.player1],
            bond: h.bond,
            appealPeriod: h.appealPeriod,
            appellant: h.appellant,
            defendant: h.defendant
        });
    }

    function hearingOf(address referee, uint256 matchId) public pure returns (uint256) {
        return uint256(keccak256(abi.encode(referee, matchId))) & ~uint256(0xFF);
    }
}
