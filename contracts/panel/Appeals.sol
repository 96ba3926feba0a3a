// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Records} from "../commit/Records.sol";
import {Dispute, ITrialClient} from "../interfaces/ICourt.sol";
import {HearingPhase, Submission} from "../interfaces/IPanel.sol";
import {Reason, Record} from "../interfaces/IReferee.sol";
import {Verifier} from "../interfaces/IVerifierRegistry.sol";
import {Rules} from "../interfaces/JobTypes.sol";
import {KeptHearing} from "./KeptHearings.sol";
import {Votes} from "./Votes.sol";
import {SafeCastLib} from "solady/utils/SafeCastLib.sol";

/// @title Appeals
/// @notice Trials: in place of a verdict, on appeal from one, and of signers whose verdict was overruled.
abstract contract Appeals is Votes, ITrialClient {
    // ------------------------------------------------------------------ storage

    /// @notice The winner's fraction of lost money. NOTE: at most half, so that nobody profits from losing to itself.
    uint256 private constant PRIZE_DIVISOR = 2;
    uint256 private constant NUMBER = 0xFF;

    // ------------------------------------------------------------------ moves

    function appeal(uint256 hearingId, Submission calldata submission, Dispute calldata dispute)
        external
        payable
        nonReentrant
    {
        KeptHearing storage h = _begin(hearingId, submission, HearingPhase.Ruled);
        _before(h.until);
        _checkDispute(submission, dispute);
        uint8 losers = _others(submission, _verdict(h, hearingId));
        uint8 side = losers & 1 != 0 && msg.sender == submission.players[0] ? 0 : 1;
        if (losers & (1 << side) == 0 || msg.sender != submission.players[side]) {
            revert NothingToAppeal(msg.sender);
        }
        (Rules memory rules, uint256 stake) = _rules(submission);
        if (msg.value < stake) revert WrongBond(msg.value, stake);

        h.phase = HearingPhase.Trial;
        h.appellant = side;
        h.losers = losers;
        (h.player0, h.player1) = (submission.players[0], submission.players[1]);
        h.bond = SafeCastLib.toUint96(stake);
        h.appealPeriod = rules.appealPeriod;
        emit Appealed(hearingId, msg.sender);
        _credit(msg.sender, msg.value - stake);
        _try(h, hearingId, rules.clock, submission, dispute);
    }

    function escalate(uint256 hearingId, Submission calldata submission, Dispute calldata dispute)
        external
        nonReentrant
    {
        KeptHearing storage h = _begin(hearingId, submission, HearingPhase.Voting);
        _after(h.until);
        _checkDispute(submission, dispute);

        h.phase = HearingPhase.Trial;
        (Rules memory rules,) = _rules(submission);
        _try(h, hearingId, rules.clock, submission, dispute);
    }

    function stand(
        uint256 hearingId,
        Submission calldata submission,
        Dispute calldata dispute,
        Record calldata record
    ) external nonReentrant {
        KeptHearing storage h = _begin(hearingId, submission, HearingPhase.Defence);
        _before(h.until);
        _checkDispute(submission, dispute);
        if (!_isSigner(h, hearingId)) revert NotSigner(msg.sender);
        (bytes32 have, bytes32 verdict) = (Records.hash(record), _verdict(h, hearingId));
        if (have != verdict) revert AnotherRecord(have, verdict);
        // SAFETY: a signer that has lost its bond elsewhere could only win in a trial: half of an appeal's bond.
        Verifier memory signer = REGISTRY.getVerifier(msg.sender);
        if (signer.bond == 0 || signer.panel != address(this)) revert NoBond(msg.sender);

        h.phase = HearingPhase.Stand;
        h.defendant = msg.sender;
        // NOTE: the record that the verdict calls right may be neither side's.
        Dispute memory defended = dispute;
        address[2] memory players = submission.players;
        defended.records[1 - h.side] = record;
        players[1 - h.side] = msg.sender;
        emit Stood(hearingId, msg.sender, record);
        (Rules memory rules,) = _rules(submission);
        uint256 trialId = COURT.open(_next(h, hearingId), players, rules.clock, defended);
        emit Tried(hearingId, trialId, players);
    }

    function onTrialDecided(uint256 id, uint8 losers, bool late) external nonReentrant {
        if (msg.sender != address(COURT)) revert NotCourt(msg.sender);
        uint256 hearingId = id & ~NUMBER;
        KeptHearing storage h = _hearings[hearingId];
        if (h.phase == HearingPhase.Stand) return _stood(h, hearingId, losers);
        // INVARIANT: the Court reports each trial once, so the phase is Trial.
        Reason reason = late ? Reason.Timeout : Reason.Operator;
        if (h.losers == NOBODY) {
            _close(h, hearingId);
            return _decideHearing(h, hearingId, losers, reason, new address[](0));
        }
        uint8 cleared = h.losers & ~losers;
        if (cleared == NOBODY) {
            _refund(h, losers);
            _close(h, hearingId);
            return _decideHearing(h, hearingId, losers, reason, _signers(h, hearingId));
        }
        _accuse(h, hearingId, cleared & 1 != 0 ? 0 : 1);
        _decideHearing(h, hearingId, losers, reason, new address[](0));
    }

    function proceed(uint256 hearingId, Submission calldata submission) external nonReentrant {
        HearingPhase phase = _hearings[hearingId].phase;
        if (phase != HearingPhase.Ruled) phase = HearingPhase.Defence;
        KeptHearing storage h = _begin(hearingId, submission, phase);
        _after(h.until);
        if (phase == HearingPhase.Ruled) {
            _close(h, hearingId);
            uint8 losers = _others(submission, _verdict(h, hearingId));
            _decideHearing(h, hearingId, losers, Reason.Operator, _signers(h, hearingId));
        } else {
            address[] memory signers = _signers(h, hearingId);
            for (uint256 i = signers.length; i != 0; --i) {
                _slash(h, hearingId, signers[i - 1]);
            }
            _refund(h, _lost(h));
            _close(h, hearingId);
        }
    }

    // ------------------------------------------------------------------ overruled verdicts

    /// @dev Lets the verdict's signers stand by it. SAFETY: the Court may have decided against a side that was right
    /// but did not play; so no signer loses its bond without the choice to play itself.
    function _accuse(KeptHearing storage h, uint256 hearingId, uint8 side) private {
        h.phase = HearingPhase.Defence;
        h.side = side;
        h.until = uint40(_time()) + h.appealPeriod;
        emit Overruled(hearingId, _player(h, side), h.until);
    }

    function _stood(KeptHearing storage h, uint256 hearingId, uint8 losers) private {
        if (losers & (1 << (1 - h.side)) == 0) {
            emit Cleared(hearingId, h.defendant);
            // SAFETY: the accuser and the appellant (the same or not) were wrong, and the work was the signer's.
            _share(h, h.defendant);
            return _close(h, hearingId);
        }
        _slash(h, hearingId, h.defendant);
        if (_signers(h, hearingId).length > 0) return _accuse(h, hearingId, h.side);
        _refund(h, _lost(h));
        _close(h, hearingId);
    }

    // ------------------------------------------------------------------ money

    /// @dev Returns an appeal's bond to the appellant; if it lost, half goes to the other side, if that one won.
    function _refund(KeptHearing storage h, uint8 losers) private {
        uint8 side = h.appellant;
        if (losers == BOTH) return _share(h, BURNED);
        if (losers & (1 << side) != 0) return _share(h, _player(h, 1 - side));
        uint256 bond = h.bond;
        h.bond = 0;
        _credit(_player(h, side), bond);
    }

    /// @dev Distributes the bond of a lost appeal: half goes to the winner, the rest is burned.
    function _share(KeptHearing storage h, address winner) private {
        uint256 bond = h.bond;
        h.bond = 0;
        uint256 prize = bond / PRIZE_DIVISOR;
        _credit(winner, prize);
        _credit(BURNED, bond - prize);
    }

    /// @dev Takes a signer's bond: half goes to the accuser, the rest is burned.
    /// SAFETY: if another hearing holds the bond, all of it is burned: otherwise a signer that is about to lose it
    /// could be accuser and signer in a hearing of its own, lose it there first, and so keep half.
    function _slash(KeptHearing storage h, uint256 hearingId, address signer) private {
        _strike(h, hearingId, signer);
        (uint256 bond, bool alone) = REGISTRY.take(signer);
        emit Slashed(hearingId, signer, bond);
        uint256 prize = alone ? bond / PRIZE_DIVISOR : 0;
        _credit(_player(h, h.side), prize);
        _credit(BURNED, bond - prize);
    }

    // ------------------------------------------------------------------ views

    function _player(KeptHearing storage h, uint8 side) private view returns (address) {
        return side == 0 ? h.player0 : h.player1;
    }

    /// @dev Returns whether the sender has signed the verdict, and has not lost its bond for it.
    function _isSigner(KeptHearing storage h, uint256 hearingId) private view returns (bool) {
        address[] memory signers = _signers(h, hearingId);
        for (uint256 i = 0; i < signers.length; ++i) {
            if (signers[i] == msg.sender) return true;
        }
        return false;
    }

    /// @dev Returns the loser of the spokesmen's trial, as bits. INVARIANT: the side that is not the accuser.
    function _lost(KeptHearing storage h) private view returns (uint8) {
        return uint8(1 << (1 - h.side));
    }
}
