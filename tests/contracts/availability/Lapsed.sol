// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Requested} from "./Requested.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Place, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice The job of the tests of requests, and its course when nobody answers.
abstract contract Lapsed is Requested {
    using Trees for Tree;
    using Views for Jobs;

    /// @dev Twice the time for 512 open pages of blocks, one a minute.
    uint256 internal constant LISTS = 61_440;

    uint256 internal _job;

    constructor() {
        _job = runClaimed();
    }

    function _end() internal view returns (uint256) {
        return jobs.jobOf(_job).challengeEnd;
    }

    function _lapse(Subject memory s, Place memory place) internal {
        request(s, place);
        pass(PERIOD + 1);
        dataAvailability.close(s, place);
    }

    function closeRefused(Subject memory s, Place memory place, bytes4 selector) internal {
        refuses(selector);
        dataAvailability.close(s, place);
    }

    /// @dev Both groups of the first match lose by their clocks, or only this side if the other has revealed.
    function _timeOut(uint256 id) internal {
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
    }

    function _children(address who) internal pure returns (bytes32[] memory nodes) {
        nodes = new bytes32[](4);
        for (uint256 i = 0; i < 4; ++i) {
            nodes[i] = runTree().levels[0][i];
        }
        nodes[0] = sha256(abi.encode(who));
    }

    function _claimAgain(address who) internal {
        bytes32 root = ofClaim(_job).root;
        bytes32 last = stepTree(STEPS).root();
        bytes32 commitment = jobs.commitmentOf(_job, who, root, last, 0, "salt");
        vm.prank(who);
        jobs.commitChallenge(_job, commitment);
        pass(1);
        Claim memory c = Claim(root, last, runTree().path(2), "http://claim");
        uint256 price = jobs.priceOf(_job, root);
        vm.prank(who);
        jobs.challenge{value: price}(_job, c, "salt");
    }

    function _finalizedVoid() internal {
        toTheEnd(_job);
        finalize(_job);
        inPhase(_job, JobPhase.Void);
    }
}
