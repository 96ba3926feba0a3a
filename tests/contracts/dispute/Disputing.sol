// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Positions} from "../support/Positions.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Large} from "./Large.sol";
import {Court} from "contracts/Court.sol";
import {DataAvailability} from "contracts/DataAvailability.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Panel} from "contracts/Panel.sol";
import {Referee} from "contracts/Referee.sol";
import {Timekeeper} from "contracts/Timekeeper.sol";
import {VerifierRegistry} from "contracts/VerifierRegistry.sol";
import {IRule} from "contracts/element/IRule.sol";
import {Claim, Group, Job, StakedClaim, Terms} from "contracts/interfaces/IJobs.sol";
import {MatchTerms, Position} from "contracts/interfaces/IReferee.sol";

/// @title Disputing
/// @notice The contracts, a job whose trainer is wrong and whose challenger is right, with their gas.
///
/// A dispute is all transactions of both sides from the opening of the match to the payment of the prize. The
/// commitment and the claim before it cost a challenger the same without a dispute.
abstract contract Disputing is Base {
    using Trees for Tree;

    address internal constant TRAINER = address(0xA11CE); // side 0
    address internal constant CHALLENGER = address(0xB0B); // side 1
    uint256 internal constant STAKE = 1 ether;

    Timekeeper internal time =
        Timekeeper(deploy("Timekeeper.sol:Timekeeper", abi.encode(address(0x60A4D), 30 days)));
    VerifierRegistry internal registry =
        VerifierRegistry(deploy("VerifierRegistry.sol:VerifierRegistry", abi.encode(1 ether, 7 days, time)));
    DataAvailability internal dataAvailability =
        DataAvailability(deploy("DataAvailability.sol:DataAvailability", abi.encode(time)));
    address internal notary = deploy("Notary.sol:Notary", abi.encode(registry, 100_000_000, 1 gwei, 60));
    Jobs internal jobs = Jobs(deploy("Jobs.sol:Jobs", abi.encode(notary, dataAvailability, 1)));
    IRule internal rule = IRule(deploy("Contractions.sol:Contractions", ""));
    Court internal court = Court(deploy("Court.sol:Court", abi.encode(_examiner(), time)));
    Panel internal panel = Panel(payable(deploy("Panel.sol:Panel", abi.encode(court, registry))));
    Referee internal referee =
        Referee(deploy("Referee.sol:Referee", abi.encode(deploy("Judge.sol:Judge", ""), panel)));
    uint256[] internal keys = [uint256(0x101), 0x102, 0x103];

    /// @dev Length of the sums of the operator in dispute.
    uint64 internal k = 8192;
    uint256 internal job;
    uint256 internal matchId;
    MatchTerms internal matchTerms;
    Position internal here;
    /// @dev The moves of the next transaction.
    bytes[] internal calls;
    /// @dev Gas before the dispute: the commitment, and the challenge without the opening.
    uint256 internal committed;
    uint256 internal challenged;
    /// @dev Gas of the dispute so far.
    uint256 internal sum;
    uint256 internal transactions;

    /// @dev Prefix of the names of measurements; if it is empty nothing is recorded.
    string internal kind;

    function setUp() external {
        vm.warp(1_700_000_000);
        for (uint256 i = 0; i < keys.length; ++i) {
            vm.deal(vm.addr(keys[i]), 1 ether);
            vm.prank(vm.addr(keys[i]));
            registry.register{value: 1 ether}(address(panel), "http://verifier");
        }
        _earlierDispute();
    }

    function _examiner() private returns (address) {
        address[10] memory rules;
        rules[5] = address(rule);
        address opset = deploy("Opset1.sol:Opset1", abi.encode(rules, rules, rules, rules));
        return deploy("Examiner.sol:Examiner", abi.encode(opset));
    }

    // ------------------------------------------------------------------ the job

    /// @dev NOTE: burned ether is the credit of an account; a deployment's first dispute creates it, for 17,100 more.
    function _earlierDispute() private {
        uint256 earlier = _post({verifiers: false});
        _claimAs(earlier, address(0xDA), 0);
        _commitAs(earlier, address(0xDB), 1);
        vm.warp(1_700_000_001);
        _challengeAs(earlier, address(0xDB), 1);
        (,,,, Group[] memory groups) = jobs.viewOf(earlier);
        vm.warp(referee.deadline(groups[0].matchId) + 1);
        referee.timeout(groups[0].matchId);
        yes(jobs.credit(jobs.BURNED()) == 2 * STAKE, "both have lost by default");
    }

    /// @dev Opens a match between the trainer and the challenger. The sum begins with its opening.
    function open(bool verifiers) internal {
        job = _post(verifiers);
        _claimAs(job, TRAINER, 0);
        _commitAs(job, CHALLENGER, 1);
        committed = _used();
        pass(1);
        _challengeAs(job, CHALLENGER, 1);
        challenged = _used();

        (,,,, Group[] memory groups) = jobs.viewOf(job);
        matchId = groups[0].matchId;
        (matchTerms.roots, matchTerms.players) = ([groups[0].root, groups[1].root], [TRAINER, CHALLENGER]);
        (matchTerms.clock, matchTerms.number, matchTerms.program) =
        (1 days, uint48(matchId), Large.program(k));
        here = Positions.opened(matchTerms);
        // Measures the opening by itself: the same call as a transaction of its own, not as a part of the challenge.
        // NOTE: it includes a base cost and calldata that a challenge does not pay, but not the storage of Jobs.
        vm.prank(address(jobs));
        referee.open(
            job,
            matchTerms.roots,
            matchTerms.players,
            matchTerms.clock,
            matchTerms.number + 1,
            matchTerms.program
        );
        sum = _used();
        challenged -= sum;
        _saved("open", sum);
    }

    function _post(bool verifiers) private returns (uint256) {
        Terms memory t;
        t.program = Large.program(k);
        (t.programFile, t.uri, t.referee) = (keccak256("program"), "https://client.example", address(referee));
        (t.slots, t.stake) = (1, STAKE);
        (t.lowFee, t.highFee) = (1 gwei, 100 gwei);
        (t.trainPeriod, t.revealPeriod, t.challengePeriod) = (1 days, 1 days, 1 days);
        (t.rules.clock, t.rules.verdictPeriod, t.rules.appealPeriod) = (1 days, 1 days, 1 days);
        if (verifiers) {
            (t.rules.threshold, t.verifiers) = (2, new address[](3));
            for (uint256 i = 0; i < 3; ++i) {
                t.verifiers[i] = vm.addr(keys[i]);
            }
        }
        return jobs.post{value: 1 ether}(t);
    }

    function _claim(uint256 side) private view returns (Claim memory claim) {
        Tree memory tree = Large.run(k, side, false);
        (claim.root, claim.last, claim.lastPath) = (tree.root(), tree.levels[0][999], tree.path(999));
        claim.uri = "https://party.example:8471/artifacts";
    }

    function _claimAs(uint256 id, address who, uint256 side) private {
        Claim memory claim = _claim(side);
        vm.deal(who, STAKE);
        vm.prank(who);
        jobs.join{value: STAKE}(id);
        bytes32 commitment = jobs.commitmentOf(id, who, claim.root, claim.last, 0, "salt");
        vm.prank(who);
        jobs.commit(id, commitment);
        vm.prank(who);
        jobs.reveal(id, claim, 0, "salt");
    }

    function _commitAs(uint256 id, address who, uint256 side) private {
        Claim memory claim = _claim(side);
        bytes32 commitment = jobs.commitmentOf(id, who, claim.root, claim.last, 0, "salt");
        vm.prank(who);
        jobs.commitChallenge(id, commitment);
    }

    function _challengeAs(uint256 id, address who, uint256 side) private {
        Claim memory claim = _claim(side);
        vm.deal(who, STAKE);
        vm.prank(who);
        jobs.challenge{value: STAKE}(id, claim, "salt");
    }

    /// @dev Checks that the dispute has ended as it should, for at most `most` gas.
    function end(uint256 most) internal {
        (, Job memory j,, StakedClaim[] memory claims,) = jobs.viewOf(job);
        yes(claims[0].lost && !claims[1].lost && j.openMatches == 0, "the trainer loses");
        // NOTE: if verifiers decided, their shares come out of its half.
        uint256 prize = jobs.credit(CHALLENGER);
        for (uint256 i = 0; i < keys.length; ++i) {
            prize += jobs.credit(vm.addr(keys[i]));
        }
        eq(prize, STAKE / 2, "the challenger has the prize");
        _saved(string.concat("all ", vm.toString(transactions), " transactions"), sum);
        yes(sum <= most, "no more gas than that");
    }

    // ------------------------------------------------------------------ transactions

    /// @dev Sends the calls as one transaction.
    function flush(address who, address to) internal returns (uint256 used) {
        bytes[] memory list = calls;
        delete calls;
        vm.prank(who);
        (bool ok, bytes memory answer) =
            to.call(list.length == 1 ? list[0] : abi.encodeCall(Court(to).multicall, (list)));
        used = _used();
        sum += used;
        ++transactions;
        if (ok) return used;
        assembly ("memory-safe") {
            revert(add(answer, 0x20), mload(answer))
        }
    }

    function flush(address who, address to, string memory name) internal {
        _saved(name, flush(who, to));
    }

    function _saved(string memory name, uint256 value) private {
        if (bytes(kind).length > 0) vm.snapshotValue("dispute", string.concat(kind, ": ", name), value);
    }

    function _used() private view returns (uint256) {
        return vm.lastCallGas().gasTotalUsed;
    }
}
