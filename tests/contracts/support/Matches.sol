// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Positions, Step} from "./Positions.sol";
import {Fault, Kind, Run, Runs} from "./Runs.sol";
import {Tree, Trees} from "./Trees.sol";
import {Panel} from "contracts/Panel.sol";
import {Referee} from "contracts/Referee.sol";
import {Timekeeper} from "contracts/Timekeeper.sol";
import {VerifierRegistry} from "contracts/VerifierRegistry.sol";
import {Dispute} from "contracts/interfaces/ICourt.sol";
import {Program, Rules} from "contracts/interfaces/IJobs.sol";
import {Submission} from "contracts/interfaces/IPanel.sol";
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
} from "contracts/interfaces/IReferee.sol";

/// @title Matches
/// @notice A test that is itself the Jobs contract of its matches, with moves computed from whole runs.
abstract contract Matches is Base {
    using Trees for Tree;
    using Runs for Run;
    using Positions for Position;

    uint32 internal constant CLOCK = 1000;
    uint32 internal constant VERDICT = 500;

    address internal constant GUARDIAN = address(0x60A4D);
    uint64 internal constant PAUSES = 10_000;
    Timekeeper internal time = Timekeeper(deploy("Timekeeper.sol:Timekeeper", abi.encode(GUARDIAN, PAUSES)));
    VerifierRegistry internal registry =
        VerifierRegistry(deploy("VerifierRegistry.sol:VerifierRegistry", abi.encode(1 ether, 7 days, time)));
    /// @dev NOTE: the operators of these runs are hashes, for which the court has no rules; verdicts end their matches.
    address private _court = deploy("Court.sol:Court", abi.encode(address(0), time));
    Panel internal panel = Panel(payable(deploy("Panel.sol:Panel", abi.encode(_court, registry))));
    Referee internal referee =
        Referee(deploy("Referee.sol:Referee", abi.encode(deploy("Judge.sol:Judge", ""), panel)));
    address internal alice = address(0xA11CE); // side 0
    address internal bob = address(0xB0B); // side 1
    uint256[] internal keys = [uint256(0x101), 0x102, 0x103];

    Program internal _served;
    /// @dev The root of the run's logs, as the job states it.
    bytes32 internal _logs;
    uint256 internal decidedMatch;
    uint8 internal losers;
    Reason internal reason;
    address[] internal deciders;
    uint256 internal decisions;
    uint256 private _opened;
    mapping(uint256 id => MatchTerms) private _matchTerms;
    mapping(uint256 id => Position) private _positions;

    constructor() {
        vm.warp(1_700_000_000);
        _served = Runs.program();
        for (uint256 i = 0; i < keys.length; ++i) {
            vm.deal(vm.addr(keys[i]), 1 ether);
            vm.prank(vm.addr(keys[i]));
            registry.register{value: 1 ether}(address(panel), "http://verifier");
        }
    }

    // ------------------------------------------------------------------ the Jobs contract

    function logsOf(uint256) external view returns (bytes32) {
        return _logs;
    }

    function rulesOf(uint256) external pure returns (Rules memory rules, uint256 stake) {
        rules = Rules({threshold: 2, verdictPeriod: VERDICT, appealPeriod: VERDICT, clock: CLOCK});
        stake = 1 ether;
    }

    function isVerifier(uint256, address account) external view returns (bool) {
        for (uint256 i = 0; i < keys.length; ++i) {
            if (vm.addr(keys[i]) == account) return true;
        }
        return false;
    }

    function resolve(uint256, uint256 matchId, uint8 losers_, Reason reason_, address[] calldata deciders_)
        external
    {
        yes(msg.sender == address(referee), "only the referee resolves");
        (decidedMatch, losers, reason, deciders) = (matchId, losers_, reason_, deciders_);
        ++decisions;
    }

    function open(bytes32 root0, bytes32 root1) internal returns (uint256 id) {
        id = referee.open(1, [root0, root1], [alice, bob], CLOCK, ++_opened, _served);
        _matchTerms[id] = MatchTerms([root0, root1], [alice, bob], CLOCK, _opened, _served);
        _positions[id] = Positions.opened(_matchTerms[id]);
    }

    function open(Run memory run0, Run memory run1) internal returns (uint256) {
        return open(run0.root(), run1.root());
    }

    // ------------------------------------------------------------------ shown data

    function matchTerms(uint256 id) internal view returns (MatchTerms memory) {
        return _matchTerms[id];
    }

    function here(uint256 id) internal view returns (Position memory) {
        return _positions[id];
    }

    /// @dev NOTE: a move that a test expects to be refused returns, too; then the match is where it was.
    function _moved(uint256 id, Position memory to) private {
        if (referee.getMatch(id).position == to.hash()) _positions[id] = to;
    }

    // ------------------------------------------------------------------ moves

    /// @dev Returns the tree that the match is in, of this run.
    function treeOf(Run memory run, Match memory m) internal view returns (Tree memory) {
        if (m.end - m.start == 1) return run.stepTree(m.end);
        return run.runTree(_served.strides[m.level], m.start, m.end);
    }

    /// @dev Returns the way down `levels` to the first difference.
    function descent(uint256 id, Run memory run0, Run memory run1, uint8 levels)
        internal
        view
        returns (Step memory d)
    {
        Match memory m = referee.getMatch(id);
        Tree memory tree0 = treeOf(run0, m);
        Tree memory tree1 = treeOf(run1, m);
        uint256 height = m.height - levels;
        uint256 index = uint256(m.index) << levels;
        while (tree0.levels[height][index] == tree1.levels[height][index]) ++index;
        d.way.child = uint64(index - (uint256(m.index) << levels));
        (d.way.node0, d.way.node1) = (tree0.levels[height][index], tree1.levels[height][index]);
        d.way.path0 = tree0.path(index, height, m.height);
        d.way.path1 = tree1.path(index, height, m.height);
        bool real = height == 0 && m.end - m.start > 1 && index * _served.strides[m.level] < m.end - m.start;
        if (real && index > 0) {
            d.previous = tree0.levels[0][index - 1];
            d.previousPath = tree0.path(index - 1);
        }
    }

    function send(uint256 id, Step memory d) internal {
        referee.descend(id, matchTerms(id), here(id), d.way, d.previous, d.previousPath);
        _moved(id, here(id).descended(matchTerms(id), referee.getMatch(id), d));
    }

    function descend(uint256 id, Run memory run0, Run memory run1) internal {
        send(id, descent(id, run0, run1, referee.getMatch(id).height));
    }

    function reveal(uint256 id, uint8 side, Run memory run) internal {
        reveal(id, side, childrenOf(id, run));
    }

    function reveal(uint256 id, uint8 side, bytes32[] memory children) internal {
        referee.reveal(id, here(id), side, children);
    }

    function childrenOf(uint256 id, Run memory run) internal view returns (bytes32[] memory) {
        Match memory m = referee.getMatch(id);
        return treeOf(run, m).children(m.height, m.index, m.height < 4 ? m.height : 4);
    }

    function refine(uint256 id, uint8 side, Run memory run) internal {
        (bytes32 root, bytes32[] memory path) = refinement(id, run);
        refine(id, side, root, path, side == 0 ? alice : bob);
    }

    function refine(uint256 id, uint8 side, bytes32 root, bytes32[] memory path, address sender) internal {
        vm.prank(sender);
        referee.refine(id, matchTerms(id), here(id), side, root, path);
        _moved(id, here(id).refined(referee.getMatch(id), side, root));
    }

    function refinement(uint256 id, Run memory run)
        internal
        view
        returns (bytes32 root, bytes32[] memory path)
    {
        Match memory m = referee.getMatch(id);
        uint256 level = 0;
        while (_served.strides[level] >= m.end - m.start) ++level;
        uint64 stride = _served.strides[level];
        Tree memory tree = run.runTree(stride, m.start, m.end);
        return (tree.root(), tree.path((m.end - m.start + stride - 1) / stride - 1));
    }

    /// @dev Descends, with all trees known, to the disputed record or to a decision on the way.
    function toRecord(uint256 id, Run memory run0, Run memory run1) internal {
        while (true) {
            Phase phase = referee.getMatch(id).phase;
            if (phase == Phase.Walk) {
                descend(id, run0, run1);
            } else if (phase == Phase.Refine) {
                refine(id, 0, run0);
                refine(id, 1, run1);
            } else {
                return;
            }
        }
    }

    function openRecord(uint256 id, uint8 side, Record memory record) internal {
        referee.openRecord(id, here(id), side, record);
    }

    function judgeStructure(uint256 id, Exhibit memory e) internal {
        referee.judgeStructure(id, matchTerms(id), here(id), e);
    }

    function judgeInput(uint256 id, Exhibit memory e, Evidence memory evidence) internal {
        referee.judgeInput(id, matchTerms(id), here(id), e, evidence);
    }

    function judgeLog(uint256 id, Exhibit memory e, LogProof memory proof) internal {
        referee.judgeLog(id, matchTerms(id), here(id), e, proof);
    }

    function submit(uint256 id, Exhibit memory e) internal {
        referee.submit(id, matchTerms(id), here(id), e);
    }

    function recordOf(uint256 id, Run memory run) internal view returns (Record memory) {
        Match memory m = referee.getMatch(id);
        return run.records[m.end][m.index];
    }

    function exhibit(uint256 id, Run memory run0, Run memory run1) internal view returns (Exhibit memory e) {
        Match memory m = referee.getMatch(id);
        e.record0 = run0.records[m.end][m.index];
        e.record1 = run1.records[m.end][m.index];
        e.structure = Runs.structure(m.index);
        e.structurePath = Runs.structureTree().path(m.index);
    }

    /// @dev Returns the referee's submission of a match.
    function submission(uint256 id, Exhibit memory e) internal view returns (Submission memory s) {
        Match memory m = referee.getMatch(id);
        Dispute memory dispute = Dispute([e.record0, e.record1], e.structure, _served.mode);
        s = Submission({
            matchId: id,
            jobs: address(this),
            jobId: 1,
            step: m.end,
            node: uint32(m.index),
            players: matchTerms(id).players,
            records: here(id).node,
            dispute: keccak256(abi.encode(dispute))
        });
    }

    /// @dev Changes the job to a mode with logs.
    function round() internal {
        _served.mode = 0x86;
        _logs = Runs.runLogTree().root();
    }

    /// @dev Opens a match between the right run (side 0) and a wrong one (side 1), and goes to the disputed record.
    function atRecord(Fault memory fault) internal returns (uint256 id, Run memory run0, Run memory run1) {
        bool rounded = _served.mode != 1;
        run0 = Runs.make(Fault(Kind.None, 0, 0, 0, 0), rounded);
        run1 = Runs.make(fault, rounded);
        id = open(run0, run1);
        toRecord(id, run0, run1);
    }

    /// @dev The `i`-th verifier votes for this record.
    function vote(uint256 id, Submission memory s, uint256 i, bytes32 right) internal {
        uint256 hearingId = panel.hearingOf(address(referee), id);
        bytes32 digest = panel.verdictDigest(hearingId, s.step, s.node, right);
        panel.attest(hearingId, s, right, signature(keys[i], digest));
    }

    function signature(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    // ------------------------------------------------------------------ checks

    function decided(uint256 id, uint8 wantLosers, Reason wantReason) internal view {
        Match memory m = referee.getMatch(id);
        eq(uint256(m.phase), uint256(Phase.Done), "phase");
        eq(m.losers, wantLosers, "losers");
        eq(uint256(m.reason), uint256(wantReason), "reason");
        eq(decidedMatch, id, "the Jobs contract is told which match");
        eq(losers, wantLosers, "the Jobs contract is told the losers");
        eq(uint256(reason), uint256(wantReason), "the Jobs contract is told the reason");
    }

    function inPhase(uint256 id, Phase want) internal view {
        eq(uint256(referee.getMatch(id).phase), uint256(want), "phase");
    }
}
