// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Views} from "../support/Views.sol";
import {Lapsed} from "./Lapsed.sol";
import {Jobs} from "contracts/Jobs.sol";
import {IDataAvailability, Piece, Place, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice The data that may be requested, and the time for it.
contract RequestableTest is Lapsed {
    using Views for Jobs;

    function test_onlyPlacesOfTheProgramCanBeRequested() public {
        bytes4 refused = IDataAvailability.NoSuchPlace.selector;
        requestRefused(ofLogs(_job), digests(0), refused);
        requestRefused(ofLogs(_job), digests(6), refused);
        requestRefused(ofLogs(_job), Place(Piece.Digests, 1, 1, 0, 0), refused);
        requestRefused(ofLogs(_job), Place(Piece.Digests, 1, 0, 1, 0), refused);
        requestRefused(ofLogs(_job), Place(Piece.Digests, 1, 0, 0, 1), refused);
        requestRefused(ofLogs(_job), blocks(1, 3, 0), refused);
        requestRefused(ofLogs(_job), Place(Piece.Blocks, 1, 0, 1, 0), refused);
        requestRefused(ofClaim(_job), recordIn(3, 0), refused);
        requestRefused(ofClaim(_job), recordIn(0, 3), refused);
        requestRefused(ofClaim(_job), Place(Piece.Record, 0, 0, 0, 1), refused);
        requestRefused(ofClaim(_job), leafIn(3, 0, 0, 0), refused);
        request(ofClaim(_job), leafIn(2, 2, 0, 0));
    }

    function test_onlyWhatIsCommittedToCanBeRequested() public {
        requestRefused(ofLogs(_job), recordIn(0, 0), IDataAvailability.NotClaimed.selector);
        requestRefused(ofClaim(_job), digests(1), IDataAvailability.NoSuchLogs.selector);
        uint256 other = claimed(7);
        Subject memory s = Subject(IJobs(address(jobs)), other, 0);
        requestRefused(s, digests(1), IDataAvailability.NoSuchLogs.selector);
        requestRefused(s, recordIn(0, 0), IDataAvailability.NotClaimed.selector);
        s.root = root(7);
        request(s, recordIn(0, 0));
    }

    function test_aBatchIsOfOneRootAndPaid() public {
        Place[] memory list = new Place[](2);
        (list[0], list[1]) = (digests(1), recordIn(0, 0));
        uint256 both = dataAvailability.depositOf(Piece.Digests, PRICE)
            + dataAvailability.depositOf(Piece.Record, PRICE);
        Subject memory s = ofLogs(_job);
        refuses(IDataAvailability.WrongPiece.selector);
        dataAvailability.request{value: both}(s, list);
        list[1] = digests(2);
        refuses(IDataAvailability.WrongDeposit.selector);
        dataAvailability.request{value: both - 1}(s, list);
        refuses(IDataAvailability.NothingRequested.selector);
        dataAvailability.request(s, new Place[](0));
        request(s, list);
    }

    /// @dev An earlier request of one place does not spoil a call that requests many.
    function test_whatIsRequestedAlreadyIsPassedOver() public {
        Subject memory s = ofLogs(_job);
        request(s, digests(1));
        Place[] memory list = new Place[](3);
        (list[0], list[1], list[2]) = (digests(1), digests(2), digests(2));
        request(s, list);
        eq(
            dataAvailability.credit(AUDITOR),
            2 * dataAvailability.depositOf(Piece.Digests, PRICE),
            "one is new"
        );
        eq(dataAvailability.pending(s.jobs, _job, s.root, 0, 0), 2, "two are open");
        uint256 end = _end();
        answer(s, digests(1));
        pass(10);
        request(s, digests(1));
        eq(_end(), end, "nothing is extended for nothing");
    }

    function test_onlyInTheChallengePhase() public {
        vm.warp(_end());
        requestRefused(ofLogs(_job), digests(1), IJobs.WrongPhase.selector);
        uint256 early = post(roundedTerms());
        Subject memory s = Subject(IJobs(address(jobs)), early, 0);
        requestRefused(s, digests(1), IJobs.WrongPhase.selector);
    }

    /// @dev Otherwise a trainer could make the job void, and save the stake that it owes for not revealing.
    function test_logsThatWereNotRevealedCannotBeRequested() public {
        uint256 job = post(roundedTerms());
        join(job, person(2));
        commit(job, person(2), 7);
        pass(PERIOD);
        inPhase(job, JobPhase.Challenge);
        requestRefused(Subject(IJobs(address(jobs)), job, 0), digests(1), IJobs.NothingRevealed.selector);
    }

    function test_onlyTheContractOfRequestsTellsJobs() public {
        refuses(IJobs.NotDataAvailability.selector);
        jobs.extend(_job, 0, 0, 0);
        bytes32 root = ofClaim(_job).root;
        refuses(IJobs.NotDataAvailability.selector);
        jobs.forfeit(_job, root, false, AUDITOR);
    }
}
