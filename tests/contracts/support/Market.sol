// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Runs} from "./Runs.sol";
import {Views} from "./Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Referee} from "contracts/Referee.sol";
import {VerifierRegistry} from "contracts/VerifierRegistry.sol";
import {Claim, Group, Job, JobPhase, StakedClaim, Terms, Trainer} from "contracts/interfaces/IJobs.sol";
import {Exhibit, Record} from "contracts/interfaces/IReferee.sol";

/// @title Market
/// @notice The three contracts together, with jobs so small that a claim is the record of one node in one step.
///
/// A claim is named by its output: `claim(7)` claims that the output is 7. Matches begin at the open record.
abstract contract Market is Base {
    using Views for Jobs;

    uint256 internal constant STAKE = 1 ether;
    uint256 internal constant REWARD = 10 ether;
    uint32 internal constant PERIOD = 1000;
    uint32 internal constant CLOCK = 100;
    bytes internal constant STRUCTURE = hex"000100010100"; // no input, one f32 of rank 0
    address internal constant CLIENT = address(0xC11E);

    uint256[] internal keys = [uint256(0x101), 0x102, 0x103];
    VerifierRegistry internal registry =
        VerifierRegistry(deploy("VerifierRegistry.sol:VerifierRegistry", abi.encode(1 ether, 7 days)));
    Jobs internal jobs = Jobs(deploy("Jobs.sol:Jobs", abi.encode(registry, 0.1 ether, 60)));
    Referee internal referee = Referee(deploy("Referee.sol:Referee", ""));

    constructor() {
        vm.warp(1_700_000_000);
        vm.deal(CLIENT, 1000 ether);
        for (uint256 i = 0; i < keys.length; ++i) {
            fund(verifier(i));
            vm.prank(verifier(i));
            registry.register{value: 1 ether}("http://verifier");
        }
    }

    // ------------------------------------------------------------------ people

    function verifier(uint256 i) internal view returns (address) {
        return vm.addr(keys[i]);
    }

    /// @dev The `n`-th trainer or challenger.
    function person(uint160 n) internal returns (address account) {
        account = address(0xF00000 + n);
        if (account.balance < STAKE) fund(account);
    }

    function fund(address account) internal {
        vm.deal(account, 100 ether);
    }

    // ------------------------------------------------------------------ terms

    function terms(uint8 slots) internal view returns (Terms memory t) {
        t.program.opsetVersion = 1;
        t.program.mode = 1;
        t.program.nodeCount = 1;
        t.program.steps = 1;
        t.program.structureRoot = sha256(abi.encodePacked(uint8(0x03), STRUCTURE));
        t.program.strides = new uint64[](1);
        t.program.strides[0] = 1;
        t.programFile = keccak256("program file");
        t.uri = "http://client";
        t.referee = address(referee);
        t.slots = slots;
        t.stake = STAKE;
        (t.trainPeriod, t.revealPeriod, t.challengePeriod) = (PERIOD, PERIOD, PERIOD);
        (t.clock, t.verdictPeriod, t.threshold) = (CLOCK, PERIOD, 2);
        t.verifiers = new address[](keys.length);
        for (uint256 i = 0; i < keys.length; ++i) {
            t.verifiers[i] = verifier(i);
        }
    }

    /// @dev Of 32 bits, proven bounds and sparse logs.
    function roundedTerms() internal view returns (Terms memory t) {
        t = terms(1);
        t.program.mode = 0x86;
    }

    function post(Terms memory t) internal returns (uint256) {
        vm.prank(CLIENT);
        return jobs.post{value: REWARD}(t);
    }

    function post(uint8 slots) internal returns (uint256) {
        return post(terms(slots));
    }

    // ------------------------------------------------------------------ claims

    function record(uint256 output) internal pure returns (Record memory r) {
        r.structure = sha256(abi.encodePacked(uint8(0x03), STRUCTURE));
        r.outputs = new bytes32[](1);
        r.outputs[0] = bytes32(output);
    }

    function root(uint256 output) internal pure returns (bytes32) {
        return Runs.recordHash(record(output));
    }

    function claim(uint256 output) internal pure returns (Claim memory c) {
        (c.root, c.last, c.uri) = (root(output), root(output), "http://claim");
    }

    function join(uint256 job, address who) internal {
        vm.prank(who);
        jobs.join{value: STAKE}(job);
    }

    function commit(uint256 job, address who, uint256 output) internal {
        bytes32 commitment = jobs.commitmentOf(job, who, root(output), root(output), 0, bytes32(output));
        vm.prank(who);
        jobs.commit(job, commitment);
    }

    function reveal(uint256 job, address who, uint256 output) internal {
        Claim memory c = claim(output);
        vm.prank(who);
        jobs.reveal(job, c, 0, bytes32(output));
    }

    // NOTE: hashing is a call of the precompile, so a claim is built before `prank` and `expectRevert`.

    function revealRefused(uint256 job, address who, uint256 output, uint256 salt, bytes4 selector) internal {
        Claim memory c = claim(output);
        vm.prank(who);
        refuses(selector);
        jobs.reveal(job, c, 0, bytes32(salt));
    }

    function challenge(uint256 job, address who, uint256 output) internal {
        Claim memory c = claim(output);
        vm.prank(who);
        jobs.challenge{value: STAKE}(job, c);
    }

    function challengeRefused(uint256 job, address who, uint256 output, uint256 value, bytes4 selector)
        internal
    {
        Claim memory c = claim(output);
        vm.prank(who);
        refuses(selector);
        jobs.challenge{value: value}(job, c);
    }

    function isClaimed(uint256 job, uint256 output) internal view returns (bool) {
        Group[] memory groups = jobs.groupsOf(job);
        for (uint256 i = 0; i < groups.length; ++i) {
            if (groups[i].root == root(output)) return groups[i].spokesman < groups[i].members.length;
        }
        return false;
    }

    /// @dev A job whose trainers (persons 1, 2, ...) have claimed these outputs; now in its challenge phase.
    function claimed(uint256[] memory outputs) internal returns (uint256 job) {
        job = post(uint8(outputs.length));
        for (uint160 i = 0; i < outputs.length; ++i) {
            join(job, person(i + 1));
            commit(job, person(i + 1), outputs[i]);
        }
        for (uint160 i = 0; i < outputs.length; ++i) {
            reveal(job, person(i + 1), outputs[i]);
        }
    }

    function claimed(uint256 a) internal returns (uint256) {
        uint256[] memory outputs = new uint256[](1);
        outputs[0] = a;
        return claimed(outputs);
    }

    function claimed(uint256 a, uint256 b) internal returns (uint256) {
        uint256[] memory outputs = new uint256[](2);
        (outputs[0], outputs[1]) = (a, b);
        return claimed(outputs);
    }

    function claimed(uint256 a, uint256 b, uint256 c) internal returns (uint256) {
        uint256[] memory outputs = new uint256[](3);
        (outputs[0], outputs[1], outputs[2]) = (a, b, c);
        return claimed(outputs);
    }

    // ------------------------------------------------------------------ matches

    /// @dev The match that the group of this output is in.
    function matchOf(uint256 job, uint256 output) internal view returns (uint256) {
        return groupOf(job, output).matchId;
    }

    function groupOf(uint256 job, uint256 output) internal view returns (Group memory) {
        Group[] memory groups = jobs.groupsOf(job);
        for (uint256 i = 0; i < groups.length; ++i) {
            if (groups[i].root == root(output)) return groups[i];
        }
        revert NotSo("there is such a group");
    }

    function spokesman(uint256 job, uint256 output) internal view returns (address) {
        Group memory group = groupOf(job, output);
        return jobs.claimsOf(job)[group.members[group.spokesman]].owner;
    }

    /// @dev The other side stays silent.
    function winByDefault(uint256 job, uint256 output) internal {
        uint256 id = matchOf(job, output);
        uint8 side = referee.getMatch(id).node[0] == root(output) ? 0 : 1;
        referee.openRecord(id, side, record(output));
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
    }

    function callVerifiers(uint256 id, uint256 output0, uint256 output1) internal {
        Exhibit memory e;
        (e.record0, e.record1, e.structure) = (record(output0), record(output1), STRUCTURE);
        referee.callVerifiers(id, e);
    }

    /// @dev Two verifiers find that this output is right.
    function decide(uint256 id, uint256 output) internal {
        for (uint256 i = 0; i < 2; ++i) {
            (uint8 v, bytes32 r, bytes32 s) = vm.sign(keys[i], referee.verdictDigest(id, root(output)));
            referee.attest(id, root(output), abi.encodePacked(r, s, v));
        }
    }

    // ------------------------------------------------------------------ checks

    function inPhase(uint256 job, JobPhase want) internal view {
        eq(uint256(jobs.phaseOf(job)), uint256(want), "phase");
    }

    function credited(address account, uint256 want, string memory what) internal view {
        eq(jobs.credit(account), want, what);
    }

    function burned() internal view returns (uint256) {
        return jobs.credit(jobs.BURNED());
    }
}
