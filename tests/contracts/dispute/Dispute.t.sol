// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Step} from "../support/Positions.sol";
import {Spine, Spines} from "../support/Spines.sol";
import {Statements} from "../support/Statements.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Disputing} from "./Disputing.sol";
import {Large} from "./Large.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {LogBlock} from "contracts/commit/Logs.sol";
import {Case, Opened} from "contracts/element/IRule.sol";
import {Dispute, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {Opening} from "contracts/interfaces/IExaminer.sol";
import {Submission} from "contracts/interfaces/IPanel.sol";
import {Exhibit} from "contracts/interfaces/IReferee.sol";

/// @notice The gas of a whole dispute: all transactions of both sides, each with its base cost. The run has 10^6 steps
/// of 4,096 operators on tensors of 2^26 elements.
/// forge-config: default.isolate = true
contract DisputeGasTest is Disputing {
    using Spines for Spine;
    using Statements for TrialPosition;
    using Trees for Tree;

    TrialTerms private _trialTerms;
    TrialPosition private _trialPosition;

    // ------------------------------------------------------------------ the disputes

    /// @notice Both sides serve their trees, so the honest side walks alone; the chain is a dialogue.
    function test_publishedTreesAndAnOperatorTriedOnChain() public {
        kind = "published";
        open({verifiers: false});
        vm.snapshotValue("dispute", "before: commit to a challenge", committed);
        vm.snapshotValue("dispute", "before: challenge, without opening the match", challenged);
        _walk(false);
        _try(false);
        end(1_500_000);
    }

    /// @notice Nobody serves anything: both sides show every level, record, output and leaf on the chain.
    function test_everythingShownOnChain() public {
        kind = "interactive";
        open({verifiers: false});
        _walk(true);
        _try(true);
        end(8_000_000);
    }

    function test_publishedTreesAndAVerdict() public {
        kind = "verdict";
        open({verifiers: true});
        _walk(false);
        _vote(0, "first vote");
        _vote(1, "deciding vote");
        pass(1 days);
        calls.push(abi.encodeCall(panel.proceed, (panel.hearingOf(address(referee), matchId), _submission())));
        flush(CHALLENGER, address(panel), "verdict stands");
        end(1_500_000);
    }

    /// @notice The longest sums: one step of 65,536.
    function test_oneStepOfALongSum() public {
        k = 65_536;
        open({verifiers: false});
        _walk(false);
        _try(false);
        end(2_000_000);
    }

    // ------------------------------------------------------------------ the match

    /// @dev With `shown`, each side reveals its children at every level, and opens its record.
    function _walk(bool shown) private {
        _down(Large.run(k, 0, false), Large.run(k, 1, false), Large.COARSE, shown);
        if (!shown) flush(CHALLENGER, address(referee), "descend to an interval");
        _refine(0);
        flush(TRAINER, address(referee), "refine");
        _refine(1);
        here.node = here.root;
        if (shown) flush(CHALLENGER, address(referee));
        _down(Large.run(k, 0, true), Large.run(k, 1, true), Large.FINE, shown);
        here.root = here.node;
        _down(Large.step(k), shown);
        Exhibit memory e;
        (e.record0, e.record1) = (Large.record(k, 0), Large.record(k, 1));
        (e.structure, e.structurePath) = (Large.structure(k), Large.structures(k).siblings);
        if (shown) {
            calls.push(abi.encodeCall(referee.openRecord, (matchId, here, 0, e.record0)));
            flush(TRAINER, address(referee));
            calls.push(abi.encodeCall(referee.openRecord, (matchId, here, 1, e.record1)));
        }
        calls.push(abi.encodeCall(referee.submit, (matchId, matchTerms, here, e)));
        flush(CHALLENGER, address(referee), shown ? "open a record, submit" : "refine, descend twice, submit");
    }

    /// @dev Descends to a leaf of the runs' trees.
    function _down(Tree memory tree0, Tree memory tree1, uint64 index, bool shown) private {
        for (uint256 from = tree0.depth; from > 0;) {
            uint256 levels = shown && from > 4 ? 4 : from;
            uint256 to = from - levels;
            if (shown) {
                _reveal(0, tree0.children(from, index >> from, levels));
                _reveal(1, tree1.children(from, index >> from, levels));
            }
            Step memory step;
            step.way = Descent({
                child: uint64((index >> to) & ((1 << levels) - 1)),
                node0: tree0.levels[to][index >> to],
                path0: tree0.path(index >> to, to, from),
                node1: tree1.levels[to][index >> to],
                path1: tree1.path(index >> to, to, from)
            });
            if (to == 0) {
                (step.previous, step.previousPath) = (tree1.levels[0][index - 1], tree1.path(index - 1));
            }
            _descend(step, shown);
            from = to;
        }
    }

    /// @dev Descends to the leaf of the step's trees.
    function _down(Spine memory spine, bool shown) private {
        for (uint256 from = spine.depth; from > 0;) {
            uint256 levels = shown && from > 4 ? 4 : from;
            if (shown) {
                _reveal(0, spine.children(0, from, levels));
                _reveal(1, spine.children(1, from, levels));
            }
            Step memory step;
            step.way = _way(spine, from, from - levels);
            _descend(step, shown);
            from -= levels;
        }
    }

    /// @dev NOTE: side 1 continues the walk in the transaction of its reveal.
    function _reveal(uint8 side, bytes32[] memory children) private {
        calls.push(abi.encodeCall(referee.reveal, (matchId, here, side, children)));
        if (side == 0) flush(TRAINER, address(referee), "reveal 16 children");
    }

    function _descend(Step memory step, bool shown) private {
        calls.push(
            abi.encodeCall(
                referee.descend, (matchId, matchTerms, here, step.way, step.previous, step.previousPath)
            )
        );
        here.node = [step.way.node0, step.way.node1];
        if (step.previous != 0) here.agreed = step.previous;
        if (shown) flush(CHALLENGER, address(referee), "reveal children and descend");
    }

    /// @dev Returns the way down a spine, from one height to another.
    function _way(Spine memory spine, uint256 from, uint256 to) private pure returns (Descent memory) {
        bytes32[] memory path = spine.path(to, from);
        uint64 child = uint64((spine.index >> to) & ((1 << (from - to)) - 1));
        return Descent(child, spine.nodes[0][to], path, spine.nodes[1][to], path);
    }

    function _refine(uint8 side) private {
        Tree memory tree = Large.run(k, side, true);
        calls.push(
            abi.encodeCall(referee.refine, (matchId, matchTerms, here, side, tree.root(), tree.path(999)))
        );
        here.root[side] = tree.root();
    }

    // ------------------------------------------------------------------ the verdict

    /// @dev Returns the referee's submission of the match.
    function _submission() private view returns (Submission memory) {
        return Submission({
            matchId: matchId,
            jobs: address(jobs),
            jobId: job,
            step: Large.STEP,
            node: Large.NODE,
            players: matchTerms.players,
            records: here.node,
            dispute: keccak256(abi.encode(Large.dispute(k)))
        });
    }

    function _vote(uint256 i, string memory name) private {
        uint256 hearingId = panel.hearingOf(address(referee), matchId);
        Submission memory s = _submission();
        bytes32 record = here.node[1];
        (uint8 v, bytes32 r, bytes32 z) =
            vm.sign(keys[i], panel.verdictDigest(hearingId, Large.STEP, Large.NODE, record));
        calls.push(abi.encodeCall(panel.attest, (hearingId, s, record, abi.encodePacked(r, z, v))));
        flush(vm.addr(keys[i]), address(panel), name);
    }

    // ------------------------------------------------------------------ the trial

    function _try(bool shown) private {
        uint256 hearingId = panel.hearingOf(address(referee), matchId);
        Dispute memory d = Large.dispute(k);
        _trialTerms = TrialTerms(address(panel), hearingId | 1, matchTerms.players, keccak256(abi.encode(d)));
        Spine memory spine = Large.output(k);
        bytes32[2] memory roots = [spine.root(0), shown ? bytes32(0) : spine.root(1)];
        calls.push(abi.encodeCall(court.showOutputs, (_trialTerms, d, _trialPosition, roots)));
        _trialPosition = _trialPosition.shown(0, spine.root(0));
        if (shown) {
            flush(TRAINER, address(court), "show an output");
            roots = [bytes32(0), spine.root(1)];
            calls.push(abi.encodeCall(court.showOutputs, (_trialTerms, d, _trialPosition, roots)));
            flush(CHALLENGER, address(court), "show an output");
        }
        _trialPosition = _trialPosition.shown(1, spine.root(1));
        for (uint256 from = spine.depth; from > 0;) {
            uint256 to = shown ? (from > 4 ? from - 4 : 0) : 0;
            if (shown) {
                calls.push(
                    abi.encodeCall(
                        court.reveal, (_trialTerms, _trialPosition, 0, spine.children(0, from, from - to))
                    )
                );
                flush(TRAINER, address(court), "reveal children of an output");
                calls.push(
                    abi.encodeCall(
                        court.reveal, (_trialTerms, _trialPosition, 1, spine.children(1, from, from - to))
                    )
                );
            }
            calls.push(abi.encodeCall(court.descend, (_trialTerms, d, _trialPosition, _way(spine, from, to))));
            _trialPosition = _trialPosition.walked(_way(spine, from, to));
            if (shown) flush(CHALLENGER, address(court), "reveal children of an output and descend");
            from = to;
        }
        _compare(d, shown);
        _chain(d);
    }

    function _compare(Dispute memory d, bool shown) private {
        LogBlock memory none;
        (bytes memory leaf0, bytes memory leaf1) = (Large.leaf(k, 2, 0), Large.leaf(k, 2, 1));
        if (shown) {
            calls.push(abi.encodeCall(court.showLeaf, (_trialTerms, _trialPosition, 0, leaf0)));
            flush(TRAINER, address(court), "show a leaf");
            calls.push(abi.encodeCall(court.showLeaf, (_trialTerms, _trialPosition, 1, leaf1)));
        }
        calls.push(
            abi.encodeCall(
                court.compare, (_trialTerms, d, _trialPosition, leaf0, leaf1, Large.inputs(k), none)
            )
        );
        flush(
            CHALLENGER, address(court), shown ? "show a leaf, compare" : "show both outputs, descend, compare"
        );
        uint256 at = (Large.element(k) % 256) * 4;
        (, bytes memory first) = rule.begin(_case());
        _trialPosition = Statements.found([_bits(leaf0, at), _bits(leaf1, at)], first);
    }

    /// @dev Plays all steps of the chain in two rounds.
    function _chain(Dispute memory d) private {
        bytes memory agreed;
        for (uint256 round = 0; round < 2; ++round) {
            uint64[] memory places = court.places(court.trialOf(_trialTerms));
            uint256 at = 0;
            while (places[at] <= Large.TERM) ++at;
            agreed = _state(round, at - 1);
            bytes memory truth = round == 1 ? rule.step(_case(), Large.TERM, agreed, _opened()) : _state(9, 9);
            bytes memory states;
            for (uint256 i = 0; i + 1 < places.length; ++i) {
                states = abi.encodePacked(states, _state(round, i));
            }
            calls.push(abi.encodeCall(court.post, (_trialTerms, _trialPosition, states)));
            flush(TRAINER, address(court), "post states");
            _trialPosition = _trialPosition.posted(states);
            calls.push(abi.encodeCall(court.answer, (_trialTerms, _trialPosition, states, at, truth)));
            _trialPosition = _trialPosition.answered(states, 8, at, truth);
            if (round == 0 || k > 8192) flush(CHALLENGER, address(court), "answer");
        }
        Opening[] memory openings = new Opening[](2);
        (openings[0], openings[1]) = (Large.opening(k, 0), Large.opening(k, 1));
        calls.push(
            abi.encodeCall(court.judge, (_trialTerms, d, _trialPosition, Large.inputs(k), agreed, openings))
        );
        if (k == 8192) return flush(CHALLENGER, address(court), "answer, judge");
        uint256 used = flush(CHALLENGER, address(court));
        vm.snapshotValue("dispute", "judge one step of mm, K = 65,536", used);
        yes(used <= 350_000, "one step");
    }

    function _state(uint256 round, uint256 place) private pure returns (bytes memory) {
        uint256 random = uint256(keccak256(abi.encode(round, place)));
        return abi.encodePacked(Large.normal(random), Large.normal(random >> 64));
    }

    function _case() private view returns (Case memory which) {
        (which.op, which.mode, which.element) = (50, 1, Large.element(k));
        which.inputs = abi.encodePacked(Large.typeOf(k, 0), Large.typeOf(k, 1));
        which.outputs = Large.typeOf(k, 2);
    }

    function _opened() private view returns (Opened[] memory opened) {
        opened = new Opened[](2);
        for (uint8 i = 0; i < 2; ++i) {
            Opening memory shown = Large.opening(k, i);
            opened[i] = Opened(i, shown.element, _bits(shown.leaf, (shown.element % 256) * 4));
        }
    }

    function _bits(bytes memory leaf, uint256 at) private pure returns (uint64 bits) {
        for (uint256 b = 0; b < 4; ++b) {
            bits |= uint64(uint8(leaf[at + b])) << uint64(8 * b);
        }
    }
}
