// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Entry} from "../element/IRule.sol";
import {Dispute, Stage, Trial, TrialPosition, TrialTerms} from "../interfaces/ICourt.sol";
import {Element, Found, Inputs, Opening} from "../interfaces/IExaminer.sol";
import {CourtBase} from "./CourtBase.sol";
import {ElementSearch} from "./ElementSearch.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title StepSearch
/// @notice The moves from an element to one step of its chain, which the examiner computes.
///
///     Post ──side 0: its states at the places──▶ Answer ──side 1: the first that it has otherwise──▶ Post, or Step
///
/// INVARIANT: a side that is right about the element only ever states true states, so the agreed state at `lo` is true.
abstract contract StepSearch is ElementSearch {
    // ------------------------------------------------------------------ storage

    /// @dev A round has at most as many places as states fit in `POST_BYTES`, and at most `MAX_PLACES`.
    uint256 private constant POST_BYTES = 2048;
    uint256 private constant MAX_PLACES = 256;

    // ------------------------------------------------------------------ moves

    function post(TrialTerms calldata trialTerms, TrialPosition calldata position, bytes calldata states)
        external
    {
        (Trial storage t, uint256 trialId) = _begin(trialTerms, position, Stage.Post);
        _checkPlayer(trialTerms, 0);
        uint256 want = (_places(t) - 1) * t.stateBytes;
        if (states.length != want) revert BadStates(states.length, want);

        TrialPosition memory now_ = position;
        now_.offer = keccak256(states);
        _keep(t, now_);
        t.stage = Stage.Answer;
        emit StatesPosted(trialId, t.lo, t.hi, states);
    }

    function answer(
        TrialTerms calldata trialTerms,
        TrialPosition calldata position,
        bytes calldata states,
        uint256 place,
        bytes calldata own
    ) external {
        (Trial storage t, uint256 trialId) = _begin(trialTerms, position, Stage.Answer);
        _checkPlayer(trialTerms, 1);
        _checkHash(states, position.offer);
        uint256 count = _places(t);
        uint256 size = t.stateBytes;
        if (place >= count) revert NoSuchPlace(place, count);
        (uint64 lo, uint64 hi) = (_at(t, count, place), _at(t, count, place + 1));

        TrialPosition memory now_ = position;
        now_.offer = 0;
        if (place > 0) now_.agreed = keccak256(states[(place - 1) * size:place * size]);
        if (place + 1 < count) {
            if (own.length != size) revert BadStates(own.length, size);
            (bytes32 theirs, bytes32 mine) =
                (keccak256(states[place * size:(place + 1) * size]), keccak256(own));
            if (mine == theirs) revert SameState();
            now_.states = [theirs, mine];
        } else if (own.length != 0) {
            revert StateNotNeeded();
        }
        _keep(t, now_);
        (t.lo, t.hi) = (lo, hi);
        t.stage = hi - lo == 1 ? Stage.Step : Stage.Post;
        emit StateAnswered(trialId, lo, hi, own);
    }

    function judge(
        TrialTerms calldata trialTerms,
        Dispute calldata dispute,
        TrialPosition calldata position,
        Inputs calldata inputs,
        bytes calldata agreed,
        Opening[] calldata openings
    ) external {
        (Trial storage t, uint256 trialId) = _begin(trialTerms, position, Stage.Step);
        _checkDispute(trialTerms, dispute);
        _checkHash(agreed, position.agreed);
        bool last = t.hi == t.steps;
        (bytes memory next, uint64 bits) =
            EXAMINER.step(_question(t, dispute), _element(t), inputs, t.lo, last, agreed, openings);
        // INVARIANT: the sides' statements differ, so at least one of them is wrong.
        uint8 losers = last ? _wrong(position.values, bits) : _wrong(position.states, keccak256(next));
        _decide(t, trialTerms, trialId, losers, false);
    }

    // ------------------------------------------------------------------ steps

    /// @inheritdoc ElementSearch
    function _enterChain(Trial storage t, TrialTerms calldata trialTerms, uint256 trialId, Found memory found)
        internal
        override
    {
        Element memory element = found.element;
        // SAFETY: a tensor has fewer than 2^40 elements.
        t.element = uint40(element.number);
        (t.kind, t.written) = (element.entry.kind, element.entry.written);
        emit ElementFound(trialId, element.number, element.entry, found.values, found.steps, found.first);
        if (found.steps == 0) {
            return _decide(t, trialTerms, trialId, _wrong(found.values, found.bits), false);
        }
        (t.steps, t.hi) = (found.steps, found.steps);
        t.stateBytes = uint16(found.first.length);
        t.posted = 0;
        t.stage = found.steps == 1 ? Stage.Step : Stage.Post;
        TrialPosition memory now_;
        (now_.values, now_.agreed) = (found.values, keccak256(found.first));
        _keep(t, now_);
    }

    // ------------------------------------------------------------------ views

    function _element(Trial storage t) private view returns (Element memory) {
        return Element({number: t.element, entry: Entry({kind: t.kind, written: t.written})});
    }

    /// @dev Returns the sides with another value of the element, as bits.
    function _wrong(uint64[2] memory values, uint64 truth) private pure returns (uint8) {
        return (values[0] != truth ? 1 : 0) | (values[1] != truth ? 2 : 0);
    }

    /// @dev Returns the sides with another state, as bits.
    function _wrong(bytes32[2] calldata states, bytes32 truth) private pure returns (uint8) {
        return (states[0] != truth ? 1 : 0) | (states[1] != truth ? 2 : 0);
    }

    /// @dev Returns the number of places of a round in the open interval, whose end is the last place. If two rounds
    /// are enough, both get the same number, as small as possible.
    function _places(Trial storage t) internal view returns (uint256 count) {
        count = POST_BYTES / t.stateBytes;
        if (count > MAX_PLACES) count = MAX_PLACES;
        if (count < 2) count = 2;
        uint256 open = t.hi - t.lo;
        if (open <= count) return open;
        if (open <= count * count) {
            count = FixedPointMathLib.sqrt(open);
            if (count * count < open) ++count;
        }
    }

    /// @dev Returns place `i` of `count`, evenly spread; place 0 is `lo`. NOTE: ascending, as `count` is at most `hi -
    /// lo`.
    function _at(Trial storage t, uint256 count, uint256 i) internal view returns (uint64) {
        return uint64(t.lo + (uint256(t.hi - t.lo) * i) / count);
    }
}
