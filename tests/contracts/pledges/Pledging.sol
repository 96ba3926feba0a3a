// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Pledges} from "contracts/Pledges.sol";
import {IJobs} from "contracts/interfaces/IJobs.sol";
import {Backed, Conditions, Written} from "contracts/interfaces/IPledges.sol";
import {JobPhase, Program, Rules, Terms} from "contracts/interfaces/JobTypes.sol";

/// @notice A Jobs contract that answers as it is told, with a time of its own. Jobs are numbered from 1.
contract ToldJobs {
    uint32 public constant COMMIT_AGE = 48;
    Program private _program;
    mapping(uint256 jobId => JobPhase) public phaseOf;
    mapping(uint256 jobId => bytes32) public acceptedRoot;
    uint256 public count;
    Terms private _last;

    function TIME() external view returns (address) {
        return address(this);
    }

    function time() external view returns (uint256) {
        return block.timestamp;
    }

    function post(Terms calldata terms) external payable returns (uint256) {
        _program = terms.program;
        _last = terms;
        phaseOf[++count] = JobPhase.Training;
        return count;
    }

    function last() external view returns (Terms memory) {
        return _last;
    }

    function programOf(uint256) external view returns (Program memory) {
        return _program;
    }

    function end(uint256 jobId, JobPhase phase, bytes32 root) external {
        (phaseOf[jobId], acceptedRoot[jobId]) = (phase, root);
    }
}

/// @title Pledging
/// @notice A pledge behind receipts of a run of one node and one step, whose jobs end as the test decides.
abstract contract Pledging is Base {
    uint256 internal constant KEY = 0xBEEF;
    uint256 internal constant FORFEIT = 2 ether;
    uint256 internal constant CHARGE = 0.2 ether;
    uint256 internal constant STAKE = 6.4 ether;
    uint32 internal constant NOTICE = 7 days;
    uint32 internal constant PERIOD = 1 hours;
    address internal constant OWNER = address(0xA1);
    address internal constant USER = address(0xB2);
    address internal constant BURNED = 0x000000000000000000000000000000000000dEaD;
    bytes32 internal constant SALT = "salt";
    bytes32 internal constant RIGHT = "right";
    bytes32 internal constant FALSE = "false";

    Pledges internal pledges;
    ToldJobs internal jobs;

    constructor() {
        vm.warp(1_000_000);
        jobs = new ToldJobs();
        pledges = Pledges(deploy("Pledges.sol:Pledges", abi.encode(address(jobs), address(0xEF))));
        pledge(3 ether);
    }

    function conditions() internal pure returns (Conditions memory c) {
        (c.signer, c.forfeit, c.charge, c.notice) = (vm.addr(KEY), uint96(FORFEIT), uint96(CHARGE), NOTICE);
        (c.stake, c.lowFee, c.highFee) = (STAKE, 1 gwei, 100 gwei);
        (c.trainPeriod, c.revealPeriod, c.challengePeriod) = (PERIOD, PERIOD, PERIOD);
        c.rules = Rules(0, PERIOD, PERIOD, PERIOD);
    }

    function program() internal pure returns (Program memory p) {
        (p.opsetVersion, p.mode, p.nodeCount, p.slotCount, p.steps) = (1, 1, 1, 1, 1);
        p.slotRoot = sha256(abi.encodePacked(uint8(0x05), uint32(0), uint8(0)));
        p.strides = new uint64[](1);
        p.strides[0] = 1;
    }

    function programHash() internal pure returns (bytes32) {
        Program memory p = program();
        bytes memory sizes =
            abi.encodePacked(uint8(0x06), uint32(1), uint8(1), uint32(1), uint32(1), uint32(0), uint64(1));
        bytes memory roots = abi.encodePacked(p.structureRoot, p.slotRoot, p.constantRoot, p.initialRoot);
        return sha256(abi.encodePacked(sizes, roots, uint8(1), uint64(1)));
    }

    /// @dev A receipt of the answer `answer` that says that this was written.
    function backed(bytes32 answer, bytes32 value) internal view returns (Backed memory) {
        return Backed(OWNER, answer, programHash(), "file", value, uint64(1_000_000 + NOTICE));
    }

    function signature(uint256 key, Backed memory b) internal view returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, pledges.digestOf(b));
        return abi.encodePacked(r, s, v);
    }

    /// @dev What a run with this value has written, and its root: of one step with one node, the record's hash.
    function writtenOf(bytes32 value) internal pure returns (Written memory w, bytes32 root) {
        w.record.outputs = new bytes32[](1);
        w.record.outputs[0] = value;
        root = sha256(
            abi.encodePacked(uint8(0x04), bytes32(0), uint8(0), uint8(1), w.record.outputs, bytes32(0))
        );
        w.last = root;
    }

    function pledge(uint256 amount) internal {
        vm.deal(OWNER, OWNER.balance + amount);
        vm.prank(OWNER);
        pledges.pledge{value: amount}(conditions());
    }

    function commit(address who, Backed memory b) internal {
        pledges.commit(pledges.commitmentOf(who, pledges.digestOf(b), SALT));
        pass(48);
    }

    function challenge(address who, Backed memory b) internal returns (uint256) {
        commit(who, b);
        return challengeNow(who, b);
    }

    /// @dev Challenges what was committed to. NOTE: a prank is for the next call, so all else is called before it.
    function challengeNow(address who, Backed memory b) internal returns (uint256) {
        vm.deal(who, who.balance + CHARGE);
        (Conditions memory c, Program memory p) = (conditions(), program());
        bytes memory s = signature(KEY, b);
        vm.prank(who);
        return pledges.challenge{value: CHARGE}(c, b, s, p, "http://user", 0, SALT);
    }

    function accept(uint256 jobId, bytes32 value) internal {
        (, bytes32 root) = writtenOf(value);
        jobs.end(jobId, JobPhase.Accepted, root);
    }

    function decide(Backed memory b, bytes32 value) internal {
        (Written memory w,) = writtenOf(value);
        pledges.decide(conditions(), b, w);
    }

    function left() internal view returns (uint256) {
        return pledges.pledgeOf(OWNER).amount;
    }

    /// @dev The contract has what it owes, with so many challenges open.
    function solvent(uint256 open) internal view {
        uint256 credits = pledges.credit(OWNER) + pledges.credit(USER) + pledges.credit(BURNED);
        eq(address(pledges).balance, credits + left() + CHARGE * open, "balance");
    }
}
