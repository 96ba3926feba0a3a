// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Assume} from "./Clocks.t.sol";
import {Court} from "contracts/Court.sol";
import {Timekeeper} from "contracts/Timekeeper.sol";
import {Stage, Trial, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {IExaminer} from "contracts/interfaces/IExaminer.sol";

/// @title TrialClocksProof
/// @notice The statements of ClocksProof about a match, for a trial.
contract TrialClocksProof is Court(IExaminer(address(0)), new Timekeeper(address(0), 0)) {
    Assume private constant vm = Assume(address(uint160(uint256(keccak256("hevm cheat code")))));
    /// @dev Terms of no player, and no statements: the data that a move shows does not affect its time.
    TrialTerms private _trialTerms;
    TrialPosition private _trialPosition;

    /// @dev Returns whether a side owes a move, by the table in CourtBase.sol, written out by side.
    function _owes(Stage stage, uint8 posted, uint8 side) private pure returns (bool) {
        if (stage == Stage.Outputs || stage == Stage.Walk || stage == Stage.Leaf) {
            return posted & (1 << side) == 0 || posted == 3;
        }
        if (stage == Stage.Step) return true;
        return stage == (side == 0 ? Stage.Post : Stage.Answer);
    }

    function _place(uint8 stage, uint8 posted, uint40 tick, uint40 instant, uint32[2] memory clock)
        private
        returns (Trial storage t)
    {
        vm.assume(stage <= uint8(type(Stage).max) && posted <= 3 && tick <= instant);
        vm.warp(instant);
        t = _trials[this.trialOf(_trialTerms)];
        (t.stage, t.posted, t.tick, t.clock0, t.clock1) = (Stage(stage), posted, tick, clock[0], clock[1]);
        _keep(t, _trialPosition);
    }

    function check_lateIsWhoOwesAndHasNoTime(
        uint8 stage,
        uint8 posted,
        uint40 tick,
        uint40 instant,
        uint32[2] memory clock
    ) external {
        uint8 late = _late(_place(stage, posted, tick, instant, clock), instant).bits();
        bool[2] memory over;
        for (uint8 side = 0; side < 2; ++side) {
            over[side] = _owes(Stage(stage), posted, side) && instant > uint256(tick) + clock[side];
        }
        assert((late != 0) == (over[0] || over[1]));
        for (uint8 side = 0; side < 2; ++side) {
            if (late & (1 << side) == 0) continue;
            // A side that is named has run out of time, and no later than the other side.
            assert(over[side]);
            assert(!over[1 - side] || clock[side] <= clock[1 - side]);
            // Both are named only if they ran out in the same second.
            assert(late != 3 || clock[0] == clock[1]);
        }
    }

    function check_aMoveOnlySubtracts(
        uint8 stage,
        uint8 posted,
        uint40 tick,
        uint40 instant,
        uint32[2] memory clock
    ) external {
        Trial storage t = _place(stage, posted, tick, instant, clock);
        vm.assume(_late(t, instant).bits() == 0);
        // Nobody is late and the stage is right: nothing can stop the move, and no underflow does.
        try this.begin(_trialTerms, _trialPosition, Stage(stage)) {}
        catch {
            assert(false);
        }
        uint256 elapsed = instant - tick;
        for (uint8 side = 0; side < 2; ++side) {
            uint256 owed = _owes(Stage(stage), posted, side) ? elapsed : 0;
            assert((side == 0 ? t.clock0 : t.clock1) == clock[side] - owed);
        }
        assert(t.tick == instant);
        assert(_late(t, instant).bits() == 0);
    }

    function check_nobodyMovesLate(
        uint8 stage,
        uint8 posted,
        uint40 tick,
        uint40 instant,
        uint32[2] memory clock
    ) external {
        vm.assume(_late(_place(stage, posted, tick, instant, clock), instant).bits() != 0);
        try this.begin(_trialTerms, _trialPosition, Stage(stage)) {
            assert(false);
        } catch {}
    }

    function begin(TrialTerms calldata trialTerms, TrialPosition calldata position, Stage stage) external {
        _begin(trialTerms, position, stage);
    }
}
