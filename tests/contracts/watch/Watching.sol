// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Watch} from "contracts/Watch.sol";
import {IJobs, JobPhase, Program} from "contracts/interfaces/IJobs.sol";
import {Bounty} from "contracts/interfaces/IWatch.sol";

/// @notice A Jobs contract that answers as it is told.
contract ToldJobs {
    JobPhase private _phase = JobPhase.Training;
    uint256 private _stake = 1 ether;
    uint8 private _mode = 1;
    bytes32 private _root;

    function say(JobPhase phase) external {
        _phase = phase;
    }

    function sayStake(uint256 stake) external {
        _stake = stake;
    }

    function sayMode(uint8 mode) external {
        _mode = mode;
    }

    function sayAccepted(bytes32 root) external {
        (_phase, _root) = (JobPhase.Accepted, root);
    }

    function phaseOf(uint256) external view returns (JobPhase) {
        return _phase;
    }

    function stakeOf(uint256) external view returns (uint256) {
        return _stake;
    }

    function programOf(uint256) external view returns (Program memory program) {
        program.mode = _mode;
    }

    function acceptedRoot(uint256) external view returns (bytes32) {
        return _root;
    }
}

/// @title Watching
/// @notice A bounty on a job whose course the test decides.
abstract contract Watching is Base {
    uint256 internal constant STAKE = 1 ether;
    uint256 internal constant POOL = 8 ether;
    uint8 internal constant SHARES = 4;
    uint256 internal constant JOB = 7;
    bytes32 internal constant RIGHT = "right";
    bytes32 internal constant WRONG = "wrong";
    address internal constant FUNDER = address(0xF0);

    Watch internal watch;
    ToldJobs internal jobs;

    constructor() {
        anew();
    }

    function anew() internal {
        watch = Watch(deploy("Watch.sol:Watch", ""));
        jobs = new ToldJobs();
    }

    /// @dev The `n`-th watcher.
    function person(uint160 n) internal pure returns (address) {
        return address(0xA00000 + n);
    }

    function bounty() internal view returns (Bounty memory) {
        return bountyOf(FUNDER);
    }

    function bountyOf(address funder) internal view returns (Bounty memory) {
        return Bounty(IJobs(address(jobs)), JOB, funder);
    }

    function fund() internal {
        fund(FUNDER, POOL, SHARES);
    }

    function fund(address funder, uint256 amount, uint8 shares) internal {
        vm.deal(funder, amount);
        vm.prank(funder);
        watch.fund{value: amount}(IJobs(address(jobs)), JOB, shares);
    }

    // NOTE: hashing calls the precompile, so a commitment is made before `prank` and `expectRevert`.

    function saltOf(address who) internal pure returns (bytes32) {
        return keccak256(abi.encode(who));
    }

    function commit(address who, bytes32 root) internal {
        bytes32 commitment = watch.commitmentOf(JOB, who, root, saltOf(who));
        vm.deal(who, who.balance + STAKE);
        vm.prank(who);
        watch.watch{value: STAKE}(bounty(), commitment);
    }

    function show(address who, bytes32 root) internal {
        vm.prank(who);
        watch.show(bounty(), root, saltOf(who));
    }

    /// @dev The first `right` people have found the right root, and have shown it.
    function shown(uint160 right) internal {
        for (uint160 n = 1; n <= right; ++n) {
            commit(person(n), RIGHT);
        }
        jobs.say(JobPhase.Challenge);
        for (uint160 n = 1; n <= right; ++n) {
            show(person(n), RIGHT);
        }
    }

    function collect(address who) internal {
        watch.collect(bounty(), who);
    }

    function credited(address who, uint256 want, string memory what) internal view {
        eq(watch.credit(who), want, what);
    }

    function burned() internal view returns (uint256) {
        return watch.credit(watch.BURNED());
    }
}
