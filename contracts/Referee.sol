// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {NOBODY, SIDE0, SIDE1, Sides} from "./clock/Sides.sol";
import {Calls} from "./commit/Calls.sol";
import {Programs} from "./commit/Programs.sol";
import {IJudge} from "./interfaces/IJudge.sol";
import {IPanel} from "./interfaces/IPanel.sol";
import {Match, MatchTerms, Phase, Reason} from "./interfaces/IReferee.sol";
import {Program} from "./interfaces/JobTypes.sol";
import {Clock} from "./match/Clock.sol";
import {MatchBase} from "./match/MatchBase.sol";
import {MatchIds} from "./match/MatchIds.sol";
import {Node} from "./match/Node.sol";
import {Walk} from "./match/Walk.sol";
import {Multicallable} from "solady/utils/Multicallable.sol";

/// @title Referee
/// @notice See IReferee. The moves are in `match/`: Walk (down the trees) and Node (where the Judge decides).
/// @dev NOTE: no move is payable and none reads `msg.value`, so `multicall` can batch them safely.
contract Referee is Walk, Node, Multicallable {
    // ------------------------------------------------------------------ constructor

    constructor(IJudge judge, IPanel panel) MatchBase(judge, panel) {}

    // ------------------------------------------------------------------ moves

    function open(
        uint256 jobId,
        bytes32[2] calldata roots,
        address[2] calldata players,
        uint32 clock,
        uint256 number,
        Program calldata program
    ) external returns (uint256 matchId) {
        if (roots[0] == roots[1]) revert SameRoots(roots[0]);
        if (jobId > type(uint56).max) revert JobIdTooLarge(jobId, type(uint56).max);
        // NOTE: only this much of a program matters here: the rest is up to the Jobs contract.
        if (program.steps >= Programs.STEP_LIMIT) revert Programs.BadSteps(program.steps);
        Programs.checkKnown(program);

        if (number >= MatchIds.NUMBERS) revert MatchNumberTooLarge(number, MatchIds.NUMBERS - 1);

        MatchTerms memory matchTerms = MatchTerms(roots, players, clock, number, program);
        // SAFETY: the terms tie the id to the same match on every branch of the chain.
        matchId = MatchIds.idOf(msg.sender, jobId, matchTerms);
        Match storage m = _matches[matchId];
        if (m.phase != Phase.None) revert MatchExists(matchId);
        m.jobs = msg.sender;
        m.jobId = uint56(jobId);
        m.tick = uint40(_time());
        (m.clock0, m.clock1) = (clock, clock);
        emit Opened(matchId, msg.sender, jobId, matchTerms);
        _start(m, matchId, roots, program);
    }

    function timeout(uint256 matchId) external {
        Match storage m = _matches[matchId];
        Sides losers = Clock.late(m, _time());
        if (losers == NOBODY) revert NotLate(matchId, deadline(matchId));

        _decide(m, matchId, losers.bits(), Reason.Timeout);
    }

    // ------------------------------------------------------------------ views

    function check(Program calldata) external view returns (bytes32) {
        Calls.relay(address(JUDGE));
    }

    function getMatch(uint256 matchId) external view returns (Match memory) {
        return _matches[matchId];
    }

    function late(uint256 matchId) external view returns (bool side0, bool side1) {
        Sides sides = Clock.late(_matches[matchId], _time());
        return (sides.has(SIDE0), sides.has(SIDE1));
    }

    function deadline(uint256 matchId) public view returns (uint256 instant) {
        instant = Clock.deadline(_matches[matchId]);
    }
}
