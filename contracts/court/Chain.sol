// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "../commit/Hash.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Tensors} from "../commit/Tensors.sol";
import {Case, Entry, IRule, Opened, Shape} from "../element/IRule.sol";
import {Dispute, Opening, Said, Stage, Suit, Tensor, Trial} from "../interfaces/ICourt.sol";
import {CourtBase} from "./CourtBase.sol";
import {Search} from "./Search.sol";
import {FixedPointMathLib} from "solady/utils/FixedPointMathLib.sol";

/// @title Chain
/// @notice From an element to one step of its chain, which is computed.
///
///     Post ──side 0: its states at the places──▶ Answer ──side 1: the first that it has otherwise──▶ Post, or Step
///
/// INVARIANT: who is right about the element has the true state wherever it says one, so the state at `lo` is true.
abstract contract Chain is Search {
    // ------------------------------------------------------------------ storage

    /// @dev Places of one round: at most as many as have states of so many bytes, and no more than so many.
    uint256 private constant POST_BYTES = 2048;
    uint256 private constant MAX_PLACES = 256;

    // ------------------------------------------------------------------ moves

    function post(Suit calldata suit, Said calldata said, bytes calldata states) external {
        (Trial storage t, uint256 trialId) = _begin(suit, said, Stage.Post);
        _checkPlayer(suit, 0);
        uint256 want = (_places(t) - 1) * t.stateBytes;
        if (states.length != want) revert BadStates(states.length, want);

        Said memory now_ = said;
        now_.offer = keccak256(states);
        _keep(t, now_);
        t.stage = Stage.Answer;
        emit StatesPosted(trialId, t.lo, t.hi, states);
    }

    function answer(
        Suit calldata suit,
        Said calldata said,
        bytes calldata states,
        uint256 place,
        bytes calldata own
    ) external {
        (Trial storage t, uint256 trialId) = _begin(suit, said, Stage.Answer);
        _checkPlayer(suit, 1);
        if (keccak256(states) != said.offer) revert AnotherHash(keccak256(states), said.offer);
        uint256 count = _places(t);
        uint256 size = t.stateBytes;
        if (place >= count) revert NoSuchPlace(place, count);
        (uint64 lo, uint64 hi) = (_at(t, count, place), _at(t, count, place + 1));

        Said memory now_ = said;
        now_.offer = 0;
        if (place > 0) now_.agreed = keccak256(states[(place - 1) * size:place * size]);
        if (place + 1 < count) {
            if (own.length != size) revert BadStates(own.length, size);
            bytes32 theirs = keccak256(states[place * size:(place + 1) * size]);
            if (keccak256(own) == theirs) revert SameState();
            now_.states = [theirs, keccak256(own)];
        } else if (own.length != 0) {
            revert StateNotNeeded();
        }
        _keep(t, now_);
        (t.lo, t.hi) = (lo, hi);
        t.stage = hi - lo == 1 ? Stage.Step : Stage.Post;
        emit StateAnswered(trialId, lo, hi, own);
    }

    function judge(
        Suit calldata suit,
        Dispute calldata dispute,
        Said calldata said,
        Tensor[] calldata inputs,
        bytes calldata agreed,
        Opening[] calldata openings
    ) external {
        (Trial storage t, uint256 trialId) = _begin(suit, said, Stage.Step);
        _checkDispute(suit, dispute);
        if (keccak256(agreed) != said.agreed) revert AnotherHash(keccak256(agreed), said.agreed);
        Case memory which = _case(t, dispute, inputs);
        // INVARIANT: the sides say different things, so at least one of them is wrong.
        uint8 losers = _losers(t, said, which, agreed, _open(inputs, openings));
        _decide(t, suit, trialId, losers, false);
    }

    // ------------------------------------------------------------------ steps

    /// @inheritdoc Search
    function _enterChain(
        Trial storage t,
        Suit calldata suit,
        uint256 trialId,
        Case memory which,
        uint64[2] memory values
    ) internal override {
        IRule rule = _rule(which);
        (uint64 steps, bytes memory first) = rule.begin(which);
        emit ElementFound(trialId, t.element, _entry(t), values, steps, first);
        if (steps == 0) {
            return _decide(t, suit, trialId, _wrong(values, rule.finish(which, first, _entry(t))), false);
        }
        t.steps = steps;
        t.hi = steps;
        t.stateBytes = uint16(first.length);
        t.posted = 0;
        t.stage = steps == 1 ? Stage.Step : Stage.Post;
        Said memory now_;
        (now_.values, now_.agreed) = (values, keccak256(first));
        _keep(t, now_);
    }

    // ------------------------------------------------------------------ views

    /// @dev Bit `s`: side `s` says something else of the step, or of the element if the step is the last one.
    function _losers(
        Trial storage t,
        Said calldata said,
        Case memory which,
        bytes calldata agreed,
        Opened[] memory opened
    ) private view returns (uint8) {
        IRule rule = _rule(which);
        bytes memory next = rule.step(which, t.lo, agreed, opened);
        if (t.hi == t.steps) return _wrong(said.values, rule.finish(which, next, _entry(t)));
        bytes32 truth = keccak256(next);
        return (said.states[0] != truth ? SIDE0 : 0) | (said.states[1] != truth ? SIDE1 : 0);
    }

    /// @dev Bit `s`: side `s` has another value of the element.
    function _wrong(uint64[2] memory values, uint64 truth) private pure returns (uint8) {
        return (values[0] != truth ? SIDE0 : 0) | (values[1] != truth ? SIDE1 : 0);
    }

    function _entry(Trial storage t) private view returns (Entry memory) {
        return Entry({kind: t.kind, written: t.written});
    }

    /// @dev How many places a round has in the open interval; the last one is its end. Two rounds that could do with fewer
    /// have as many each.
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

    /// @dev Place `i` of a round of so many, evenly spread: `lo` is place 0. NOTE: ascending, as there are no more than steps.
    function _at(Trial storage t, uint256 count, uint256 i) internal view returns (uint64) {
        return uint64(t.lo + (uint256(t.hi - t.lo) * i) / count);
    }

    /// @dev The elements that openings show, each by its leaf under the input's root.
    function _open(Tensor[] calldata inputs, Opening[] calldata openings)
        private
        view
        returns (Opened[] memory opened)
    {
        opened = new Opened[](openings.length);
        for (uint256 i = 0; i < openings.length; ++i) {
            Opening calldata shown = openings[i];
            if (shown.input >= inputs.length) revert OutsideTensor(shown.input, shown.element);
            Shape memory shape = inputs[shown.input].shape;
            uint256 item = Tensors.itemSize(shape.dtype);
            uint256 size = Tensors.size(shape);
            uint256 offset = shown.element * item;
            if (offset >= size) revert OutsideTensor(shown.input, shown.element);
            // SAFETY: a leaf is the one that the agreed input has, so it is as long as it should be, or the input is
            // none that an honest side agrees to.
            Merkle.check(
                Hash.DATA_TREE,
                inputs[shown.input].root,
                Tensors.leafHash(shown.leaf),
                offset / Tensors.LEAF_BYTES,
                Merkle.depth(Tensors.leaves(size)),
                shown.path
            );
            opened[i] = Opened({
                input: shown.input,
                element: shown.element,
                bits: Tensors.read(shown.leaf, offset % Tensors.LEAF_BYTES, item)
            });
        }
    }
}
