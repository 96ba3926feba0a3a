// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Ledger} from "./Ledger.sol";
import {Piece, Place, RequestState, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {Group, JobPhase, StakedClaim, Terms, Trainer} from "contracts/interfaces/IJobs.sol";
import {Hearing, HearingPhase} from "contracts/interfaces/IPanel.sol";
import {IReferee, Match, MatchTerms, Phase, Position} from "contracts/interfaces/IReferee.sol";

/// @notice The acts of the fuzzer: one act of one actor at a time, allowed or not.
contract Handler is Ledger {
    enum Act {
        Post,
        Reveal,
        Challenge,
        Finalize,
        Publish,
        Conclude,
        Vote,
        Appeal,
        Stand,
        Try,
        Poke,
        Wait,
        Enlist,
        Withdraw,
        DataRequest,
        /// @dev Requests more pieces of one checkpoint than the lowest deposit allows. NOTE: seldom: each is answered.
        Flood,
        Answer,
        Close,
        /// @dev A move with another position or with another match's terms. Done: it was refused for that.
        Misplace,
        Mistake,
        Pause,
        Collect,
        /// @dev Sets the price of gas.
        Market,
        Refute
    }

    uint256 public constant ACTS = uint256(type(Act).max) + 1;
    uint256 private constant MAX_JOBS = 3;

    /// @dev How often each act was allowed.
    mapping(Act kind => uint256 count) public done;

    function act(uint256 seed) external {
        Act kind = seed % 4 == 0 ? Act((seed >> 2) % ACTS) : _sensible(seed);
        try this.perform(kind, seed >> 8) {
            ++done[kind];
        } catch {}
        try this.answer() {}
        catch (bytes memory reason) {
            _break(string.concat("a move of the honest is refused: ", vm.toString(uint32(bytes4(reason)))));
        }
    }

    /// @dev Returns an act that the phase of some match allows, or one that leads to matches.
    function _sensible(uint256 seed) private view returns (Act) {
        uint256 choice = (seed >> 2) % 16;
        // NOTE: nothing comes to its end in a pause, so a pause is short.
        if (choice > 12 && time.pausedUntil() != 0) return Act.Pause;
        if (choice < 2 || watched.length == 0) {
            Act early = Act((seed >> 6) % 4);
            return early == Act.Challenge && (seed >> 10) % 2 == 0 ? Act.Refute : early;
        }
        if (choice == 2) return Act.Wait;
        if (choice == 3) {
            return asked.length == 0 ? Act.DataRequest : (seed >> 6) % 4 == 0 ? Act.Close : Act.Answer;
        }
        (uint256 id, Match memory m) = _match(seed >> 8);
        if (m.phase < Phase.Hearing && choice < 7) return choice < 5 ? Act.Misplace : Act.Mistake;
        if (m.phase == Phase.Open || m.phase == Phase.Walk) return choice < 12 ? Act.Conclude : Act.Publish;
        if (m.phase == Phase.Refine) return Act.Publish;
        HearingPhase phase = panel.getHearing(hearingOf(id)).phase;
        if (phase == HearingPhase.Voting) return Act.Vote;
        if (phase == HearingPhase.Ruled) return choice < 9 ? Act.Appeal : Act.Wait;
        if (phase == HearingPhase.Defence) return choice < 6 ? Act.Wait : Act.Stand;
        return Act.Try;
    }

    function perform(Act kind, uint256 seed) external {
        if (kind == Act.Post) return _post(seed);
        if (kind == Act.Reveal) return _reveal(seed);
        if (kind == Act.Challenge) return _challenge(seed);
        if (kind == Act.Refute) return _refute(seed);
        if (kind == Act.Finalize) return _finalize(seed);
        if (kind == Act.Wait) return _wait(seed);
        if (kind == Act.Enlist) return enlist(HONEST_VERIFIERS + seed % 2);
        if (kind == Act.Withdraw) return _withdraw(seed);
        if (kind == Act.DataRequest) return _request(seed);
        if (kind == Act.Flood) return _flood(seed);
        if (kind == Act.Answer) return _answerOne(seed);
        if (kind == Act.Close) return _close(_late(seed >> 8));
        if (kind == Act.Pause) return _pause();
        if (kind == Act.Collect) return _collect(seed);
        if (kind == Act.Market) return vm.fee((seed >> 8) % 12 gwei);
        (uint256 id, Match memory m) = _match(seed);
        if (kind == Act.Publish) publish(id, m, uint8(seed) & 1);
        if (kind == Act.Conclude) conclude(id, m);
        if (kind == Act.Vote) _vote(id, m, seed);
        if (kind == Act.Appeal) appeal(id, m, playerOf(id, seed & 1));
        if (kind == Act.Stand) _stand(id, m, seed);
        if (kind == Act.Try) playTrial(id, m, uint8(seed) & 1);
        if (kind == Act.Poke && !poke(id, m)) revert NotSo("something follows");
        if (kind == Act.Misplace) _misplace(id, m, seed);
        if (kind == Act.Mistake) _mistake(id, m, seed);
    }

    // ------------------------------------------------------------------ shown data

    /// @dev Uses the position of the match one move earlier, or of another match.
    function _misplace(uint256 id, Match memory m, uint256 seed) private {
        uint256 other = met[(seed >> 32) % met.length];
        Position memory wrong = seed & 2 == 0 ? earlier(id) : here(other);
        if (keccak256(abi.encode(wrong)) == m.position) revert NotSo("it is another position");
        if (m.phase == Phase.Refine) seed |= 4;
        _misled(id, m, seed, matchTerms(id), wrong, IReferee.AnotherPosition.selector);
    }

    function _mistake(uint256 id, Match memory m, uint256 seed) private {
        uint256 other = met[(seed >> 32) % met.length];
        if (other == id) revert NotSo("it is another match");
        // NOTE: moves that publish trees or a record are bound to the position alone.
        seed = m.phase == Phase.Refine ? seed | 4 : seed & ~uint256(4);
        _misled(id, m, seed, matchTerms(other), here(id), IReferee.AnotherMatch.selector);
    }

    function _misled(
        uint256 id,
        Match memory m,
        uint256 seed,
        MatchTerms memory shown,
        Position memory at,
        bytes4 selector
    ) private {
        try this.show(id, m, seed, shown, at) {
            _break("a move is accepted that shows something else");
        } catch (bytes memory reason) {
            if (bytes4(reason) != selector) revert NotSo("it is refused for what it shows");
        }
    }

    /// @dev Makes a move that the phase allows, with these match terms and this position.
    function show(uint256 id, Match memory m, uint256 seed, MatchTerms memory shown, Position memory at)
        external
    {
        if (seed & 4 == 0) conclude(id, m, shown, at);
        else publish(id, m, uint8(seed) & 1, shown, at);
    }

    // ------------------------------------------------------------------ jobs

    function _post(uint256 seed) private {
        if (live.length == MAX_JOBS) revert NotSo("there is room");
        bool withLogs = (seed >> 10) % 4 == 0;
        uint8 slots = withLogs ? 1 : uint8(1 + (seed >> 8) % 3);
        // NOTE: half of the jobs have verifiers of whom most are not honest.
        Terms memory t = terms(seed & 1 == 0 ? 1 : seed & 2, slots, withLogs);
        vm.prank(CLIENT);
        uint256 job = jobs.post{value: 10 ether}(t);
        (rounded[job], trainerOf[job]) = (withLogs, person(uint160(seed >> 16) % PEOPLE));
        watches[job] = (seed >> 12) & 1 == 0;
        live.push(job);
        for (uint160 n = 0; n < slots; ++n) {
            address who = person(uint160((seed >> 16) + n) % PEOPLE);
            join(job, who, _runFor(who, seed >> (32 + 16 * n)));
            commitOrNot(job, who, seed >> (24 + n));
        }
    }

    /// @dev The honest have the truth; others have any run: the truth, too, and lies that nobody sees at first.
    function _runFor(address who, uint256 seed) private pure returns (uint16) {
        if (isHonest(who)) return TRUTH;
        // NOTE: the truth of a dishonest person, who may give it away.
        if ((seed >> 16) & 3 == 0) return TRUTH;
        uint16 lie = TRUTH ^ uint16(uint256(1 + seed % 3) << (2 * ((seed >> 8) % 8)));
        return seed & 0x80 == 0 ? lie : uint16(seed);
    }

    function _reveal(uint256 seed) private {
        uint256 job = _job(seed);
        (,, Trainer[] memory trainers,,) = jobs.viewOf(job);
        reveal(job, trainers[(seed >> 16) % trainers.length].owner);
    }

    function _challenge(uint256 seed) private {
        (uint256 job, address who) = (_job(seed), person(uint160(seed >> 16) % PEOPLE));
        if (isHonest(who)) {
            // NOTE: without the logs nobody knows which run is right.
            if (jobs.logsOf(job) == NONSENSE) revert NotSo("it can be followed");
            if (isDoomed(job)) revert NotSo("what was requested was shown");
            return challenge(job, who, TRUTH, 0);
        }
        uint16 run = _runFor(who, seed >> 32);
        // NOTE: as often a root that another person has claimed as one of its own.
        (,,, StakedClaim[] memory claims,) = jobs.viewOf(job);
        bool follows = claims.length > 0 && ((seed >> 56) & 1 == 0 || jobs.phaseOf(job) == JobPhase.Closing);
        if (follows) run = _runOfClaim(job, (seed >> 64) % claims.length);
        challenge(job, who, run, (seed >> 72) & 1 == 0 ? 0 : (seed >> 80) % 1 ether);
    }

    function _runOfClaim(uint256 job, uint256 claim) private view returns (uint16) {
        (,,, StakedClaim[] memory claims, Group[] memory groups) = jobs.viewOf(job);
        return runBehind(job, groups[claims[claim].group].root, claims[claim].owner);
    }

    /// @dev Refutes an interval of a claimed run: the honest where it is wrong, others anywhere. NOTE: in the jobs that
    /// they watch the honest claim.
    function _refute(uint256 seed) private {
        (uint256 job, address who) = (_job(seed), person(uint160(seed >> 16) % PEOPLE));
        if (watches[job] && isHonest(who)) revert NotSo("it refutes");
        if (isHonest(who) && jobs.logsOf(job) == NONSENSE) revert NotSo("it can be followed");
        (,,, StakedClaim[] memory claims,) = jobs.viewOf(job);
        uint16 victim = _runOfClaim(job, (seed >> 32) % claims.length);
        uint16 run = isHonest(who) ? TRUTH : _runFor(who, seed >> 64);
        refute(job, who, victim, run, (seed >> 48) % 2);
    }

    /// @dev Collects from any job, for any owner.
    function _collect(uint256 seed) private {
        uint256 job = 1 + (seed >> 4) % jobs.jobCount();
        (,,, StakedClaim[] memory claims,) = jobs.viewOf(job);
        uint256 i = (seed >> 16) % claims.length;
        (address owner, uint256 before) = (claims[i].owner, jobs.credit(claims[i].owner));
        jobs.collect(job, uint32(i));
        if (claims[i].lost || claims[i].collected) _break("what is lost or was collected is collected");
        if (jobs.credit(owner) < before + claims[i].stake) _break("a stake is not credited");
    }

    function _finalize(uint256 seed) private {
        uint256 i = (seed >> 4) % live.length;
        if (jobs.phaseOf(live[i]) == JobPhase.Closing) jobs.finalize(live[i]);
        if (jobs.phaseOf(live[i]) < JobPhase.Accepted) revert NotSo("it has ended");
        over(i);
    }

    // ------------------------------------------------------------------ hearings and trials

    function _vote(uint256 id, Match memory m, uint256 seed) private {
        (uint256 value0, uint256 value1) = valuesOf(id, m);
        uint256 choice = seed & 3;
        uint256 value = choice == 0 ? 1 : choice == 1 ? value0 : choice == 2 ? value1 : (seed >> 2) & 3;
        vote(id, m, keys[HONEST_VERIFIERS + (seed >> 4) % 2], value);
    }

    function _stand(uint256 id, Match memory m, uint256 seed) private {
        Hearing memory h = panel.getHearing(hearingOf(id));
        stand(id, m, vm.addr(keys[HONEST_VERIFIERS + seed % 2]), _valueOf(h.verdict));
    }

    /// @dev NOTE: shorter than any period, so that the honest have time to act in each phase.
    function _wait(uint256 seed) private {
        uint256 kind = seed % 4;
        pass(kind == 0 ? 1 + (seed >> 2) % 10 : kind == 1 ? CLOCK / 2 : CLOCK + 1);
    }

    /// @dev Stops the clocks, or lets them run again.
    function _pause() private {
        bool paused = time.pausedUntil() != 0;
        vm.prank(GUARDIAN);
        if (paused) time.resume();
        else time.pause();
    }

    function _withdraw(uint256 seed) private {
        address who = person(uint160(seed >> 8) % PEOPLE);
        vm.prank(who);
        if (seed & 3 == 0) dataAvailability.withdraw();
        else if (seed & 3 == 1) panel.withdraw();
        else jobs.withdraw();
    }

    // ------------------------------------------------------------------ requests

    function _request(uint256 seed) private {
        uint256 job = _job(seed);
        if (rounded[job] && (seed >> 12) & 1 == 0) return _requestLogs(job, seed, 1);
        (,,, StakedClaim[] memory claims,) = jobs.viewOf(job);
        uint16 run = _runOfClaim(job, (seed >> 16) % claims.length);
        Subject memory s = Subject(jobs, job, rootOf(run));
        Place memory place;
        (place.tree, place.node) = (uint64(seed >> 32) & 1, uint32(seed >> 33) & 1);
        place.piece = (seed >> 34) & 1 == 0 ? Piece.Record : Piece.Leaf;
        // NOTE: the one output has one leaf; the others do not exist, and that is an answer, too.
        if (place.piece == Piece.Leaf) {
            (place.tensor, place.part) = (uint16(255 + (seed >> 35) % 3), uint64(seed >> 40) & 1);
        }
        if (dataAvailability.requestOf(s, place).state != RequestState.None) revert NotSo("it is new");
        Place[] memory places = new Place[](1);
        places[0] = place;
        request(person(uint160(seed >> 24) % PEOPLE), s, places);
        asked.push(Asked(s, place, run));
    }

    /// @dev NOTE: every page of a node without a log can be requested.
    function _requestLogs(uint256 job, uint256 seed, uint256 count) private {
        Subject memory s = Subject(jobs, job, jobs.logsOf(job));
        Place[] memory places = new Place[](count);
        Piece piece = count > 1 || (seed >> 34) & 1 == 0 ? Piece.Blocks : Piece.Digests;
        for (uint64 i = 0; i < count; ++i) {
            places[i] = Place(piece, 1 + uint64((seed >> 32) & 3), 0, 0, 0);
            if (piece == Piece.Blocks) {
                (places[i].node, places[i].part) = (uint32(seed >> 35) & 1, uint64(seed >> 96) + i);
            }
            if (dataAvailability.requestOf(s, places[i]).state != RequestState.None) {
                revert NotSo("it is new");
            }
        }
        request(person(uint160(seed >> 24) % PEOPLE), s, places);
        for (uint64 i = 0; i < count; ++i) {
            asked.push(Asked(s, places[i], TRUTH));
        }
    }

    function _flood(uint256 seed) private {
        if ((seed >> 80) & 7 != 0 || asked.length > dataAvailability.STEP()) revert NotSo("it is seldom");
        uint256 job = _job(seed);
        if (rounded[job]) return _requestLogs(job, seed, dataAvailability.STEP() + 1);
        (,,, StakedClaim[] memory claims,) = jobs.viewOf(job);
        uint16 run = _runOfClaim(job, (seed >> 16) % claims.length);
        Subject memory s = Subject(jobs, job, rootOf(run));
        Place[] memory places = new Place[](dataAvailability.STEP() + 1);
        for (uint64 i = 0; i < places.length; ++i) {
            places[i] = Place(
                Piece.Leaf, uint64(seed >> 32) & 1, uint32(seed >> 33) & 1, 300, uint64(seed >> 96) + i
            );
            if (dataAvailability.requestOf(s, places[i]).state != RequestState.None) {
                revert NotSo("they are new");
            }
        }
        request(person(uint160(seed >> 24) % PEOPLE), s, places);
        for (uint64 i = 0; i < places.length; ++i) {
            asked.push(Asked(s, places[i], run));
        }
    }

    function _answerOne(uint256 seed) private {
        uint256 i = (seed >> 8) % asked.length;
        answerRequest(person(uint160(seed >> 24) % PEOPLE), asked[i].subject, asked[i].place, asked[i].run);
        forgetAnswered(i);
    }

    /// @dev Returns the first late request, from some place in the list on.
    function _late(uint256 seed) private view returns (uint256 i) {
        for (uint256 n = 0; n < asked.length; ++n) {
            i = (seed + n) % asked.length;
            if (time.time() > dataAvailability.requestOf(asked[i].subject, asked[i].place).until) return i;
        }
    }

    function _close(uint256 i) private {
        dataAvailability.close(asked[i].subject, asked[i].place);
        forgetAnswered(i);
    }

    // ------------------------------------------------------------------ choices

    function _job(uint256 seed) private view returns (uint256) {
        return live[(seed >> 4) % live.length];
    }

    function _match(uint256 seed) private view returns (uint256 id, Match memory m) {
        id = watched[(seed >> 24) % watched.length];
        m = referee.getMatch(id);
    }

    // ------------------------------------------------------------------ the end

    /// @dev Only the honest act from now on. Everything ends, in bounded time.
    function finish() external {
        answer();
        uint256 began = block.timestamp;
        for (uint256 rounds = 0; live.length + watched.length + asked.length > 0; ++rounds) {
            if (rounds == 600) return _break("something never ends");
            pass(CLOCK + 1);
            answer();
            for (uint256 i = watched.length; i > 0; --i) {
                poke(watched[i - 1], referee.getMatch(watched[i - 1]));
            }
            answer();
            for (uint256 i = asked.length; i > 0; --i) {
                try this.closed(i - 1) {} catch {}
            }
            for (uint256 i = live.length; i > 0; --i) {
                _end(i - 1);
            }
        }
        for (uint256 job = 1; job <= jobs.jobCount(); ++job) {
            (,,, StakedClaim[] memory claims,) = jobs.viewOf(job);
            for (uint32 i = 0; i < claims.length; ++i) {
                if (!claims[i].lost && !claims[i].collected) jobs.collect(job, i);
            }
        }
        // The bound: phases of a job, then successive matches of claims, each with a hearing, a trial and three signers
        // who stand; the longest list of requests; and the pauses that the guardian may still have made.
        if (block.timestamp - began > 40 * (2 * CLOCK + 2 * PERIOD) + 512 * 60 + PAUSES) {
            _break("it took too long");
        }
    }

    function closed(uint256 i) external {
        _close(i);
    }

    function _end(uint256 i) private {
        JobPhase phase = jobs.phaseOf(live[i]);
        if (phase == JobPhase.Closing) {
            try jobs.finalize(live[i]) {
                phase = jobs.phaseOf(live[i]);
            } catch {}
        }
        if (phase >= JobPhase.Accepted) over(i);
    }
}
