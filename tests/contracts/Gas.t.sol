// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "./support/Market.sol";
import {Matches} from "./support/Matches.sol";
import {Step} from "./support/Positions.sol";
import {Runs} from "./support/Runs.sol";
import {Trees} from "./support/Trees.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {Claim, Program, Terms} from "contracts/interfaces/IJobs.sol";
import {Submission} from "contracts/interfaces/IPanel.sol";
import {Evidence, Exhibit, LogProof, Position, Record} from "contracts/interfaces/IReferee.sol";

/// @notice The gas of each move of a match as a transaction, for a program of 4096 nodes and 1000 steps at strides 100,
/// 10 and 1. Trees are spines: one leaf, its siblings, and their root.
/// forge-config: default.isolate = true
contract MatchGasTest is Matches {
    uint32 private constant NODE = 0xABC;
    bytes private constant STRUCTURE = hex"00070301" hex"000000000500" hex"010000000300" hex"000000000700"
        hex"01020000000000000100" hex"0000000000000100";

    function _path(uint256 length) private pure returns (bytes32[] memory path) {
        path = new bytes32[](length);
        for (uint256 i = 0; i < length; ++i) {
            path[i] = keccak256(abi.encode(length, i));
        }
    }

    function _record(uint256 input, uint256 output) private pure returns (Record memory r) {
        r.structure = sha256(abi.encodePacked(uint8(0x03), STRUCTURE));
        r.inputs = new bytes32[](3);
        (r.inputs[0], r.inputs[1], r.inputs[2]) =
        (keccak256("a"), keccak256("b"), keccak256(abi.encode(input)));
        r.outputs = new bytes32[](1);
        r.outputs[0] = keccak256(abi.encode(output));
    }

    /// @dev Opens a match at the top of the step tree of the only step, whose node 0xABC differs.
    function _inStep(Record memory record0, Record memory record1)
        private
        returns (uint256 id, Exhibit memory e)
    {
        bytes32[] memory path = _path(12);
        (_served.nodeCount, _served.slotCount, _served.steps) = (4096, 300, 1);
        (e.record0, e.record1, e.structure, e.structurePath) = (record0, record1, STRUCTURE, path);
        _served.structureRoot = Trees.climb(0x11, record0.structure, NODE, path);
        id = open(
            Trees.climb(0x15, Runs.recordHash(record0), NODE, path),
            Trees.climb(0x15, Runs.recordHash(record1), NODE, path)
        );
    }

    function _atRecord(Record memory record0, Record memory record1)
        private
        returns (uint256 id, Exhibit memory e)
    {
        (id, e) = _inStep(record0, record1);
        bytes32 node0 = Runs.recordHash(record0);
        bytes32 node1 = Runs.recordHash(record1);
        send(id, Step(Descent(NODE, node0, _path(12), node1, _path(12)), 0, new bytes32[](0)));
    }

    function _saved(string memory move) private {
        vm.snapshotGasLastCall("match", move);
    }

    function test_reveal() public {
        bytes32[] memory children = _path(16);
        bytes32 above = Trees.build(0x15, children).levels[4][0];
        bytes32[] memory path = _path(8);
        (_served.nodeCount, _served.steps) = (4096, 1);
        uint256 id = open(Trees.climb(0x15, above, 0, path), Trees.climb(0x15, keccak256("other"), 0, path));
        send(id, Step(Descent(0, above, path, keccak256("other"), path), 0, new bytes32[](0)));
        reveal(id, 0, children);
        _saved("reveal 16 children");
    }

    function test_descendInTheStepTree() public {
        (uint256 id, Exhibit memory e) = _inStep(_record(0, 0), _record(0, 1));
        (bytes32 node0, bytes32 node1) = (Runs.recordHash(e.record0), Runs.recordHash(e.record1));
        bytes32[] memory path = _path(12);
        Descent memory way = Descent(NODE, node0, path, node1, path);
        referee.descend(id, matchTerms(id), here(id), way, 0, new bytes32[](0));
        _saved("descend 12 levels to a record");
    }

    function test_runTree() public {
        _served.nodeCount = 4096;
        _served.steps = 1000;
        (_served.strides[0], _served.strides[1], _served.strides[2]) = (100, 10, 1);
        bytes32[] memory path = _path(4);
        (bytes32 node0, bytes32 node1, bytes32 previous) = (keccak256("0"), keccak256("1"), path[0]);
        uint256 id = open(Trees.climb(0x16, node0, 7, path), Trees.climb(0x16, node1, 7, path));
        bytes32[] memory previousPath = _path(4);
        previousPath[0] = node0;
        {
            Descent memory way = Descent(7, node0, path, node1, path);
            referee.descend(id, matchTerms(id), here(id), way, previous, previousPath);
        }
        _saved("descend 4 levels to a checkpoint");
        // NOTE: computed here, because the gas of the last call is measured.
        Position memory at = Position(matchTerms(id).roots, [node0, node1], previous);
        (bytes32 finer0, bytes32 finer1) =
            (Trees.climb(0x16, node0, 9, path), Trees.climb(0x16, node1, 9, path));
        vm.prank(alice);
        referee.refine(id, matchTerms(id), at, 0, finer0, path);
        _saved("refine, first");
        at.root[0] = finer0;
        vm.prank(bob);
        referee.refine(id, matchTerms(id), at, 1, finer1, path);
        _saved("refine, second");
    }

    function test_openRecord() public {
        (uint256 id, Exhibit memory e) = _atRecord(_record(0, 0), _record(0, 1));
        openRecord(id, 0, e.record0);
        _saved("openRecord");
    }

    function test_judgeStructure() public {
        Record memory bad = _record(0, 0);
        bad.log = keccak256("log");
        (uint256 id, Exhibit memory e) = _atRecord(_record(0, 0), bad);
        judgeStructure(id, e);
        _saved("judgeStructure");
    }

    function test_judgeInput() public {
        // Input 2 is an output of node 7: the siblings of node 0xABC stand for the nodes to its left.
        bytes32[] memory path = _path(12);
        Evidence memory evidence;
        evidence.input = 2;
        evidence.source = _record(8, 8);
        evidence.sourcePath = _path(11);
        bytes32 left = Trees.climb(0x15, Runs.recordHash(evidence.source), 7, evidence.sourcePath);
        path[11] = left;
        (_served.nodeCount, _served.steps) = (4096, 1);
        Exhibit memory e;
        (e.record0, e.record1, e.structure, e.structurePath) =
        (_record(0, 0), _record(1, 0), STRUCTURE, _path(12));
        _served.structureRoot = Trees.climb(0x11, e.record0.structure, NODE, e.structurePath);
        (bytes32 node0, bytes32 node1) = (Runs.recordHash(e.record0), Runs.recordHash(e.record1));
        uint256 id = open(Trees.climb(0x15, node0, NODE, path), Trees.climb(0x15, node1, NODE, path));
        send(id, Step(Descent(NODE, node0, path, node1, path), 0, new bytes32[](0)));

        bytes32[] memory sourcePath = new bytes32[](12);
        for (uint256 i = 0; i < 11; ++i) {
            sourcePath[i] = evidence.sourcePath[i];
        }
        sourcePath[11] = _below(node0, path);
        evidence.sourcePath = sourcePath;
        judgeInput(id, e, evidence);
        _saved("judgeInput from an earlier node");
    }

    /// @dev Returns the right half of the tree.
    function _below(bytes32 node, bytes32[] memory path) private pure returns (bytes32) {
        bytes32[] memory lower = new bytes32[](11);
        for (uint256 i = 0; i < 11; ++i) {
            lower[i] = path[i];
        }
        return Trees.climb(0x15, node, NODE & 0x7FF, lower);
    }

    function test_judgeLog() public {
        round();
        _served.nodeCount = 4096;
        _served.steps = 1000;
        delete _served.strides;
        _served.strides.push(1);
        bytes32[] memory nodes = _path(12);
        bytes32[] memory steps = _path(10);
        Exhibit memory e;
        (e.record0, e.record1, e.structure, e.structurePath) =
        (_record(0, 0), _record(0, 0), STRUCTURE, nodes);
        e.record0.log = keccak256("log");
        _served.structureRoot = Trees.climb(0x11, e.record0.structure, NODE, nodes);
        (bytes32 node0, bytes32 node1) = (Runs.recordHash(e.record0), Runs.recordHash(e.record1));
        (bytes32 step0, bytes32 step1) =
            (Trees.climb(0x15, node0, NODE, nodes), Trees.climb(0x15, node1, NODE, nodes));
        uint256 id = open(Trees.climb(0x16, step0, 7, steps), Trees.climb(0x16, step1, 7, steps));
        bytes32[] memory previousPath = _path(10);
        previousPath[0] = step0;
        send(id, Step(Descent(7, step0, steps, step1, steps), steps[0], previousPath));
        send(id, Step(Descent(NODE, node0, nodes, node1, nodes), 0, new bytes32[](0)));
        LogProof memory proof;
        (proof.log, proof.nodePath, proof.stepPath) = (e.record0.log, nodes, steps);
        proof.stepRoot = Trees.climb(0x17, proof.log, NODE, nodes);
        _logs = Trees.climb(0x18, proof.stepRoot, 7, steps);
        judgeLog(id, e, proof);
        _saved("judgeLog");
    }

    function test_verdict() public {
        (uint256 id, Exhibit memory e) = _atRecord(_record(0, 0), _record(0, 1));
        submit(id, e);
        _saved("submit");
        uint256 hearingId = panel.hearingOf(address(referee), id);
        bytes32 truth = Runs.recordHash(e.record0);
        bytes32 digest = panel.verdictDigest(hearingId, 1, NODE, truth);
        Submission memory s = submission(id, e);
        panel.attest(hearingId, s, truth, signature(keys[0], digest));
        _saved("attest, first");
        panel.attest(hearingId, s, truth, signature(keys[1], digest));
        _saved("attest, verdict");
        pass(VERDICT);
        panel.proceed(hearingId, s);
        _saved("proceed, verdict stands");
    }

    function test_timeout() public {
        (uint256 id,) = _atRecord(_record(0, 0), _record(0, 1));
        pass(CLOCK + 1);
        referee.timeout(id);
        _saved("timeout");
    }
}

