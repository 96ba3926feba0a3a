// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Timed} from "../Timed.sol";
import {NOBODY, Sides} from "../clock/Sides.sol";
import {Encodings} from "../commit/Encodings.sol";
import {IJobs} from "../interfaces/IJobs.sol";
import {IJudge} from "../interfaces/IJudge.sol";
import {IPanel} from "../interfaces/IPanel.sol";
import {IReferee, Match, MatchTerms, Phase, Position, Reason} from "../interfaces/IReferee.sol";
import {Clock} from "./Clock.sol";
import {MatchIds} from "./MatchIds.sol";

/// @title MatchBase
/// @notice The matches, how a move begins, and how a match ends.
abstract contract MatchBase is IReferee, Timed {
    // ------------------------------------------------------------------ storage

    IJudge public immutable JUDGE;
    IPanel public immutable PANEL;

    mapping(uint256 matchId => Match) internal _matches;

    // ------------------------------------------------------------------ constructor

    constructor(IJudge judge, IPanel panel) Timed(panel.TIME()) {
        JUDGE = judge;
        PANEL = panel;
    }

    // ------------------------------------------------------------------ guards

    /// @dev Every move but `timeout` begins here: right phase, nobody late, time charged, and the match's position.
    function _begin(uint256 matchId, Position calldata here, Phase want) internal returns (Match storage m) {
        m = _matches[matchId];
        if (m.phase != want) revert WrongPhase(matchId, m.phase, want);
        uint256 time = _time();
        Sides sides = Clock.late(m, time);
        if (sides != NOBODY) revert Late(matchId, sides);
        Clock.charge(m, time);
        bytes32 have = keccak256(abi.encode(here));
        if (have != m.position) revert AnotherPosition(have, m.position);
    }

    /// @dev The same, for a move that goes by what the match is about.
    function _begin(uint256 matchId, MatchTerms calldata matchTerms, Position calldata here, Phase want)
        internal
        returns (Match storage m)
    {
        m = _begin(matchId, here, want);
        uint256 have = MatchIds.join(Encodings.hash(m.jobs, m.jobId, matchTerms), matchTerms.number);
        if (have != matchId) revert AnotherMatch(have, matchId);
    }

    /// @dev A side posts its half, once at each position.
    function _post(Match storage m, uint256 matchId, uint8 side) internal {
        if (side > 1) revert BadSide(side);
        if (m.posted & (1 << side) != 0) revert AlreadyPosted(matchId, side);
        m.posted |= uint8(1 << side);
    }

    // ------------------------------------------------------------------ moves

    /// @dev Ends the match and reports to its Jobs contract, as the last act of a move.
    /// SAFETY: the state is `Done` before the call, and the callee can open new matches but not touch this one.
    function _decide(Match storage m, uint256 matchId, uint8 losers, Reason reason, address[] memory deciders)
        internal
    {
        m.phase = Phase.Done;
        m.losers = losers;
        m.reason = reason;
        emit Decided(matchId, losers, reason);
        IJobs(m.jobs).resolve(m.jobId, matchId, losers, reason, deciders);
    }

    function _decide(Match storage m, uint256 matchId, uint8 losers, Reason reason) internal {
        _decide(m, matchId, losers, reason, new address[](0));
    }
}
