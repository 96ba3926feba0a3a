// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Views} from "../support/Views.sol";
import {Lapsed} from "./Lapsed.sol";
import {Jobs} from "contracts/Jobs.sol";
import {IDemands, Piece, Place, Subject} from "contracts/interfaces/IDemands.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice What may be demanded, and when.
contract DemandableTest is Lapsed {
    using Views for Jobs;

    function test_onlyPlacesOfTheProgramCanBeDemanded() public {
        bytes4 refused = IDemands.NoSuchPlace.selector;
        demandRefused(ofLogs(_job), digests(0), refused);
        demandRefused(ofLogs(_job), digests(6), refused);
        demandRefused(ofLogs(_job), Place(Piece.Digests, 1, 1, 0, 0), refused);
        demandRefused(ofLogs(_job), Place(Piece.Digests, 1, 0, 1, 0), refused);
        demandRefused(ofLogs(_job), Place(Piece.Digests, 1, 0, 0, 1), refused);
        demandRefused(ofLogs(_job), blocks(1, 3, 0), refused);
        demandRefused(ofLogs(_job), Place(Piece.Blocks, 1, 0, 1, 0), refused);
        demandRefused(ofClaim(_job), recordIn(3, 0), refused);
        demandRefused(ofClaim(_job), recordIn(0, 3), refused);
        demandRefused(ofClaim(_job), Place(Piece.Record, 0, 0, 0, 1), refused);
        demandRefused(ofClaim(_job), leafIn(3, 0, 0, 0), refused);
        demand(ofClaim(_job), leafIn(2, 2, 0, 0));
    }

    function test_onlyWhatIsCommittedToCanBeDemanded() public {
        demandRefused(ofLogs(_job), recordIn(0, 0), IDemands.NotClaimed.selector);
        demandRefused(ofClaim(_job), digests(1), IDemands.NoSuchLogs.selector);
        uint256 other = claimed(7);
        Subject memory s = Subject(IJobs(address(jobs)), other, 0);
        demandRefused(s, digests(1), IDemands.NoSuchLogs.selector);
        demandRefused(s, recordIn(0, 0), IDemands.NotClaimed.selector);
        s.root = root(7);
        demand(s, recordIn(0, 0));
    }

    function test_aBatchIsOfOneRootAndPaid() public {
        Place[] memory list = new Place[](2);
        (list[0], list[1]) = (digests(1), recordIn(0, 0));
        uint256 both = demands.depositOf(Piece.Digests, PRICE) + demands.depositOf(Piece.Record, PRICE);
        Subject memory s = ofLogs(_job);
        refuses(IDemands.WrongPiece.selector);
        demands.demand{value: both}(s, list);
        list[1] = digests(2);
        refuses(IDemands.WrongDeposit.selector);
        demands.demand{value: both - 1}(s, list);
        refuses(IDemands.NothingDemanded.selector);
        demands.demand(s, new Place[](0));
        demand(s, list);
    }

    /// @dev Whoever is first to demand one of many places does not keep another from the rest.
    function test_whatIsDemandedAlreadyIsPassedOver() public {
        Subject memory s = ofLogs(_job);
        demand(s, digests(1));
        Place[] memory list = new Place[](3);
        (list[0], list[1], list[2]) = (digests(1), digests(2), digests(2));
        demand(s, list);
        eq(demands.credit(AUDITOR), 2 * demands.depositOf(Piece.Digests, PRICE), "one is new");
        eq(demands.pending(s.jobs, _job, s.root, 0, 0), 2, "two are open");
        uint256 end = _end();
        answer(s, digests(1));
        pass(10);
        demand(s, digests(1));
        eq(_end(), end, "nothing is extended for nothing");
    }

    function test_onlyInTheChallengePhase() public {
        vm.warp(_end());
        demandRefused(ofLogs(_job), digests(1), IJobs.WrongPhase.selector);
        uint256 early = post(roundedTerms());
        Subject memory s = Subject(IJobs(address(jobs)), early, 0);
        demandRefused(s, digests(1), IJobs.WrongPhase.selector);
    }

    /// @dev A trainer could make the job void, and save the stake that it owes for not revealing.
    function test_logsThatWereNotRevealedCannotBeDemanded() public {
        uint256 job = post(roundedTerms());
        join(job, person(2));
        commit(job, person(2), 7);
        pass(PERIOD);
        inPhase(job, JobPhase.Challenge);
        demandRefused(Subject(IJobs(address(jobs)), job, 0), digests(1), IJobs.NothingRevealed.selector);
    }

    function test_onlyTheContractOfDemandsTellsJobs() public {
        refuses(IJobs.NotDemands.selector);
        jobs.extend(_job, 0, 0, 0);
        bytes32 root = ofClaim(_job).root;
        refuses(IJobs.NotDemands.selector);
        jobs.forfeit(_job, root, false, AUDITOR);
    }
}
