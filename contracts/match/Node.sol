// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Calls} from "../commit/Calls.sol";
import {Descents} from "../commit/Descents.sol";
import {Records} from "../commit/Records.sol";
import {IPanel} from "../interfaces/IPanel.sol";
import {
    Evidence,
    Exhibit,
    LogProof,
    Match,
    MatchTerms,
    Phase,
    Position,
    Reason,
    Record
} from "../interfaces/IReferee.sol";
import {MatchBase} from "./MatchBase.sol";

/// @title Node
/// @notice The moves at the disputed node. The Judge, called with the arguments of a move, decides what follows from
/// the evidence: structure first, then inputs, then log; then the panel hears the operator.
abstract contract Node is MatchBase {
    // ------------------------------------------------------------------ moves

    function openRecord(uint256 matchId, Position calldata here, uint8 side, Record calldata record)
        external
    {
        Match storage m = _begin(matchId, here, Phase.Open);
        _post(m, matchId, side);
        bytes32 have = Records.hash(record);
        if (have != here.node[side]) revert Descents.WrongNode(side, have, here.node[side]);

        emit RecordOpened(matchId, side, record);
    }

    function judgeStructure(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata
    ) external {
        _conclude(matchId, matchTerms, here);
    }

    function judgeInput(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata,
        Evidence calldata
    ) external {
        _conclude(matchId, matchTerms, here);
    }

    function judgeLog(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Exhibit calldata,
        LogProof calldata
    ) external {
        _conclude(matchId, matchTerms, here);
    }

    function submit(uint256 matchId, MatchTerms calldata matchTerms, Position calldata here, Exhibit calldata)
        external
    {
        Match storage m = _begin(matchId, matchTerms, here, Phase.Open);
        bytes memory filed = Calls.ask(address(JUDGE), msg.sig);

        m.phase = Phase.Hearing;
        m.posted = 0;
        // NOTE: the Judge returns the arguments of `hear`, encoded.
        Calls.tell(address(PANEL), IPanel.hear.selector, filed);
    }

    function onHearingDecided(uint256 matchId, uint8 losers, Reason reason, address[] calldata deciders)
        external
    {
        if (msg.sender != address(PANEL)) revert NotPanel(msg.sender);
        // INVARIANT: the panel calls this once for each match that was submitted. NOTE: a panel that did not could end
        // no match that is played, and none twice.
        Match storage m = _matches[matchId];
        if (m.phase != Phase.Hearing) revert WrongPhase(matchId, m.phase, Phase.Hearing);
        _decide(m, matchId, losers, reason, deciders);
    }

    /// @dev Ends the match as the Judge decides.
    function _conclude(uint256 matchId, MatchTerms calldata matchTerms, Position calldata here) private {
        Match storage m = _begin(matchId, matchTerms, here, Phase.Open);
        (uint8 losers, Reason reason) = abi.decode(Calls.ask(address(JUDGE), msg.sig), (uint8, Reason));
        _decide(m, matchId, losers, reason);
    }
}
