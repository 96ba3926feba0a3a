// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Log} from "../Base.t.sol";
import {Matches} from "../support/Matches.sol";
import {Positions, Step} from "../support/Positions.sol";
import {Fault, Kind, Run, Runs} from "../support/Runs.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {
    Evidence,
    Exhibit,
    IReferee,
    LogProof,
    Match,
    MatchTerms,
    Phase,
    Position,
    Reason,
    Record
} from "contracts/interfaces/IReferee.sol";

/// @notice Match terms and position are stored as hashes: moves show them, events contain them, and nothing else fits.
contract ShownMatchTest is Matches {
    using Positions for Position;
    using Runs for Run;

    Run private _run0 = Runs.right();
    Run private _run1 = Runs.wrong(Fault(Kind.Output, 7, 3, 0, 1));

    // ------------------------------------------------------------------ every field counts

    /// @dev Returns the match terms of a match with one field replaced by another match's, for each field.
    function _matchTerms(uint256 id) private view returns (MatchTerms[] memory list) {
        list = new MatchTerms[](11);
        for (uint256 i = 0; i < list.length; ++i) {
            list[i] = matchTerms(id);
        }
        list[0].roots[0] = keccak256("another");
        list[1].roots[1] = keccak256("another");
        list[2].players[0] = bob;
        list[3].players[1] = alice;
        list[4].clock += 1;
        list[5].number += 1;
        list[6].program.mode = 0x86;
        list[7].program.nodeCount += 1;
        list[8].program.structureRoot = keccak256("another");
        list[9].program.strides[0] = 8;
        list[10].program.steps += 1;
    }

    function _positions(uint256 id) private view returns (Position[] memory list) {
        list = new Position[](6);
        for (uint256 i = 0; i < list.length; ++i) {
            list[i] = here(id);
        }
        list[0].root[0] = keccak256("another");
        list[1].root[1] = keccak256("another");
        list[2].node[0] = keccak256("another");
        list[3].node[1] = keccak256("another");
        list[4].agreed = keccak256("another");
        list[5].node = [here(id).node[1], here(id).node[0]];
    }

    function test_everyMoveThatGoesByTheTermsRefusesAnother() public {
        uint256 id = open(_run0, _run1);
        Step memory step = descent(id, _run0, _run1, 2);
        for (uint256 i = 0; i < 11; ++i) {
            MatchTerms memory wrong = _matchTerms(id)[i];
            refuses(IReferee.AnotherMatch.selector);
            referee.descend(id, wrong, here(id), step.way, step.previous, step.previousPath);
        }
        send(id, step);
        (bytes32 root, bytes32[] memory path) = refinement(id, _run0);
        for (uint256 i = 0; i < 11; ++i) {
            MatchTerms memory wrong = _matchTerms(id)[i];
            vm.prank(wrong.players[0]);
            refuses(IReferee.AnotherMatch.selector);
            referee.refine(id, wrong, here(id), 0, root, path);
        }
        toRecord(id, _run0, _run1);
        Exhibit memory e = exhibit(id, _run0, _run1);
        for (uint256 i = 0; i < 11; ++i) {
            _judgesRefuse(id, _matchTerms(id)[i], here(id), e, IReferee.AnotherMatch.selector);
        }
        submit(id, e);
    }

    function _judgesRefuse(
        uint256 id,
        MatchTerms memory shown,
        Position memory at,
        Exhibit memory e,
        bytes4 selector
    ) private {
        Evidence memory evidence;
        LogProof memory proof;
        refuses(selector);
        referee.judgeStructure(id, shown, at, e);
        refuses(selector);
        referee.judgeInput(id, shown, at, e, evidence);
        refuses(selector);
        referee.judgeLog(id, shown, at, e, proof);
        refuses(selector);
        referee.submit(id, shown, at, e);
    }

    function test_everyMoveRefusesAnotherPosition() public {
        uint256 id = open(_run0, _run1);
        Step memory step = descent(id, _run0, _run1, 2);
        bytes32[] memory children = childrenOf(id, _run0);
        for (uint256 i = 0; i < 6; ++i) {
            Position memory wrong = _positions(id)[i];
            refuses(IReferee.AnotherPosition.selector);
            referee.reveal(id, wrong, 0, children);
            refuses(IReferee.AnotherPosition.selector);
            referee.descend(id, matchTerms(id), wrong, step.way, step.previous, step.previousPath);
        }
        send(id, step);
        (bytes32 root, bytes32[] memory path) = refinement(id, _run0);
        for (uint256 i = 0; i < 6; ++i) {
            Position memory wrong = _positions(id)[i];
            vm.prank(alice);
            refuses(IReferee.AnotherPosition.selector);
            referee.refine(id, matchTerms(id), wrong, 0, root, path);
        }
        toRecord(id, _run0, _run1);
        Exhibit memory e = exhibit(id, _run0, _run1);
        Record memory record = recordOf(id, _run0);
        for (uint256 i = 0; i < 6; ++i) {
            Position memory wrong = _positions(id)[i];
            refuses(IReferee.AnotherPosition.selector);
            referee.openRecord(id, wrong, 0, record);
            _judgesRefuse(id, matchTerms(id), wrong, e, IReferee.AnotherPosition.selector);
        }
        openRecord(id, 0, record);
    }

    function test_whereAMatchWasIsNotWhereItIs() public {
        uint256 id = open(_run0, _run1);
        Position memory before = here(id);
        descend(id, _run0, _run1);
        (bytes32 root, bytes32[] memory path) = refinement(id, _run0);
        bytes32 have = before.hash();
        bytes32 want = here(id).hash();
        vm.expectRevert(abi.encodeWithSelector(IReferee.AnotherPosition.selector, have, want));
        vm.prank(alice);
        referee.refine(id, matchTerms(id), before, 0, root, path);
    }

    // ------------------------------------------------------------------ equal matches

    function test_theMatchTermsOfAnEqualMatchAreAnother() public {
        // The same roots, players, clock and program; the position is the same, too.
        uint256 first = open(_run0, _run1);
        uint256 second = open(_run0, _run1);
        eq(here(first).hash(), here(second).hash(), "the same position");
        Step memory step = descent(first, _run0, _run1, 2);
        vm.expectRevert(abi.encodeWithSelector(IReferee.AnotherMatch.selector, second, first));
        referee.descend(first, matchTerms(second), here(first), step.way, step.previous, step.previousPath);
        bytes32 before = keccak256(abi.encode(referee.getMatch(second)));
        send(first, step);
        eq(keccak256(abi.encode(referee.getMatch(second))), before, "the other match has not moved");
    }

    function test_anIdIsOfOneJobsContractAndOneJob() public {
        uint256 id = open(_run0, _run1);
        MatchTerms memory d = matchTerms(id);
        bytes32 hash = keccak256(abi.encode(address(this), uint256(1), d));
        eq(uint48(id), d.number, "the number is the end of the id");
        eq(id >> 48, uint256(hash) >> 48, "and the hash its beginning");
        uint256 other = referee.open(2, d.roots, d.players, d.clock, d.number, d.program);
        eq(other >> 48, uint256(keccak256(abi.encode(address(this), uint256(2), d))) >> 48, "of another job");
    }

    function test_aMatchIsOpenedOnce() public {
        uint256 id = open(_run0, _run1);
        MatchTerms memory d = matchTerms(id);
        vm.expectRevert(abi.encodeWithSelector(IReferee.MatchExists.selector, id));
        referee.open(1, d.roots, d.players, d.clock, d.number, d.program);
        pass(CLOCK + 1);
        referee.timeout(id);
        vm.expectRevert(abi.encodeWithSelector(IReferee.MatchExists.selector, id));
        referee.open(1, d.roots, d.players, d.clock, d.number, d.program);
    }

    /// @dev The number that a move shows is bound by the hash, in all of its bits.
    function test_aNumberFitsIn48Bits() public {
        bytes32[2] memory roots = [bytes32(uint256(1)), bytes32(uint256(2))];
        uint256 limit = type(uint48).max;
        uint256 id = referee.open(1, roots, [alice, bob], CLOCK, limit, _served);
        eq(uint48(id), limit, "the last one");
        vm.expectRevert(abi.encodeWithSelector(IReferee.MatchNumberTooLarge.selector, limit + 1, limit));
        referee.open(1, roots, [alice, bob], CLOCK, limit + 1, _served);
        id = open(_run0, _run1);
        MatchTerms memory d = matchTerms(id);
        d.number |= id & ~limit;
        vm.expectPartialRevert(IReferee.AnotherMatch.selector);
        referee.descend(
            id, d, here(id), Descent(0, 0, new bytes32[](0), 0, new bytes32[](0)), 0, new bytes32[](0)
        );
    }

    function test_aJobIdFitsIn56Bits() public {
        bytes32[2] memory roots = [bytes32(uint256(1)), bytes32(uint256(2))];
        uint256 limit = type(uint56).max;
        uint256 id = referee.open(limit, roots, [alice, bob], CLOCK, 1, _served);
        eq(referee.getMatch(id).jobId, limit, "the last one");
        vm.expectRevert(abi.encodeWithSelector(IReferee.JobIdTooLarge.selector, limit + 1, limit));
        referee.open(limit + 1, roots, [alice, bob], CLOCK, 1, _served);
    }

    // ------------------------------------------------------------------ events

    /// @dev Returns the position of a match after these events.
    function _follow(Position memory at, Log[] memory logs, uint256 strides)
        private
        view
        returns (Position memory)
    {
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter != address(referee)) continue;
            (bytes32 topic, bytes memory data) = (logs[i].topics[0], logs[i].data);
            if (topic == IReferee.Opened.selector) {
                at = Positions.opened(abi.decode(data, (MatchTerms)));
            } else if (topic == IReferee.Descended.selector) {
                (,, at.node[0], at.node[1]) = abi.decode(data, (uint8, uint64, bytes32, bytes32));
            } else if (topic == IReferee.Refined.selector) {
                (uint8 side,, bytes32 root) = abi.decode(data, (uint8, uint8, bytes32));
                at.root[side] = root;
            } else if (topic == IReferee.Entered.selector) {
                at = _entered(at, data, strides);
            }
        }
        return at;
    }

    function _entered(Position memory at, bytes memory data, uint256 strides)
        private
        pure
        returns (Position memory)
    {
        (Phase phase, uint8 level,,,, bytes32 agreed) =
            abi.decode(data, (Phase, uint8, uint8, uint64, uint64, bytes32));
        at.agreed = agreed;
        if (phase != Phase.Walk) return at;
        // A step's trees are entered from the leaves above them; finer trees are entered by their roots.
        if (level == strides) return Position([at.node[0], at.node[1]], at.node, agreed);
        return Position(at.root, [at.root[0], at.root[1]], agreed);
    }

    function _told(uint256 id, Position memory at, string memory move) private returns (Position memory) {
        at = _follow(at, vm.getRecordedLogs(), matchTerms(id).program.strides.length);
        eq(at.hash(), referee.getMatch(id).position, move);
        return at;
    }

    function test_thePositionIsWhatTheEventsTellAfterEveryMove() public {
        for (uint64 step = 1; step <= Runs.STEPS; ++step) {
            _play(Runs.wrong(Fault(Kind.Output, step, uint32(step % Runs.NODES), 0, 1)));
        }
        _play(Runs.wrong(Fault(Kind.RunPadding, 0, 0, 0, 1)));
        _play(Runs.wrong(Fault(Kind.StepPadding, 8, 0, 0, 1)));
    }

    /// @dev Plays to the end, with everything shown piece by piece.
    function _play(Run memory run1) private {
        vm.recordLogs();
        uint256 id = open(_run0, run1);
        Position memory at;
        at = _told(id, at, "open");
        while (true) {
            Match memory m = referee.getMatch(id);
            if (m.phase == Phase.Walk) {
                reveal(id, 0, _run0);
                at = _told(id, at, "reveal");
                send(id, descent(id, _run0, run1, m.height < 4 ? m.height : 4));
                at = _told(id, at, "descend");
            } else if (m.phase == Phase.Refine) {
                refine(id, 1, run1);
                at = _told(id, at, "refine, first");
                refine(id, 0, _run0);
                at = _told(id, at, "refine, second");
            } else {
                break;
            }
        }
        if (referee.getMatch(id).phase == Phase.Done) return decided(id, 2, Reason.Padding);
        openRecord(id, 0, recordOf(id, _run0));
        at = _told(id, at, "open a record");
        submit(id, exhibit(id, _run0, run1));
        _told(id, at, "submit");
    }

    function test_treesOfOneLeafAreToldToo() public {
        _served.steps = 1;
        _served.nodeCount = 1;
        vm.recordLogs();
        uint256 id = open(keccak256("a"), keccak256("b"));
        Position memory at;
        at = _told(id, at, "one step of one node");
        _served.steps = 3;
        id = open(keccak256("a"), keccak256("b"));
        _told(id, at, "one checkpoint of three steps");
    }
}