/// @notice The gas of each move of a job as a transaction.
/// forge-config: default.isolate = true
contract JobGasTest is Market {
    function _saved(string memory move) private {
        vm.snapshotGasLastCall("jobs", move);
    }

    function test_aJobWithoutDispute() public {
        Terms memory t = terms(1);
        t.program.strides = new uint64[](3);
        (t.program.strides[0], t.program.strides[1], t.program.strides[2]) = (100, 10, 1);
        post(t);
        _saved("post with 3 verifiers");
        uint256 job = post(1);
        join(job, person(1));
        _saved("join");
        commit(job, person(1), 7);
        _saved("commit, last");
        reveal(job, person(1), 7);
        _saved("reveal, last");
        pass(PERIOD);
        jobs.finalize(job);
        _saved("finalize");
        jobs.collect(job, 0);
        _saved("collect, a slot");
        vm.prank(person(1));
        jobs.withdraw();
        _saved("withdraw");
    }

    function test_aJobWithADispute() public {
        uint256 job = claimed(7);
        commitChallenge(job, person(2), 8);
        _saved("commitChallenge");
        challenge(job, person(2), 8);
        _saved("challenge and open a match");
        uint256 id = matchOf(job, 7);
        submit(id, 7, 8);
        rule(id, 7);
        _saved("verdict stands");
    }

    function test_anAppeal() public {
        uint256 job = post(2);
        for (uint160 n = 1; n < 3; ++n) {
            join(job, person(n));
            commit(job, person(n), 6 + n);
        }
        reveal(job, person(1), 7);
        reveal(job, person(2), 8);
        uint256 id = matchOf(job, 7);
        submit(id, 7, 8);
        _savedHearing("submit");
        vote(id, 0, 8);
        _savedHearing("attest, first");
        vote(id, 1, 8);
        _savedHearing("attest, verdict");
        appeal(id, person(1));
        _savedHearing("appeal");
        tryHonestly(id, 7, 8);
        _savedHearing("judge, verdict overruled");
        pass(PERIOD);
        proceed(id);
        _savedHearing("proceed, two bonds taken");
    }

    function _savedHearing(string memory move) private {
        vm.snapshotGasLastCall("panel", move);
    }

    /// @dev Views whose loops are longest, over a page of everything. NOTE: nodes call them, no move does.
    function test_theLongestLoops() public {
        uint256 job = claimed(1000);
        for (uint160 n = 1; n < 64; ++n) {
            commitTo(job, person(n + 1), 1000 + n);
        }
        pass(1);
        for (uint160 n = 1; n < 64; ++n) {
            (Claim memory c, uint256 price) = (claim(1000 + n), priceOf(job, 1000 + n));
            c.uri = string(new bytes(512));
            vm.deal(person(n + 1), price);
            vm.prank(person(n + 1));
            jobs.challenge{value: price}(job, c, bytes32(uint256(1000 + n)));
        }
        jobs.viewOf(job);
        uint256 gas = vm.snapshotGasLastCall("jobs", "viewOf, a whole page of claims and groups");
        yes(gas < 20_000_000, vm.toString(gas));
    }

    function test_aClaimBehindAnother() public {
        uint256 job = claimed(7);
        challenge(job, person(2), 7);
        _saved("challenge behind a claim");
    }
}
