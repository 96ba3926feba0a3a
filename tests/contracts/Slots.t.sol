// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Counting} from "./support/Counting.sol";
import {Market} from "./support/Market.sol";
import {Statements} from "./support/Statements.sol";
import {LogBlock} from "contracts/commit/Logs.sol";
import {Dispute, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {Inputs, Opening} from "contracts/interfaces/IExaminer.sol";
import {Claim, Terms} from "contracts/interfaces/IJobs.sol";

/// @notice What each transaction of a whole job leaves in the state (see Counting), and its gas. scripts/gas_schedules.py
/// prices them. Two trainers have different roots; a verdict for the wrong one is appealed and tried.
/// forge-config: default.isolate = true
contract SlotsTest is Market, Counting {
    /// @dev Longer than a word, as most are.
    string private constant URI = "https://trainer.example/artifacts/of/this/job";

    bool private _records;
    // ------------------------------------------------------------------ the job

    function test_storageOfAJobWithAVerdictAnAppealAndATrial() public {
        _records = true;
        _play();
    }

    function test_gasOfTheSameJob() public {
        _play();
    }

    function test_storageOfAChallenge() public {
        uint256 job = claimed(7);
        record();
        commitTo(job, person(2), 8);
        counted("counts", "commitChallenge");
        pass(1);
        record();
        claimNow(job, person(2), 8);
        counted("counts", "challenge");
    }

    function _play() private {
        _earlier();
        Terms memory t = terms(2);
        t.uri = "https://client.example/artifacts";
        _begin();
        uint256 job = post(t);
        _count("01 post");
        for (uint160 n = 1; n < 3; ++n) {
            person(n);
            _begin();
            join(job, person(n));
            _count(n == 1 ? "02 join, first" : "03 join, second");
        }
        for (uint160 n = 1; n < 3; ++n) {
            _begin();
            commit(job, person(n), 6 + n);
            _count(n == 1 ? "04 commit, first" : "05 commit, second");
        }
        for (uint160 n = 1; n < 3; ++n) {
            Claim memory c = claim(6 + n);
            c.uri = URI;
            vm.prank(person(n));
            _begin();
            jobs.reveal(job, c, 0, bytes32(uint256(6 + n)));
            _count(n == 1 ? "06 reveal, first" : "07 reveal, second: opens the match");
        }
        uint256 id = matchOf(job, 7);
        _hear(id);
        _try(id);
        pass(PERIOD);
        _begin();
        proceed(id);
        _count("17 proceed: two bonds are taken");
        _end(job);
    }

    /// @dev A job before this one, so that nothing is the first of its kind in the deployment.
    function _earlier() private {
        uint256 job = post(2);
        join(job, person(11));
        join(job, person(12));
        commit(job, person(11), 11);
        commit(job, person(12), 12);
        reveal(job, person(11), 11);
        reveal(job, person(12), 12);
        uint256 id = matchOf(job, 11);
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
        toTheEnd(job);
        jobs.finalize(job);
    }

    function _hear(uint256 id) private {
        _begin();
        referee.openRecord(id, here(id), 0, record(7));
        _count("08 openRecord, first");
        _begin();
        referee.openRecord(id, here(id), 1, record(8));
        _count("09 openRecord, second");
        _begin();
        submit(id, 7, 8);
        _count("10 submit");
        _begin();
        vote(id, 0, 8);
        _count("11 attest, first");
        _begin();
        vote(id, 1, 8);
        _count("12 attest, verdict");
        _begin();
        appeal(id, person(1));
        _count("13 appeal");
    }

    function _try(uint256 id) private {
        Dispute memory d = disputeOf(id);
        TrialTerms memory trialTerms = trialTermsOf(id, d);
        Inputs memory none;
        LogBlock memory log;
        TrialPosition memory position;
        bytes32[2] memory roots = [dataRoot(7), dataRoot(8)];
        _begin();
        court.showOutputs(trialTerms, d, position, roots);
        _count("14 showOutputs");
        position.nodes = roots;
        _begin();
        court.compare(trialTerms, d, position, leaf(7), leaf(8), none, log);
        _count("15 compare");
        bytes memory first = new bytes(8);
        position = Statements.found([uint64(7), uint64(8)], first);
        _begin();
        court.judge(trialTerms, d, position, none, first, new Opening[](0));
        _count("16 judge: the verdict is overruled, the match ends");
    }

    function _end(uint256 job) private {
        toTheEnd(job);
        _begin();
        jobs.finalize(job);
        _count("18 finalize");
        vm.prank(person(1));
        _begin();
        jobs.collect(job, 0);
        _count("19 collect");
        vm.prank(person(1));
        _begin();
        jobs.withdraw();
        _count("20 withdraw, from Jobs");
        vm.prank(person(1));
        _begin();
        panel.withdraw();
        _count("21 withdraw, from the Panel");
    }

    // ------------------------------------------------------------------ counting

    function _begin() private {
        if (_records) record();
    }

    function _count(string memory name) private {
        if (_records) counted("slots", name);
        else vm.snapshotValue("slots", string.concat(name, " | gas"), vm.lastCallGas().gasTotalUsed);
    }
}
