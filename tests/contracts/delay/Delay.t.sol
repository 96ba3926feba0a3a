// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Views} from "../support/Views.sol";
import {Siege} from "./Siege.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Piece, Place, RecordPiece, Subject, TensorPiece} from "contracts/interfaces/IDataAvailability.sol";
import {Group, Job, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice How long liars can delay the end of a job, and what it costs them and the honest challenger: each known
/// attack, measured by the contracts' own clocks. docs/economics.md has the bound, and this table.
contract DelayTest is Siege {
    using Views for Jobs;

    uint256 private constant LIE = 1000;
    /// @dev How often liars still claim a root again, and which root.
    uint256 private _again;
    uint256 private _which;
    /// @dev Whether they claim it only when it is dead.
    bool private _dies;
    /// @dev How often they still refute the truth, each time in the last second in which it can be refuted.
    uint256 private _refuting;
    bool private _told;

    /// @dev Goes to the last second but one of the challenge phase: a commitment now is claimed in the last second.
    function _toTheLastSecond() private {
        vm.warp(jobs.jobOf(_job).challengeEnd - 2);
    }

    // ------------------------------------------------------------------ attacks

    /// @dev A trainer lies, and `k - 1` challengers lie, too, in the last second of the challenge phase.
    function _atOnce(uint256 k) private {
        besiege(_list(LIE, 1));
        _toTheLastSecond();
        commitTo(_job, HONEST, TRUTH);
        lie(LIE + 1, k - 1, false);
        _honest += claimNow(_job, HONEST, TRUTH);
        look();
    }

    function test_at1Once() public {
        _atOnce(1);
        _measure("1 at once", 0, 0);
    }

    function test_at3Once() public {
        _atOnce(3);
        _measure("3 at once", 0, 0);
    }

    function test_at15Once() public {
        _atOnce(15);
        _measure("15 at once", 0, 0);
    }

    function test_at63Once() public {
        _atOnce(63);
        _measure("63 at once", 0, 0);
    }

    function test_at255Once() public {
        _atOnce(255);
        _measure("255 at once", 0, 0);
    }

    /// @dev A lie is claimed again in the last possible second, `again` times.
    function _oneByOne(uint256 again) private {
        besiege(_list(LIE, 1));
        _toTheLastSecond();
        tell();
        (_again, _which) = (again, LIE);
    }

    function test_oneByOne3Times() public {
        _oneByOne(3);
        _measure("1 again, 3 times", 3, 0);
    }

    function test_oneByOne15Times() public {
        _oneByOne(15);
        _measure("1 again, 15 times", 15, 0);
    }

    /// @dev Seven claims speak for a lie, one after the other.
    function test_7BehindALie() public {
        besiege(_list(LIE, 1));
        _toTheLastSecond();
        commitTo(_job, HONEST, TRUTH);
        lie(LIE, 7, true);
        _honest += claimNow(_job, HONEST, TRUTH);
        look();
        _measure("7 behind a lie", 7, 0);
    }

    /// @dev Trainers hold the right root, and lose it to a lie of their own; while two of them stand no honest claim is
    /// needed.
    function test_giveAway() public {
        besiege(_list(TRUTH, 2));
        _givesAway = true;
        _toTheLastSecond();
        lie(LIE, 1, false);
        (_again, _which) = (5, TRUTH);
        _measure("given away 7 times", 7, 0);
    }

    /// @dev The right root dies, and in the last possible second a liar claims it again, and gives it away once more.
    function test_giveAwayAndLetDie() public {
        besiege(_list(TRUTH, 1));
        _givesAway = true;
        _toTheLastSecond();
        lie(LIE, 1, false);
        (_again, _which, _dies) = (3, TRUTH, true);
        _measure("given away and let die 4 times", 4, 0);
    }

    /// @dev The right root is refuted again and again: each refutation loses, and the next one comes in the last second.
    function test_refuted() public {
        besiege(_list(LIE, 1));
        _toTheLastSecond();
        tell();
        _refuting = 6;
        _refuteInTime(jobs.jobOf(_job).challengeEnd);
        _measure("refuted 6 times", 0, 0);
    }

    /// @dev All refutations are there before the challenge phase ends, and play one after the other.
    function test_refutedAtOnce() public {
        besiege(_list(LIE, 1));
        vm.warp(jobs.jobOf(_job).challengeEnd - 10);
        tell();
        for (uint256 n = 1; n < 7; ++n) {
            refute(TRUTH, LIE + n);
        }
        vm.warp(jobs.jobOf(_job).challengeEnd - 1);
        _measure("refuted 6 times at once", 0, 0);
    }

    /// @dev Sixteen trainers have a root each.
    function test_sixteenTrainers() public {
        uint256[] memory outputs = new uint256[](16);
        for (uint256 i = 0; i < 16; ++i) {
            outputs[i] = LIE + i;
        }
        besiege(outputs);
        tell();
        _measure("16 trainers", 0, 0);
    }

    /// @dev The guardian is on the liars' side.
    function test_pauses() public {
        _atOnce(3);
        vm.prank(GUARDIAN);
        time.pause();
        pass(PAUSES);
        postponed(PAUSES);
        _measure("3 at once, and all pauses", 0, PAUSES);
    }

    /// @dev Liars request as many places of a lie as allowed, at all times, and answer each as late as possible: the
    /// challenge phase is measured.
    function test_requests() public {
        besiege(_list(LIE, 1));
        uint256 before = jobs.jobOf(_job).challengeEnd;
        uint64 answered;
        Place[] memory places = new Place[](1);
        places[0].piece = Piece.Leaf;
        Subject memory subject = Subject(jobs, _job, root(LIE));
        RecordPiece memory shown;
        (shown.record, shown.checkpoint) = (record(LIE), root(LIE));
        TensorPiece memory none;
        while (jobs.phaseOf(_job) == JobPhase.Challenge) {
            (uint256 open,) = dataAvailability.openOf(subject, places[0]);
            places[0].part = answered + 1;
            // In the last second, or the next request finds no place.
            if (
                open > 400
                    || (open > 0
                        && dataAvailability.requestOf(subject, places[0]).until
                            < currentSecond() + PERIOD / 50)
            ) {
                dataAvailability.provideLeaf(subject, places[0], shown, none);
                (answered, open) = (answered + 1, open - 1);
            }
            places[0].part = uint64(answered + open + 1);
            uint256 deposit = dataAvailability.depositAt(Piece.Leaf, open / dataAvailability.STEP(), PRICE);
            vm.deal(address(this), deposit);
            dataAvailability.request{value: deposit}(subject, places);
            pass(PERIOD / 100);
        }
        uint256 later = jobs.jobOf(_job).challengeEnd - before;
        eq(later, 4 * (2 * PERIOD) + 61_440, "the limit");
        vm.snapshotValue("delay", "the challenge phase by requests, s", later);
    }

    // ------------------------------------------------------------------ measuring

    /// @dev Claims a dead root again, in the last second; claims the truth when it is given away for good.
    function onEvent() internal override {
        if (_refuting != 0) {
            Group memory refuted = groupOf(_job, TRUTH);
            if (refuted.matchId == 0) _refuteInTime(refuted.refutableUntil);
        }
        if (_which == 0) return;
        Group memory group = groupOf(_job, _which);
        uint256 speakers = group.members.length - group.spokesman;
        if (_which == LIE || _dies) {
            if (speakers != 0 || (_again == 0 && !_dies) || _told) return;
            vm.warp(group.until - 2);
            if (_again == 0) {
                _told = true;
                return tell();
            }
            --_again;
            lie(_which, 1, true);
        } else if (_which == TRUTH && speakers < 2 && !_told) {
            if (_again == 0) {
                _told = true;
                return tell();
            }
            --_again;
            lie(TRUTH, 1, true);
        }
    }

    /// @dev Refutes the truth in the last second before an instant.
    function _refuteInTime(uint256 until) private {
        vm.warp(until - 2);
        refute(TRUTH, LIE + _refuting--);
    }

    /// @dev Plays the job to its end, and compares with the bound. `spares`: claims of roots that were claimed before.
    function _measure(string memory name, uint256 spares, uint256 paused) private {
        uint256 took = finish();
        Job memory job = jobs.jobOf(_job);
        eq(uint256(job.claims) - job.groups, spares, "claims of roots that were claimed already");
        // NOTE: a refutation makes one more match follow those of a root, as a spare does.
        spares += _refutations;
        uint256 rounds = spares;
        for (uint256 rest = job.groups - _refutations - 1; rest != 0; rest >>= 1) {
            ++rounds;
        }
        uint256 limit = rounds * LONGEST + (2 * spares + 1) * PERIOD + paused;
        yes(took <= limit, "no longer than the bound");
        yes(won() >= REWARD, "the honest challenger is whole, and paid");
        vm.snapshotValue("delay", string.concat(name, ": delay, s"), took);
        vm.snapshotValue("delay", string.concat(name, ": bound, s"), limit);
        vm.snapshotValue("delay", string.concat(name, ": liars lose, 0.01 stakes"), lost() / (STAKE / 100));
        vm.snapshotValue("delay", string.concat(name, ": honest stakes, 0.01"), _honest / (STAKE / 100));
        vm.snapshotValue("delay", string.concat(name, ": honest gains, 0.01 stakes"), won() / (STAKE / 100));
    }

    function _list(uint256 output, uint256 count) private pure returns (uint256[] memory list) {
        list = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) {
            list[i] = output;
        }
    }
}
