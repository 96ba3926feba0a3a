// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "../commit/Hash.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Tensors} from "../commit/Tensors.sol";
import {Case, Entry, IRule, Opened, Shape} from "../element/IRule.sol";
import {Dispute, Opening, Stage, Suit, Tensor, Trial} from "../interfaces/ICourt.sol";
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

    function post(uint256 trialId, Suit calldata suit, bytes calldata states) external {
        Trial storage t = _begin(trialId, Stage.Post);
        _checkPlayer(t, suit, 0);
        uint256 want = (_places(t) - 1) * t.stateBytes;
        if (states.length != want) revert BadStates(states.length, want);

        t.offer = keccak256(states);
        t.stage = Stage.Answer;
        emit StatesPosted(trialId, t.lo, t.hi, states);
    }

    function answer(
        uint256 trialId,
        Suit calldata suit,
        bytes calldata states,
        uint256 place,
        bytes calldata own
    ) external {
        Trial storage t = _begin(trialId, Stage.Answer);
        _checkPlayer(t, suit, 1);
        if (keccak256(states) != t.offer) revert AnotherHash(keccak256(states), t.offer);
        uint256 count = _places(t);
        uint256 size = t.stateBytes;
        if (place >= count) revert NoSuchPlace(place, count);
        (uint40 lo, uint40 hi) = (_at(t, place), _at(t, place + 1));

        if (place > 0) t.said[0] = keccak256(states[(place - 1) * size:place * size]);
        if (place + 1 < count) {
            if (own.length != size) revert BadStates(own.length, size);
            bytes32 theirs = keccak256(states[place * size:(place + 1) * size]);
            if (keccak256(own) == theirs) revert SameState();
            t.said[1] = _both([theirs, keccak256(own)]);
        } else if (own.length != 0) {
            revert StateNotNeeded();
        }
        (t.lo, t.hi) = (lo, hi);
        t.stage = hi - lo == 1 ? Stage.Step : Stage.Post;
        emit StateAnswered(trialId, lo, hi, own);
    }

    function judge(
        uint256 trialId,
        address[2] calldata players,
        Dispute calldata dispute,
        Tensor[] calldata inputs,
        bytes calldata agreed,
        bytes32[2] calldata after_,
        Opening[] calldata openings
    ) external {
        Trial storage t = _begin(trialId, Stage.Step);
        _checkFile(t, players, dispute);
        if (keccak256(agreed) != t.said[0]) revert AnotherHash(keccak256(agreed), t.said[0]);
        Case memory which = _case(t, dispute, inputs);
        IRule rule = _rule(which);
        bytes memory next = rule.step(which, t.lo, agreed, _open(inputs, openings));
        uint8 losers;
        if (t.hi == t.steps) {
            losers = _wrong(t, rule.finish(which, next, _entry(t)));
        } else {
            if (_both(after_) != t.said[1]) revert AnotherHash(_both(after_), t.said[1]);
            bytes32 truth = keccak256(next);
            losers = (after_[0] != truth ? SIDE0 : 0) | (after_[1] != truth ? SIDE1 : 0);
        }
        // INVARIANT: the sides say different things, so at least one of them is wrong.
        _decide(t, trialId, losers, false);
    }

    // ------------------------------------------------------------------ steps

    /// @inheritdoc Search
    function _enterChain(Trial storage t, uint256 trialId, Case memory which) internal override {
        IRule rule = _rule(which);
        (uint64 steps, uint16 size) = rule.length(which);
        bytes memory first = rule.begin(which);
        emit ElementFound(trialId, t.element, _entry(t), [t.value0, t.value1], steps, size);
        if (steps == 0) return _decide(t, trialId, _wrong(t, rule.finish(which, first, _entry(t))), false);
        // SAFETY: a chain has fewer than 2^40 steps.
        t.steps = uint40(steps);
        t.hi = uint40(steps);
        t.stateBytes = size;
        t.said = [keccak256(first), bytes32(0)];
        t.posted = 0;
        t.stage = steps == 1 ? Stage.Step : Stage.Post;
    }

    // ------------------------------------------------------------------ views

    /// @dev Bit `s`: side `s` has another value of the element.
    function _wrong(Trial storage t, uint64 truth) private view returns (uint8) {
        return (t.value0 != truth ? SIDE0 : 0) | (t.value1 != truth ? SIDE1 : 0);
    }

    function _entry(Trial storage t) private view returns (Entry memory) {
        return Entry({kind: t.kind, written: t.written});
    }

    /// @dev keccak256 of what both sides' states hash to.
    function _both(bytes32[2] memory states) private pure returns (bytes32) {
        return keccak256(abi.encode(states));
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

    /// @dev Place `i` of a round, evenly spread: `lo` is place 0. NOTE: ascending, as there are no more than steps.
    function _at(Trial storage t, uint256 i) internal view returns (uint40) {
        return uint40(t.lo + (uint256(t.hi - t.lo) * i) / _places(t));
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
