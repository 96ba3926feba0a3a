// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Runs} from "../support/Runs.sol";
import {Statements} from "../support/Statements.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Dispute, Stage, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {Piece, Place, RecordPiece, Subject, TensorPiece} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, IJobs, Terms} from "contracts/interfaces/IJobs.sol";
import {Exhibit, MatchTerms, Position, Record} from "contracts/interfaces/IReferee.sol";

/// @notice ATTACK: a program with a tensor without elements whose other dimensions multiply to 2^40 or more. Nodes
/// refuse it, but nothing keeps it from a chain. If the contracts refused its size in some order of the dimensions, the
/// side that shows second in a trial could not show, and would lose, though right; and a request for its data would
/// have no answer.
contract ZeroSizeTest is Market {
    using Views for Jobs;

    /// @dev The position of the dimension that is 0.
    uint256 private _zeroAt;

    // ------------------------------------------------------------------ the program

    function _dims() private view returns (uint64[] memory dims) {
        dims = new uint64[](3);
        uint64[2] memory huge = [type(uint64).max, uint64(1) << 39];
        for (uint256 d = 0; d < 3; ++d) {
            if (d != _zeroAt) dims[d] = huge[d < _zeroAt ? d : d - 1];
        }
    }

    function _packed() private view returns (bytes memory) {
        uint64[] memory dims = _dims();
        return abi.encodePacked(uint8(3), dims[0], dims[1], dims[2]);
    }

    /// @dev `full` of f32: no inputs, one output; attributes: shape, dtype, bits.
    function _structure() private view returns (bytes memory) {
        return abi.encodePacked(hex"00500001", hex"01", _packed(), _packed(), hex"01", uint64(0));
    }

    function _empty() private pure returns (bytes32) {
        return sha256(hex"0810"); // E_0 of the data tree
    }

    /// @dev The true output has the data root E_0; a liar's has any other.
    function _recordOf(bytes32 root_) private view returns (Record memory r) {
        r.structure = sha256(abi.encodePacked(uint8(0x03), _structure()));
        r.outputs = new bytes32[](1);
        r.outputs[0] = sha256(abi.encodePacked(hex"0201", _packed(), root_));
    }

    function _lie() private view returns (Record memory) {
        return _recordOf(keccak256("anything"));
    }

    // ------------------------------------------------------------------ the job

    function _terms(uint8 slots) private view returns (Terms memory t) {
        t = terms(slots);
        t.program.structureRoot = sha256(abi.encodePacked(uint8(0x03), _structure()));
        t.verifiers = new address[](0);
        t.rules.threshold = 0;
    }

    function _claimed(address[] memory who, bytes32[] memory roots) private returns (uint256 job) {
        job = post(_terms(uint8(who.length)));
        for (uint256 i = 0; i < who.length; ++i) {
            join(job, who[i]);
        }
        for (uint256 i = 0; i < who.length; ++i) {
            bytes32 commitment = jobs.commitmentOf(job, who[i], roots[i], roots[i], 0, "s");
            vm.prank(who[i]);
            jobs.commit(job, commitment);
        }
        for (uint256 i = 0; i < who.length; ++i) {
            Claim memory c;
            (c.root, c.last, c.uri) = (roots[i], roots[i], "http://claim");
            vm.prank(who[i]);
            jobs.reveal(job, c, 0, "s");
        }
    }

    // ------------------------------------------------------------------ in a trial

    /// @dev The liar shows its own root first; then the honest side can still show its own, and that ends the trial.
    function test_whoeverIsRightConcludesWhereverTheZeroStands() public {
        for (_zeroAt = 0; _zeroAt < 3; ++_zeroAt) {
            (address honest, address liar) =
                (person(uint160(2 * _zeroAt + 1)), person(uint160(2 * _zeroAt + 2)));
            uint256 job = _trial(honest, liar);
            yes(!jobs.claimsOf(job)[0].lost, "the honest claim stands");
            yes(jobs.claimsOf(job)[1].lost, "the lie is lost");
            toTheEnd(job);
            finalize(job);
            eq(jobs.jobOf(job).acceptedRoot, Runs.recordHash(_recordOf(_empty())), "the truth is accepted");
            credited(honest, STAKE / 2 + STAKE + REWARD, "what was paid in, the prize and the reward");
            credited(liar, 0, "the whole stake is gone");
        }
    }

    function _trial(address honest, address liar) private returns (uint256 job) {
        (address[] memory who, bytes32[] memory roots) = (new address[](2), new bytes32[](2));
        (who[0], who[1]) = (honest, liar);
        (roots[0], roots[1]) = (Runs.recordHash(_recordOf(_empty())), Runs.recordHash(_lie()));
        job = _claimed(who, roots);
        uint256 id = jobs.groupsOf(job)[0].matchId;
        MatchTerms memory d =
            MatchTerms([roots[0], roots[1]], [honest, liar], CLOCK, uint48(id), _terms(2).program);
        Exhibit memory e;
        (e.record0, e.record1, e.structure) = (_recordOf(_empty()), _lie(), _structure());
        referee.submit(id, d, Position([roots[0], roots[1]], [roots[0], roots[1]], 0), e);

        Dispute memory dispute = Dispute([e.record0, e.record1], e.structure, 1);
        TrialTerms memory trialTerms = TrialTerms(
            address(panel),
            panel.hearingOf(address(referee), id) | 1,
            [honest, liar],
            keccak256(abi.encode(dispute))
        );
        TrialPosition memory position;
        court.showOutputs(trialTerms, dispute, position, Statements.only(1, keccak256("anything")));
        position.nodes[1] = keccak256("anything");
        pass(CLOCK); // the last second
        court.showOutputs(trialTerms, dispute, position, Statements.only(0, _empty()));
        eq(uint256(court.getTrial(court.trialOf(trialTerms)).stage), uint256(Stage.Done), "concluded");
    }

    // ------------------------------------------------------------------ before a request

    /// @dev The data has no leaves, so the record and the tensor's type are the whole answer.
    function test_anHonestClaimantAnswersWhereverTheZeroStands() public {
        for (_zeroAt = 0; _zeroAt < 3; ++_zeroAt) {
            (address[] memory who, bytes32[] memory roots) = (new address[](1), new bytes32[](1));
            (who[0], roots[0]) = (person(uint160(_zeroAt + 1)), Runs.recordHash(_recordOf(_empty())));
            uint256 job = _claimed(who, roots);
            Subject memory s = Subject(IJobs(address(jobs)), job, roots[0]);
            Place[] memory places = new Place[](1);
            places[0] = Place(Piece.Leaf, 0, 0, 256, 0);
            uint256 deposit = dataAvailability.depositOf(Piece.Leaf, PRICE);
            address auditor = person(uint160(_zeroAt + 11));
            vm.deal(auditor, deposit);
            vm.prank(auditor);
            dataAvailability.request{value: deposit}(s, places);

            RecordPiece memory a;
            (a.record, a.checkpoint) = (_recordOf(_empty()), roots[0]);
            TensorPiece memory p;
            (p.shape.dtype, p.shape.dims, p.root) = (1, _dims(), _empty());
            vm.prank(who[0]);
            dataAvailability.provideLeaf(s, places[0], a, p);
            toTheEnd(job);
            finalize(job);
            eq(jobs.jobOf(job).acceptedRoot, roots[0], "the claim stands");
            credited(who[0], STAKE + REWARD, "what was paid in, and the reward");
            yes(dataAvailability.credit(who[0]) > 0, "the answer is paid");
            yes(dataAvailability.credit(auditor) + auditor.balance < deposit, "by who asked");
        }
    }
}
