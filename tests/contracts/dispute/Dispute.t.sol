// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Spine, Spines} from "../support/Spines.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Large} from "./Large.sol";
import {Court} from "contracts/Court.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Panel} from "contracts/Panel.sol";
import {Referee} from "contracts/Referee.sol";
import {VerifierRegistry} from "contracts/VerifierRegistry.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {LogBlock} from "contracts/commit/Logs.sol";
import {Case, IRule, Opened, Shape} from "contracts/element/IRule.sol";
import {Dispute, Opening, Said, Suit} from "contracts/interfaces/ICourt.sol";
import {
    Adjudication,
    Claim,
    Group,
    Job,
    JobPhase,
    Program,
    StakedClaim,
    Terms,
    Trainer
} from "contracts/interfaces/IJobs.sol";
import {Docket, Exhibit, Position} from "contracts/interfaces/IReferee.sol";

/// @notice What a whole dispute costs, from the challenge to the payment of the prize: all transactions of both sides.
/// Side 0, the trainer, is wrong; side 1, the challenger, is right.
/// forge-config: default.isolate = true
contract DisputeGasTest is Base {
    using Spines for Spine;
    using Trees for Tree;

    address private constant TRAINER = address(0xA11CE);
    address private constant CHALLENGER = address(0xB0B);
    uint256 private constant STAKE = 1 ether;

    VerifierRegistry private registry =
        VerifierRegistry(deploy("VerifierRegistry.sol:VerifierRegistry", abi.encode(1 ether, 7 days)));
    Jobs private jobs = Jobs(deploy("Jobs.sol:Jobs", abi.encode(registry, 0.1 ether, 60)));
    IRule private rule = IRule(deploy("Contractions.sol:Contractions", ""));
    Court private court = Court(deploy("Court.sol:Court", abi.encode(_opset())));
    Panel private panel = Panel(payable(deploy("Panel.sol:Panel", abi.encode(court, registry))));
    Referee private referee = Referee(deploy("Referee.sol:Referee", abi.encode(panel)));

    uint256 private _job;
    uint256 private _match;
    Docket private _docket;
    Position private _here;
    Suit private _suit;
    Said private _said;
    uint256 private _sum;
    bytes[] private _calls;

    function _opset() private returns (address) {
        address[10] memory rules;
        rules[5] = address(rule);
        return deploy("Opset1.sol:Opset1", abi.encode(rules, rules));
    }

    // ------------------------------------------------------------------ the disputes

    function test_published() public {
        _open("published");
        _walkPublished();
        _tryPublished();
        _end("published");
    }

    // ------------------------------------------------------------------ the job

    function _open(string memory) private {
        vm.warp(1_700_000_000);
        vm.deal(TRAINER, 10 ether);
        vm.deal(CHALLENGER, 10 ether);
        Terms memory t;
        t.program = Large.program();
        (t.programFile, t.uri, t.referee) = (keccak256("program"), "https://client.example", address(referee));
        (t.slots, t.stake) = (1, STAKE);
        (t.trainPeriod, t.revealPeriod, t.challengePeriod) = (1 days, 1 days, 1 days);
        t.rules.adjudication = Adjudication.OnChain;
        (t.rules.clock, t.rules.verdictPeriod, t.rules.appealPeriod) = (1 days, 1 days, 1 days);
        _job = jobs.post{value: 1 ether}(t);
        vm.prank(TRAINER);
        jobs.join{value: STAKE}(_job);
        Claim memory claim = _claim(0);
        _commit(TRAINER, claim);
        vm.prank(TRAINER);
        jobs.reveal(_job, claim, 0, "salt");

        claim = _claim(1);
        _commit(CHALLENGER, claim);
        _spent("challenge, committed");
        pass(1);
        vm.prank(CHALLENGER);
        jobs.challenge{value: STAKE}(_job, claim, "salt");
        _spent("challenge");
        (,,,, Group[] memory groups) = jobs.viewOf(_job);
        _match = groups[0].matchId;
        _docket.roots = [groups[0].root, groups[1].root];
        _docket.players = [TRAINER, CHALLENGER];
        (_here.root, _here.node) = (_docket.roots, _docket.roots);
        _here.agreed = Large.program().initialRoot;
        (_docket.clock, _docket.number, _docket.program) = (1 days, referee.matchCount(), Large.program());
    }

    function _claim(uint256 side) private pure returns (Claim memory claim) {
        Tree memory tree = Large.run(side, false);
        (claim.root, claim.last, claim.lastPath) = (tree.root(), tree.levels[0][999], tree.path(999));
        claim.uri = "https://party.example:8471/artifacts";
    }

    function _commit(address who, Claim memory claim) private {
        bytes32 commitment = jobs.commitmentOf(_job, who, claim.root, claim.last, 0, "salt");
        vm.prank(who);
        if (who == TRAINER) jobs.commit(_job, commitment);
        else jobs.commitChallenge(_job, commitment);
    }

    // ------------------------------------------------------------------ the match

    function _walkPublished() private {
        _descend(Large.run(0, false), Large.run(1, false), Large.COARSE);
        _flush(CHALLENGER, address(referee), "descend to an interval");
        _refine(0);
        _flush(TRAINER, address(referee), "refine");
        _refine(1);
        _here.node = _here.root;
        _descend(Large.run(0, true), Large.run(1, true), Large.FINE);
        _here.root = _here.node;
        _descend(Large.step());
        Exhibit memory e;
        (e.record0, e.record1) = (Large.record(0), Large.record(1));
        (e.structure, e.structurePath) = (Large.STRUCTURE, Large.structures().siblings);
        _calls.push(abi.encodeCall(referee.submit, (_match, _docket, _here, e)));
        _flush(CHALLENGER, address(referee), "refine, descend twice, submit");
    }

    /// @dev To a leaf of the runs' trees.
    function _descend(Tree memory tree0, Tree memory tree1, uint64 index) private {
        bytes32[][2] memory levels = [tree0.levels[0], tree1.levels[0]];
        Descent memory way =
            Descent(index, levels[0][index], tree0.path(index), levels[1][index], tree1.path(index));
        bytes32 previous = levels[0][index - 1];
        _calls.push(
            abi.encodeCall(referee.descend, (_match, _docket, _here, way, previous, tree0.path(index - 1)))
        );
        (_here.node, _here.agreed) = ([way.node0, way.node1], previous);
    }

    /// @dev To the leaf of the step's trees.
    function _descend(Spine memory spine) private {
        Descent memory way = _way(spine, spine.depth, 0);
        _calls.push(abi.encodeCall(referee.descend, (_match, _docket, _here, way, 0, new bytes32[](0))));
        _here.node = [way.node0, way.node1];
    }

    /// @dev Down a spine, from one height to another.
    function _way(Spine memory spine, uint256 from, uint256 to) private pure returns (Descent memory) {
        bytes32[] memory path = spine.path(to, from);
        uint64 child = uint64((spine.index >> to) & ((1 << (from - to)) - 1));
        return Descent(child, spine.nodes[0][to], path, spine.nodes[1][to], path);
    }

    function _refine(uint8 side) private {
        Tree memory tree = Large.run(side, true);
        _calls.push(
            abi.encodeCall(referee.refine, (_match, _docket, _here, side, tree.root(), tree.path(999)))
        );
        _here.root[side] = tree.root();
    }

    // ------------------------------------------------------------------ the trial

    function _tryPublished() private {
        uint256 hearingId = panel.hearingOf(address(referee), _match);
        Dispute memory d = Large.dispute();
        _suit = Suit(address(panel), hearingId | 1, _docket.players, keccak256(abi.encode(d)));
        Spine memory spine = Large.output();
        for (uint8 side = 0; side < 2; ++side) {
            _calls.push(abi.encodeCall(court.showOutput, (_suit, d, _said, side, spine.root(side))));
            _said.nodes[side] = spine.root(side);
        }
        _calls.push(abi.encodeCall(court.descend, (_suit, d, _said, _way(spine, spine.depth, 0))));
        _said.nodes = [spine.nodes[0][0], spine.nodes[1][0]];
        LogBlock memory none;
        bytes[2] memory leaves = [Large.leaf(2, 0), Large.leaf(2, 1)];
        _calls.push(
            abi.encodeCall(court.compare, (_suit, d, _said, leaves[0], leaves[1], Large.inputs(), none))
        );
        _flush(CHALLENGER, address(court), "outputs, descend, compare");
        delete _said;
        uint256 at = (Large.ELEMENT % 256) * 4;
        _said.values = [_bits(leaves[0], at), _bits(leaves[1], at)];
        (, bytes memory first) = rule.begin(_case());
        _said.agreed = keccak256(first);
        _chain(d);
    }

    /// @dev 8,192 steps in two rounds of 91 places.
    function _chain(Dispute memory d) private {
        bytes memory agreed;
        for (uint256 round = 0; round < 2; ++round) {
            uint64[] memory places = court.places(court.trialOf(_suit));
            bytes[] memory states = new bytes[](places.length);
            uint256 at = 0;
            while (places[at] <= Large.TERM) ++at;
            for (uint256 i = 0; i < places.length; ++i) {
                states[i] = _state(round, i);
            }
            agreed = states[at - 1];
            bytes memory truth = round == 1 ? rule.step(_case(), Large.TERM, agreed, _opened()) : _state(9, 9);
            bytes memory posted;
            for (uint256 i = 0; i + 1 < places.length; ++i) {
                posted = abi.encodePacked(posted, states[i]);
            }
            _calls.push(abi.encodeCall(court.post, (_suit, _said, posted)));
            _flush(TRAINER, address(court), round == 0 ? "post" : "post again");
            _said.offer = keccak256(posted);
            _calls.push(abi.encodeCall(court.answer, (_suit, _said, posted, at, truth)));
            (_said.offer, _said.agreed) = (0, keccak256(agreed));
            _said.states = [keccak256(states[at]), keccak256(truth)];
            if (round == 0) _flush(CHALLENGER, address(court), "answer");
        }
        Opening[] memory openings = new Opening[](2);
        (openings[0], openings[1]) = (Large.opening(0), Large.opening(1));
        _calls.push(abi.encodeCall(court.judge, (_suit, d, _said, Large.inputs(), agreed, openings)));
        _flush(CHALLENGER, address(court), "answer, judge");
    }

    function _state(uint256 round, uint256 place) private pure returns (bytes memory) {
        uint256 random = uint256(keccak256(abi.encode(round, place)));
        return abi.encodePacked(Large.normal(random), Large.normal(random >> 64));
    }

    function _case() private pure returns (Case memory which) {
        Shape memory shape = Shape(1, new uint64[](2));
        (shape.dims[0], shape.dims[1]) = (Large.SIDE, Large.SIDE);
        (which.op, which.mode, which.element) = (50, 1, Large.ELEMENT);
        (which.inputs, which.outputs) = (new Shape[](2), new Shape[](1));
        (which.inputs[0], which.inputs[1], which.outputs[0]) = (shape, shape, shape);
    }

    function _opened() private pure returns (Opened[] memory opened) {
        opened = new Opened[](2);
        for (uint8 i = 0; i < 2; ++i) {
            Opening memory shown = Large.opening(i);
            opened[i] = Opened(i, shown.element, _bits(shown.leaf, (shown.element % 256) * 4));
        }
    }

    function _bits(bytes memory leaf, uint256 at) private pure returns (uint64 bits) {
        for (uint256 b = 0; b < 4; ++b) {
            bits |= uint64(uint8(leaf[at + b])) << uint64(8 * b);
        }
    }

    // ------------------------------------------------------------------ transactions

    /// @dev Sends the calls as one transaction.
    function _flush(address who, address to, string memory name) private {
        bytes[] memory calls = _calls;
        delete _calls;
        vm.prank(who);
        if (calls.length > 1) Court(to).multicall(calls);
        else _send(to, calls[0]);
        _spent(name);
    }

    function _send(address to, bytes memory data) private {
        (bool ok, bytes memory answer) = to.call(data);
        if (ok) return;
        assembly ("memory-safe") {
            revert(add(answer, 0x20), mload(answer))
        }
    }

    function _spent(string memory name) private {
        uint256 gas = vm.snapshotGasLastCall("dispute", name);
        _sum += gas;
        emit Spent(name, gas);
    }

    event Spent(string name, uint256 gas);

    function _end(string memory name) private {
        (, Job memory job,,,) = jobs.viewOf(_job);
        (,,, StakedClaim[] memory claims,) = jobs.viewOf(_job);
        yes(claims[0].lost && !claims[1].lost && job.openMatches == 0, "the trainer loses");
        vm.snapshotValue("dispute", name, _sum);
        emit Spent(name, _sum);
    }
}
