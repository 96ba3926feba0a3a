// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Timed} from "../Timed.sol";
import {ChessClock} from "../clock/ChessClock.sol";
import {BOTH, NOBODY, SIDE0, SIDE1, Sides} from "../clock/Sides.sol";
import {Encodings} from "../commit/Encodings.sol";
import {
    Dispute,
    ICourt,
    ITrialClient,
    Stage,
    Trial,
    TrialPosition,
    TrialTerms
} from "../interfaces/ICourt.sol";

/// @title CourtBase
/// @notice The trials, whose move it is, how a move begins, and how a trial ends.
///
///     stage                  owes a move
///     Outputs, Walk, Leaf    who has not posted; both, if both have
///     Post                   side 0
///     Answer                 side 1
///     Step                   both
///
/// INVARIANT: time is conserved. `_begin` is the only writer of clocks, and it only subtracts.
abstract contract CourtBase is ICourt, Timed {
    // ------------------------------------------------------------------ storage

    mapping(uint256 trialId => Trial) internal _trials;

    // ------------------------------------------------------------------ guards

    /// @dev Every move but `timeout` begins here: right stage, nobody late, time charged, and the position as stored.
    function _begin(TrialTerms calldata trialTerms, TrialPosition calldata position, Stage want)
        internal
        returns (Trial storage t, uint256 trialId)
    {
        trialId = uint256(Encodings.hash(trialTerms));
        t = _trials[trialId];
        if (t.stage != want) revert WrongStage(trialId, t.stage, want);
        uint256 time = _time();
        Sides sides = _late(t, time);
        if (sides != NOBODY) revert TooLate(trialId, sides);
        bytes32 have = Encodings.hash(position);
        if (have != t.position) revert AnotherHash(have, t.position);
        uint256 elapsed = time - t.tick;
        if (elapsed == 0) return (t, trialId);
        (t.clock0, t.clock1) = ChessClock.charged(_owing(t), t.clock0, t.clock1, elapsed);
        t.tick = uint40(time);
    }

    /// @dev A side posts its half, once at each position.
    function _show(Trial storage t, uint256 trialId, uint8 side) internal {
        if (side > 1) revert NoSuchSide(side);
        if (t.posted & (1 << side) != 0) revert AlreadyShown(trialId, side);
        t.posted |= uint8(1 << side);
    }

    /// @dev Stores the new position's hash.
    function _keep(Trial storage t, TrialPosition memory position) internal {
        t.position = Encodings.encoded(position);
    }

    /// @dev Reverts unless the data has the stored hash.
    function _checkHash(bytes calldata data, bytes32 want) internal pure {
        bytes32 have = keccak256(data);
        if (have != want) revert AnotherHash(have, want);
    }

    function _checkDispute(TrialTerms calldata trialTerms, Dispute calldata dispute) internal pure {
        bytes32 have = Encodings.hash(dispute);
        if (have != trialTerms.dispute) revert NotTheDispute(have, trialTerms.dispute);
    }

    /// @dev SAFETY: what a side says of states is bound by no hash, so only the side itself may say it.
    function _checkPlayer(TrialTerms calldata trialTerms, uint8 side) internal view {
        if (msg.sender != trialTerms.players[side]) revert NotPlayer(msg.sender, trialTerms.players[side]);
    }

    // ------------------------------------------------------------------ end

    /// @dev SAFETY: the stage is Done before the call, and the callee can open new trials but not touch this one.
    function _decide(
        Trial storage t,
        TrialTerms calldata trialTerms,
        uint256 trialId,
        uint8 losers,
        bool late
    ) internal {
        t.stage = Stage.Done;
        t.losers = losers;
        emit TrialDecided(trialId, losers);
        ITrialClient(trialTerms.client).onTrialDecided(trialTerms.id, losers, late);
    }

    // ------------------------------------------------------------------ clocks

    /// @dev The sides that owe a move.
    function _owing(Trial storage t) internal view returns (Sides) {
        Stage stage = t.stage;
        if (stage == Stage.Outputs || stage == Stage.Walk || stage == Stage.Leaf) {
            return ChessClock.halves(t.posted);
        }
        if (stage == Stage.Post) return SIDE0;
        if (stage == Stage.Answer) return SIDE1;
        return stage == Stage.Step ? BOTH : NOBODY;
    }

    /// @dev The sides that are late at that time.
    function _late(Trial storage t, uint256 time) internal view returns (Sides) {
        return ChessClock.late(_owing(t), t.tick, t.clock0, t.clock1, time);
    }
}
