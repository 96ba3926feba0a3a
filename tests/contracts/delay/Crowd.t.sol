// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Claim, Group} from "contracts/interfaces/IJobs.sol";

/// @notice The gas of each move of a job beside 1, 10, 100 and 1,000 other claims: it is the same.
/// forge-config: default.isolate = true
contract CrowdTest is Market {
    using Views for Jobs;

    uint256 private constant LIE = 1000;
    /// @dev The gas of each kind of move, with one other claim.
    mapping(string move => uint256 gas) private _alone;

    /// @dev NOTE: others in each job, because the first credit of an account costs more than the next.
    uint256 private _job;

    function _liar(uint256 i) private view returns (address) {
        return address(uint160(0xC0000000 + (_job << 20) + i));
    }

    /// @dev Opens a job with this many claims of different roots, by challengers except for the first.
    function _crowd(uint256 claims) private returns (uint256 job) {
        (job, _job) = (claimed(LIE), _job + 1);
        for (uint256 i = 1; i < claims; ++i) {
            commitTo(job, _liar(i), LIE + i);
        }
        pass(1);
        for (uint256 i = 1; i < claims; ++i) {
            claimNow(job, _liar(i), LIE + i);
        }
    }

    /// @dev Compares the gas of the last call with that beside one other claim, to a fiftieth.
    function _used(string memory move, uint256 others) private {
        uint256 gas = vm.lastCallGas().gasTotalUsed;
        if (others == 1) {
            _alone[move] = gas;
            vm.snapshotValue("crowd", move, gas);
        }
        uint256 want = _alone[move];
        yes(gas <= want + want / 50 && want <= gas + gas / 50, string.concat(move, ": ", vm.toString(gas)));
    }

    /// @dev Measures a claim that waits, one that is paired, one behind a root, and requests.
    function _claims(uint256 others) private {
        uint256 job = _crowd(others);
        if (jobs.jobOf(job).waiting != 0) challenge(job, _liar(5000), 3);
        challenge(job, _liar(5001), 4);
        _used("claim of a new root that waits", others);
        challenge(job, _liar(5002), TRUTH);
        _used("claim of a new root that is paired", others);
        challenge(job, _liar(5003), 4);
        _used("claim behind a root", others);
        winByDefault(job, TRUTH);
        _used("a match ends, and its winner waits", others);
        challenge(job, _liar(5004), 5);
        winByDefault(job, TRUTH);
        _used("a match ends, and two enter", others);
    }

    /// @dev All lose to the truth by default, which is then accepted.
    function _end(uint256 others) private {
        uint256 job = _crowd(others);
        // NOTE: a wei more, because the first credit of an account costs more than the next.
        commitChallenge(job, _liar(6000), TRUTH);
        Claim memory c = claim(TRUTH);
        uint256 value = priceOf(job, TRUTH) + 1;
        vm.deal(_liar(6000), value);
        vm.prank(_liar(6000));
        jobs.challenge{value: value}(job, c, bytes32(TRUTH));
        while (jobs.jobOf(job).openMatches != 0) {
            _round(job);
        }
        toTheEnd(job);
        jobs.finalize(job);
        _used("finalize", others);
        jobs.collect(job, uint32(others));
        _used("collect", others);
        vm.prank(_liar(6000));
        jobs.withdraw();
        _used("withdraw", others);
    }

    /// @dev In every match both sides are silent, except the side that claims the truth.
    function _round(uint256 job) private {
        Group[] memory groups = jobs.groupsOf(job);
        uint256 plays = matchOf(job, TRUTH);
        if (plays != 0) winByDefault(job, TRUTH);
        for (uint256 i = 0; i < groups.length; ++i) {
            uint256 id = groups[i].matchId;
            if (id == 0 || id == plays) continue;
            (bool open,,) = jobs.pairOf(job, id);
            if (!open) continue;
            if (currentSecond() <= referee.deadline(id)) vm.warp(referee.deadline(id) + 1);
            referee.timeout(id);
        }
    }

    /// @dev NOTE: the first burned ether costs more, too.
    function _with(uint256 others) private {
        _end(1);
        _end(others);
        _claims(1);
        _claims(others);
    }

    function test_beside10Others() public {
        _with(10);
    }

    function test_beside100Others() public {
        _with(100);
    }

    function test_beside1000Others() public {
        _with(1000);
    }
}
