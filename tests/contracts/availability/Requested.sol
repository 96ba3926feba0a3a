// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Runs} from "../support/Runs.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    RequestState,
    StepProof,
    Subject,
    TensorPiece
} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, Group, IJobs, Terms} from "contracts/interfaces/IJobs.sol";
import {Position, Record} from "contracts/interfaces/IReferee.sol";

/// @title Requested
/// @notice A run of 3 nodes in 5 steps at stride 2 with logs, and answers from it.
///
/// Node `n` of step `t` has as output two leaves, 1,024 bytes and 476, of the byte `16 t + n`. Its log has some 40,000
/// elements: 40 blocks in five pages; in block 17 there is an entry up at place 3, and the value 7 is written at place
/// 9. Node 2 has no log.
abstract contract Requested is Market {
    using Trees for Tree;
    using Views for Jobs;

    uint64 internal constant STEPS = 5;
    uint256 internal constant WRITTEN_BLOCK = 17;
    bytes internal constant ENTRIES = hex"000e002700000007"; // 3 << 2 | 2, then 9 << 2 | 3 and its value
    address internal constant AUDITOR = address(0xA0D1);
    address internal constant AUTHOR = address(0xA017);

    // ------------------------------------------------------------------ the run

    function leafOf(uint64 step, uint32 node, uint256 part) internal pure returns (bytes memory data) {
        data = new bytes(part == 0 ? 1024 : 476);
        for (uint256 i = 0; i < data.length; ++i) {
            data[i] = bytes1(uint8(16 * step + node));
        }
    }

    function dataTree(uint64 step, uint32 node) internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](2);
        leaves[0] = sha256(abi.encodePacked(uint8(0x01), leafOf(step, node, 0)));
        leaves[1] = sha256(abi.encodePacked(uint8(0x01), leafOf(step, node, 1)));
        return Trees.build(0x10, leaves);
    }

    function recordAt(uint64 step, uint32 node) internal pure returns (Record memory r) {
        r.structure = sha256("structure");
        r.inputs = new bytes32[](1);
        r.inputs[0] = sha256("input");
        r.outputs = new bytes32[](1);
        r.outputs[0] = sha256(
            abi.encodePacked(uint8(0x02), uint8(1), uint8(1), uint64(375), dataTree(step, node).root())
        );
        r.log = logOf(step, node);
    }

    function stepTree(uint64 step) internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](3);
        for (uint32 n = 0; n < 3; ++n) {
            leaves[n] = Runs.recordHash(recordAt(step, n));
        }
        return Trees.build(0x15, leaves);
    }

    function runTree() internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](3);
        (leaves[0], leaves[1], leaves[2]) = (stepTree(2).root(), stepTree(4).root(), stepTree(5).root());
        return Trees.build(0x16, leaves);
    }

    // ------------------------------------------------------------------ its logs

    function blockTree() internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](40);
        for (uint256 i = 0; i < 40; ++i) {
            leaves[i] = sha256(hex"0819");
        }
        leaves[WRITTEN_BLOCK] = sha256(abi.encodePacked(uint8(0x0A), ENTRIES));
        return Trees.build(0x19, leaves);
    }

    function elementsOf(uint64 step, uint32 node) internal pure returns (uint64) {
        return 40_000 + 10 * step + node;
    }

    function logOf(uint64 step, uint32 node) internal pure returns (bytes32) {
        if (node == 2) return 0;
        return sha256(abi.encodePacked(uint8(0x09), elementsOf(step, node), blockTree().root()));
    }

    function logTree(uint64 step) internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](3);
        (leaves[0], leaves[1]) = (logOf(step, 0), logOf(step, 1));
        return Trees.build(0x17, leaves);
    }

    function runLogTree() internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[](STEPS);
        for (uint64 t = 1; t <= STEPS; ++t) {
            leaves[t - 1] = logTree(t).root();
        }
        return Trees.build(0x18, leaves);
    }

    // ------------------------------------------------------------------ answers

    function digestsAt(uint64 step) internal pure returns (bytes32[] memory, StepProof memory) {
        return (logTree(step).levels[0], StepProof(logTree(step).root(), runLogTree().path(step - 1)));
    }

    function logAt(Place memory place) internal pure returns (LogPiece memory a) {
        Tree memory tree = logTree(place.tree);
        (a.log, a.logPath) = (logOf(place.tree, place.node), tree.path(place.node));
        a.step = StepProof(tree.root(), runLogTree().path(place.tree - 1));
        if (a.log == 0) return a;
        Tree memory found = blockTree();
        (a.elements, a.root) = (elementsOf(place.tree, place.node), found.root());
        if (place.part >= 8) return a;
        a.blocks = new bytes[](8);
        if (place.part == WRITTEN_BLOCK / 8) a.blocks[WRITTEN_BLOCK % 8] = ENTRIES;
        a.path = found.path(place.part, 3, 6);
    }

    function stepOf(Place memory place) internal pure returns (uint64) {
        return place.tree == 2 ? STEPS : 2 * (place.tree + 1);
    }

    function recordAt(Place memory place) internal pure returns (RecordPiece memory a) {
        Tree memory tree = stepTree(stepOf(place));
        (a.record, a.recordPath) = (recordAt(stepOf(place), place.node), tree.path(place.node));
        (a.checkpoint, a.checkpointPath) = (tree.root(), runTree().path(place.tree));
    }

    function tensorAt(Place memory place) internal pure returns (TensorPiece memory a) {
        if (place.tensor != 256) return a;
        Tree memory tree = dataTree(stepOf(place), place.node);
        (a.shape.dtype, a.shape.dims) = (1, new uint64[](1));
        a.shape.dims[0] = 375;
        a.root = tree.root();
        if (place.part > 1) return a;
        (a.leaf, a.path) = (leafOf(stepOf(place), place.node, place.part), tree.path(place.part));
    }

    /// @dev Answers as a party that has the run.
    function answer(Subject memory s, Place memory place) internal {
        if (place.piece == Piece.Digests) {
            (bytes32[] memory found, StepProof memory step) = digestsAt(place.tree);
            vm.prank(AUTHOR);
            dataAvailability.provideDigests(s, place, found, new bytes32[](0), step);
        } else if (place.piece == Piece.Blocks) {
            LogPiece memory a = logAt(place);
            vm.prank(AUTHOR);
            dataAvailability.provideBlocks(s, place, a);
        } else {
            RecordPiece memory a = recordAt(place);
            TensorPiece memory t = tensorAt(place);
            vm.prank(AUTHOR);
            if (place.piece == Piece.Record) dataAvailability.provideRecord(s, place, a);
            else dataAvailability.provideLeaf(s, place, a, t);
        }
    }

    // ------------------------------------------------------------------ the job

    function digests(uint64 step) internal pure returns (Place memory) {
        return Place(Piece.Digests, step, 0, 0, 0);
    }

    function blocks(uint64 step, uint32 node, uint64 page) internal pure returns (Place memory) {
        return Place(Piece.Blocks, step, node, 0, page);
    }

    function recordIn(uint64 checkpoint, uint32 node) internal pure returns (Place memory) {
        return Place(Piece.Record, checkpoint, node, 0, 0);
    }

    function leafIn(uint64 checkpoint, uint32 node, uint16 tensor, uint64 part)
        internal
        pure
        returns (Place memory)
    {
        return Place(Piece.Leaf, checkpoint, node, tensor, part);
    }

    function ofLogs(uint256 job) internal view returns (Subject memory) {
        return Subject(IJobs(address(jobs)), job, runLogTree().root());
    }

    function ofClaim(uint256 job) internal view returns (Subject memory) {
        return Subject(IJobs(address(jobs)), job, runTree().root());
    }

    function request(Subject memory s, Place memory place) internal {
        request(s, one(place));
    }

    function request(Subject memory s, Place[] memory places) internal {
        requestAs(AUDITOR, s, places);
    }

    /// @dev Returns the cost of the request, and its gas.
    function requestAs(address who, Subject memory s, Place[] memory places)
        internal
        returns (uint256 deposit, uint256 gas)
    {
        deposit = depositsOf(s, places);
        vm.deal(who, who.balance + deposit);
        vm.prank(who);
        dataAvailability.request{value: deposit}(s, places);
        gas = vm.lastCallGas().gasTotalUsed;
    }

    /// @dev Returns the deposits of places that are all new.
    function depositsOf(Subject memory s, Place[] memory places) internal view returns (uint256 deposit) {
        (uint256 open, uint256 others) = dataAvailability.openOf(s, places[0]);
        for (uint256 i = 0; i < places.length; ++i) {
            deposit += dataAvailability.depositAt(
                places[i].piece, others + (open + i) / dataAvailability.STEP(), PRICE
            );
        }
    }

    function one(Place memory place) internal pure returns (Place[] memory list) {
        list = new Place[](1);
        list[0] = place;
    }

    /// @dev Returns `count` leaves of an input that does not exist: each still needs its own response.
    function leavesIn(uint64 checkpoint, uint64 from, uint256 count)
        internal
        pure
        returns (Place[] memory list)
    {
        list = new Place[](count);
        for (uint64 i = 0; i < count; ++i) {
            list[i] = leafIn(checkpoint, 0, 300, from + i);
        }
    }

    function requestRefused(Subject memory s, Place memory place, bytes4 selector) internal {
        requestRefused(s, one(place), selector);
    }

    function requestRefused(Subject memory s, Place[] memory places, bytes4 selector) internal {
        uint256 deposit =
            places.length * dataAvailability.depositAt(Piece.Blocks, dataAvailability.MAX_RANK(), PRICE);
        vm.deal(AUDITOR, deposit);
        vm.prank(AUDITOR);
        refuses(selector);
        dataAvailability.request{value: deposit}(s, places);
    }

    function stateOf(Subject memory s, Place memory place) internal view returns (RequestState) {
        return dataAvailability.requestOf(s, place).state;
    }

    function is_(RequestState have, RequestState want, string memory what) internal pure {
        eq(uint256(have), uint256(want), what);
    }

    /// @dev Opens a job in which the first person has claimed the run, with its logs, and enters its challenge phase.
    function runClaimed() internal returns (uint256 job) {
        Terms memory t = roundedTerms();
        (t.program.nodeCount, t.program.steps) = (3, STEPS);
        t.program.strides = new uint64[](2);
        (t.program.strides[0], t.program.strides[1]) = (2, 1);
        job = post(t);
        join(job, person(1));
        Tree memory tree = runTree();
        Claim memory c = Claim(tree.root(), stepTree(STEPS).root(), tree.path(2), "http://claim");
        bytes32 logs = runLogTree().root();
        bytes32 commitment = jobs.commitmentOf(job, person(1), c.root, c.last, logs, "salt");
        vm.prank(person(1));
        jobs.commit(job, commitment);
        vm.prank(person(1));
        jobs.reveal(job, c, logs, "salt");
    }

    /// @dev Another person makes another claim, so that a match opens.
    function otherClaimed(uint256 job, address who) internal returns (bytes32 root) {
        Tree memory tree = runTree();
        bytes32[] memory leaves = tree.levels[0];
        leaves[0] = sha256(abi.encode(who));
        tree = Trees.build(0x16, leaves);
        root = tree.root();
        Claim memory c = Claim(root, stepTree(STEPS).root(), tree.path(2), "http://claim");
        bytes32 commitment = jobs.commitmentOf(job, who, c.root, c.last, 0, "salt");
        vm.prank(who);
        jobs.commitChallenge(job, commitment);
        pass(1);
        uint256 price = jobs.priceOf(job, root);
        vm.prank(who);
        jobs.challenge{value: price}(job, c, "salt");
    }

    /// @dev Returns the position at which the job's first match begins.
    function atTheTop(uint256 job) internal view returns (Position memory at) {
        Group[] memory groups = jobs.groupsOf(job);
        (at.root, at.node) = ([groups[0].root, groups[1].root], [groups[0].root, groups[1].root]);
        at.agreed = jobs.programOf(job).initialRoot;
    }

    /// @dev Returns places of all kinds, existing or not.
    function somePlaces() internal pure returns (Place[] memory list) {
        list = new Place[](16);
        list[0] = digests(1);
        list[1] = digests(5);
        list[2] = blocks(1, 0, 0);
        list[3] = blocks(3, 1, 2);
        list[4] = blocks(5, 1, 4);
        list[5] = blocks(5, 1, 5); // beyond the last block, but in the tree
        list[6] = blocks(5, 1, 8); // beyond the tree
        list[7] = blocks(5, 1, type(uint64).max);
        list[8] = blocks(4, 2, 0); // no log
        list[9] = recordIn(1, 0);
        list[10] = recordIn(1, 2);
        list[11] = leafIn(1, 1, 256, 0);
        list[12] = leafIn(1, 1, 256, 1);
        list[13] = leafIn(1, 1, 256, 2); // beyond the last leaf
        list[14] = leafIn(1, 1, 1, 0); // beyond the last input
        list[15] = leafIn(1, 1, 65_535, type(uint64).max);
    }

    /// @dev Opens a job of one node in one step, whose logs are this log.
    function claimedWith(bytes32 log) internal returns (Subject memory) {
        uint256 job = post(roundedTerms());
        join(job, person(2));
        bytes32 commitment = jobs.commitmentOf(job, person(2), root(7), root(7), log, "salt");
        Claim memory c = claim(7);
        vm.prank(person(2));
        jobs.commit(job, commitment);
        vm.prank(person(2));
        jobs.reveal(job, c, log, "salt");
        return Subject(IJobs(address(jobs)), job, log);
    }
}
