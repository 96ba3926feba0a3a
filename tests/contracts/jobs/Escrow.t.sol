// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {IEscrow} from "contracts/interfaces/IEscrow.sol";
import {Terms} from "contracts/interfaces/IJobs.sol";
import {IJobs} from "contracts/interfaces/IJobs.sol";
import {Program} from "contracts/interfaces/IJobs.sol";
import {IPanel} from "contracts/interfaces/IPanel.sol";
import {IReferee, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice Refuses every payment, and burns all gas in doing so.
contract Grudger {
    IJobs private immutable JOBS;

    constructor(IJobs jobs) {
        JOBS = jobs;
    }

    receive() external payable {
        while (true) {}
    }

    function commit(uint256 job, bytes32 commitment) external {
        JOBS.commitChallenge(job, commitment);
    }

    function challenge(bytes calldata call) external {
        (bool ok,) = address(JOBS).call{value: 1 ether}(call);
        require(ok);
    }

    function withdraw() external {
        JOBS.withdraw();
    }
}

/// @notice Withdraws again while it is being paid.
contract Greedy {
    IJobs private immutable JOBS;

    constructor(IJobs jobs) {
        JOBS = jobs;
    }

    receive() external payable {
        (bool ok,) = address(JOBS).call(abi.encodeCall(IEscrow.withdraw, ()));
        require(!ok);
    }

    function run(bytes calldata call) external {
        (bool ok,) = address(JOBS).call{value: 10 ether}(call);
        require(ok);
    }

    function withdraw() external {
        JOBS.withdraw();
    }
}

/// @notice A malicious client's own referee: it answers everything and resolves as it likes.
contract CrookedReferee {
    IJobs private immutable JOBS;
    IPanel public immutable PANEL;
    uint256 private next = 1;
    bool private reenter;

    constructor(IJobs jobs, IPanel panel) {
        (JOBS, PANEL) = (jobs, panel);
    }

    function check(Program calldata) external pure returns (bytes32) {
        return 0;
    }

    function setNext(uint256 id) external {
        next = id;
    }

    function setReenter() external {
        reenter = true;
    }

    function open(uint256 job, bytes32[2] calldata, address[2] calldata, uint32, uint256, Program calldata)
        external
        returns (uint256)
    {
        if (reenter) JOBS.resolve(job, next, 1, Reason.Timeout, new address[](0));
        return next;
    }

    function resolve(uint256 job, uint256 id, uint8 losers, Reason reason, address[] calldata deciders)
        external
    {
        JOBS.resolve(job, id, losers, reason, deciders);
    }
}

/// @notice Payments, and that nobody can hold up a payment to somebody else.
contract EscrowTest is Market {
    // ------------------------------------------------------------------ shares

    function test_anUndisputedClaimGetsRewardAndStake() public {
        uint256 job = claimed(7);
        pass(PERIOD);
        finalize(job);
        credited(person(1), REWARD + STAKE, "the trainer");
        uint256 before = person(1).balance;
        vm.prank(person(1));
        jobs.withdraw();
        eq(person(1).balance, before + REWARD + STAKE, "paid");
        credited(person(1), 0, "nothing left");
        vm.prank(person(1));
        vm.expectRevert(abi.encodeWithSelector(IEscrow.NothingToPay.selector, person(1)));
        jobs.withdraw();
        eq(address(jobs).balance, 0, "balance");
    }

    function test_theRewardIsSplitBetweenSlotHoldersAndTheRemainderGoesToTheFirst() public {
        Terms memory t = terms(3);
        vm.prank(CLIENT);
        uint256 job = jobs.post{value: 100}(t);
        for (uint160 n = 1; n < 4; ++n) {
            join(job, person(n));
            commit(job, person(n), 7);
        }
        for (uint160 n = 1; n < 4; ++n) {
            reveal(job, person(n), 7);
        }
        pass(PERIOD);
        finalize(job);
        credited(person(1), STAKE + 34, "the first");
        credited(person(2), STAKE + 33, "the second");
        credited(person(3), STAKE + 33, "the third");
    }

    function test_aChallengerWhoIsRightGetsThePrizeAndTheReward() public {
        uint256 job = claimed(8);
        challenge(job, person(2), 7);
        uint256 id = matchOf(job, 7);
        submit(id, 8, 7);
        rule(id, 7);
        credited(person(2), STAKE / 2 - STAKE / 10, "prize");
        credited(verifier(0), STAKE / 20, "first voter");
        credited(verifier(1), STAKE / 20, "second voter");
        credited(verifier(2), 0, "who did not vote");
        eq(burned(), STAKE / 2, "burned");
        pass(PERIOD);
        finalize(job);
        credited(person(2), STAKE / 2 - STAKE / 10 + STAKE + REWARD, "prize, stake and reward");
    }

    function test_whenBothAreWrongThereIsNoPrize() public {
        uint256 job = claimed(8, 9);
        uint256 id = matchOf(job, 8);
        submit(id, 8, 9);
        rule(id, 7);
        credited(verifier(0), STAKE / 10, "a tenth of both stakes, shared");
        eq(burned(), 2 * STAKE - STAKE / 5, "the rest is burned");
        credited(person(1), 0, "side 0");
        credited(person(2), 0, "side 1");
    }

    function test_losingToHimselfCostsHalfAStake() public {
        uint256 job = claimed(7, 8); // both are one party
        winByDefault(job, 7);
        eq(burned(), STAKE / 2, "burned");
        credited(person(1), STAKE / 2, "prize");
    }

    /// @dev The verifiers' share comes out of the half that is returned.
    function test_losingToHimselfWithHisOwnVerifiersCostsHalfAStake() public {
        uint256 job = claimed(7, 8); // both, and the verifiers, are one party
        uint256 id = matchOf(job, 7);
        submit(id, 7, 8);
        rule(id, 8);
        uint256 back = jobs.credit(person(2)) + jobs.credit(verifier(0)) + jobs.credit(verifier(1));
        eq(back, STAKE / 2, "what comes back");
        eq(burned(), STAKE / 2, "burned");
    }

    /// @dev Wei that cannot be shared evenly go to the winner.
    function test_theVerifiersShareIsRoundedDown() public {
        Terms memory t = terms(2);
        t.stake = 1 ether + 13;
        t.rules.threshold = 3;
        vm.prank(CLIENT);
        uint256 job = jobs.post{value: REWARD}(t);
        _claimWith(job, t.stake);
        uint256 id = matchOf(job, 7);
        submit(id, 7, 8);
        decide(id, 7);
        vote(id, 2, 7);
        pass(PERIOD);
        proceed(id);
        uint256 share = t.stake / 10 / 3;
        credited(verifier(2), share, "a third");
        credited(person(1), t.stake / 2 - 3 * share, "the rest of the half");
        eq(burned(), t.stake - t.stake / 2, "the other half");
    }

    function _claimWith(uint256 job, uint256 stake) private {
        for (uint160 n = 1; n < 3; ++n) {
            vm.deal(person(n), stake);
            vm.prank(person(n));
            jobs.join{value: stake}(job);
            commit(job, person(n), 6 + n);
        }
        reveal(job, person(1), 7);
        reveal(job, person(2), 8);
    }

    function test_aSlotWithoutAClaimIsBurned() public {
        uint256 job = post(3);
        join(job, person(1));
        join(job, person(2));
        commit(job, person(1), 7);
        pass(PERIOD);
        reveal(job, person(1), 7);
        pass(PERIOD);
        finalize(job);
        eq(burned(), STAKE, "who joined and never revealed");
        credited(person(1), STAKE + REWARD, "who did");
    }

    function test_aJobThatNobodyTookRefundsTheClient() public {
        uint256 job = post(3);
        pass(3 * PERIOD);
        finalize(job);
        inPhase(job, jobs.phaseOf(job));
        credited(CLIENT, REWARD, "the client");
    }

    function test_anybodyCanBurnWhatIsBurned() public {
        uint256 job = claimed(7, 8);
        winByDefault(job, 7);
        uint256 before = jobs.BURNED().balance;
        jobs.burn();
        eq(jobs.BURNED().balance, before + STAKE / 2, "burned ether leaves");
        refuses(IEscrow.NothingToPay.selector);
        jobs.burn();
    }

    // ------------------------------------------------------------------ hostile payees and referees

    function test_aPayeeThatBurnsAllGasBlocksNobody() public {
        uint256 job = claimed(8);
        Grudger grudger = new Grudger(jobs);
        fund(address(grudger));
        grudger.commit(job, jobs.commitmentOf(job, address(grudger), root(7), root(7), 0, 0));
        pass(1);
        grudger.challenge(abi.encodeCall(jobs.challenge, (job, claim(7), 0)));
        winByDefault(job, 7); // its prize is a credit
        pass(PERIOD);
        finalize(job);
        credited(address(grudger), STAKE + STAKE / 2 + REWARD, "its credit");
        (bool ok,) = address(grudger).call{gas: 200_000}(abi.encodeCall(grudger.withdraw, ()));
        yes(!ok, "it cannot be paid, and nobody else cares");
        credited(address(grudger), STAKE + STAKE / 2 + REWARD, "its credit stays");
    }

    function test_aPayeeCannotBePaidTwice() public {
        Greedy greedy = new Greedy(jobs);
        fund(address(greedy));
        uint256 job = jobs.jobCount() + 1;
        greedy.run(abi.encodeCall(jobs.post, (terms(1))));
        post(1); // somebody else's ether
        pass(3 * PERIOD);
        finalize(job);
        greedy.withdraw();
        eq(address(greedy).balance, 100 ether, "paid once");
        eq(address(jobs).balance, REWARD, "the other job's reward is there");
    }

    function _crooked() private returns (CrookedReferee crook, uint256 job, uint256 honest) {
        crook = new CrookedReferee(jobs, panel);
        honest = claimed(7);
        Terms memory t = terms(1);
        t.referee = address(crook);
        job = post(t);
        join(job, person(2));
        commit(job, person(2), 7);
        reveal(job, person(2), 7);
    }

    function test_aCrookedRefereeHurtsItsOwnJobOnly() public {
        (CrookedReferee crook, uint256 job, uint256 honest) = _crooked();
        refuses(IJobs.NotReferee.selector);
        crook.resolve(honest, 1, 1, Reason.Timeout, new address[](0));
        challenge(job, person(3), 8);
        crook.resolve(job, 1, 1, Reason.Operator, new address[](0));
        refuses(IJobs.NoSuchMatch.selector);
        crook.resolve(job, 1, 1, Reason.Operator, new address[](0));
        pass(2 * PERIOD);
        finalize(honest);
        credited(person(1), STAKE + REWARD, "the honest job is whole");
    }

    function test_aCrookedRefereeCannotNameOneMatchTwice() public {
        (CrookedReferee crook, uint256 job,) = _crooked();
        challenge(job, person(3), 8);
        challenge(job, person(4), 9);
        commitChallenge(job, person(5), 10);
        challengeRefused(job, person(5), 10, 2 * STAKE, IJobs.MatchTaken.selector);
        crook.setNext(0);
        challengeRefused(job, person(5), 10, 2 * STAKE, IJobs.MatchTaken.selector);
    }

    function test_aCrookedRefereeCannotComeBackWhileAMatchOpens() public {
        (CrookedReferee crook, uint256 job,) = _crooked();
        crook.setReenter();
        commitChallenge(job, person(3), 8);
        challengeRefused(
            job, person(3), 8, 2 * STAKE, ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector
        );
    }
}
