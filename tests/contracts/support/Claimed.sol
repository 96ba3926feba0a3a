// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Runs} from "./Runs.sol";
import {Court} from "contracts/Court.sol";
import {DataAvailability} from "contracts/DataAvailability.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Panel} from "contracts/Panel.sol";
import {Referee} from "contracts/Referee.sol";
import {Timekeeper} from "contracts/Timekeeper.sol";
import {VerifierRegistry} from "contracts/VerifierRegistry.sol";
import {Claim, Rules, Terms} from "contracts/interfaces/IJobs.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @title Claimed
/// @notice All contracts, with jobs so small that a claim is the record of one node in one step.
///
/// A claim is named by its output: `claim(7)` claims that the output is 7. Matches begin at the open record.
abstract contract Claimed is Base {
    uint256 internal constant STAKE = 1 ether;
    /// @dev Wei for a unit of gas of an answer.
    uint256 internal constant PRICE = 1 gwei;
    uint256 internal constant REWARD = 10 ether;
    uint32 internal constant PERIOD = 1000;
    uint32 internal constant CLOCK = 100;
    /// @dev `full` of rank 0: no input, one f32 whose bits are 7.
    bytes internal constant STRUCTURE = hex"00500001010000010000000000000007";
    uint256 internal constant TRUTH = 7;
    /// @dev In seconds: these chains have a block each second.
    uint32 internal constant COMMIT_AGE = 1;
    address internal constant CLIENT = address(0xC11E);

    uint256[] internal keys = [uint256(0x101), 0x102, 0x103];
    /// @dev Outputs by the roots that a person has committed to.
    mapping(bytes32 root => uint256 output) private _outputOf;
    address internal constant GUARDIAN = address(0x60A4D);
    uint64 internal constant PAUSES = 1000;
    Timekeeper internal time = Timekeeper(deploy("Timekeeper.sol:Timekeeper", abi.encode(GUARDIAN, PAUSES)));
    VerifierRegistry internal registry =
        VerifierRegistry(deploy("VerifierRegistry.sol:VerifierRegistry", abi.encode(1 ether, 7 days, time)));
    DataAvailability internal dataAvailability =
        DataAvailability(deploy("DataAvailability.sol:DataAvailability", abi.encode(time)));
    address internal notary = deploy("Notary.sol:Notary", abi.encode(registry, 100_000_000, 1 gwei, 60));
    Jobs internal jobs = Jobs(deploy("Jobs.sol:Jobs", abi.encode(notary, dataAvailability, COMMIT_AGE)));
    Court internal court = Court(deploy("Court.sol:Court", abi.encode(_examiner(), time)));
    Panel internal panel = Panel(payable(deploy("Panel.sol:Panel", abi.encode(court, registry))));
    Referee internal referee =
        Referee(deploy("Referee.sol:Referee", abi.encode(deploy("Judge.sol:Judge", ""), panel)));

    constructor() {
        vm.warp(1_700_000_000);
        vm.deal(CLIENT, 1000 ether);
        for (uint256 i = 0; i < keys.length; ++i) {
            fund(verifier(i));
            vm.prank(verifier(i));
            registry.register{value: 1 ether}(address(panel), "http://verifier");
        }
    }

    /// @dev Returns an examiner with the part of the opset that these programs use.
    function _examiner() private returns (address) {
        address[10] memory rules;
        rules[9] = deploy("Sources.sol:Sources", "");
        address opset = deploy("Opset1.sol:Opset1", abi.encode(rules, rules, rules, rules));
        return deploy("Examiner.sol:Examiner", abi.encode(opset));
    }

    // ------------------------------------------------------------------ people

    function verifier(uint256 i) internal view returns (address) {
        return vm.addr(keys[i]);
    }

    /// @dev Returns the `n`-th trainer or challenger.
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
        (t.lowFee, t.highFee) = (1 gwei, 100 gwei);
        (t.trainPeriod, t.revealPeriod, t.challengePeriod) = (PERIOD, PERIOD, PERIOD);
        t.rules = Rules({threshold: 2, verdictPeriod: PERIOD, appealPeriod: PERIOD, clock: CLOCK});
        t.verifiers = new address[](keys.length);
        for (uint256 i = 0; i < keys.length; ++i) {
            t.verifiers[i] = verifier(i);
        }
    }

    /// @dev Returns terms in rounded-f64 with 32 bits, proven bounds and sparse logs.
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
        r.outputs[0] = sha256(abi.encodePacked(hex"020100", dataRoot(output)));
    }

    /// @dev Returns the data root of an f32 with these bits: its only leaf.
    function dataRoot(uint256 output) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(uint8(0x01), leaf(output)));
    }

    function leaf(uint256 output) internal pure returns (bytes memory) {
        return abi.encodePacked(uint8(output), uint8(output >> 8), uint8(output >> 16), uint8(output >> 24));
    }

    /// @dev Returns the output that a root claims.
    function outputOf(bytes32 root_) internal view returns (uint256 output) {
        output = _outputOf[root_];
        while (root(output) != root_) ++output;
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
        _outputOf[root(output)] = output;
        bytes32 commitment = jobs.commitmentOf(job, who, root(output), root(output), 0, bytes32(output));
        vm.prank(who);
        jobs.commit(job, commitment);
    }

    function reveal(uint256 job, address who, uint256 output) internal {
        Claim memory c = claim(output);
        vm.prank(who);
        jobs.reveal(job, c, 0, bytes32(output));
    }

    // NOTE: hashing calls the precompile, so a claim is built before `prank` and `expectRevert`.

    function revealRefused(uint256 job, address who, uint256 output, uint256 salt, bytes4 selector) internal {
        Claim memory c = claim(output);
        vm.prank(who);
        refuses(selector);
        jobs.reveal(job, c, 0, bytes32(salt));
    }

    /// @dev Pays the exact price, which is returned. NOTE: a second passes between the commitment and the claim.
    function challenge(uint256 job, address who, uint256 output) internal returns (uint256 price) {
        commitChallenge(job, who, output);
        return claimNow(job, who, output);
    }

    /// @dev Claims the root that the person has committed to.
    function claimNow(uint256 job, address who, uint256 output) internal returns (uint256 price) {
        Claim memory c = claim(output);
        price = jobs.priceOf(job, c.root);
        if (who.balance < price) vm.deal(who, price);
        vm.prank(who);
        jobs.challenge{value: price}(job, c, bytes32(output));
    }

    function priceOf(uint256 job, uint256 output) internal view returns (uint256) {
        return jobs.priceOf(job, root(output));
    }

    function commitChallenge(uint256 job, address who, uint256 output) internal {
        commitTo(job, who, output);
        pass(1);
    }

    function commitTo(uint256 job, address who, uint256 output) internal {
        _outputOf[root(output)] = output;
        bytes32 commitment = jobs.commitmentOf(job, who, root(output), root(output), 0, bytes32(output));
        vm.prank(who);
        jobs.commitChallenge(job, commitment);
    }

    function challengeRefused(uint256 job, address who, uint256 output, uint256 value, bytes4 selector)
        internal
    {
        Claim memory c = claim(output);
        vm.prank(who);
        refuses(selector);
        jobs.challenge{value: value}(job, c, bytes32(output));
    }

    function isClaimed(uint256 job, uint256 output) internal view returns (bool) {
        (, bool alive) = jobs.standing(job, root(output));
        return alive;
    }

    /// @dev Opens a job whose trainers (persons 1, 2, ...) have claimed these outputs, and enters its challenge phase.
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
}
