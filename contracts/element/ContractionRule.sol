// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Convert} from "../float/Convert.sol";
import {Attributes} from "./Attributes.sol";
import {Cases} from "./Cases.sol";
import {Convolutions, Term} from "./Convolutions.sol";
import {Case, Entry, IRule, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Shapes} from "./Shapes.sol";
import {Spec, Specs} from "./Specs.sol";
import {Window} from "./Windows.sol";

/// @title ContractionRule
/// @notice `mm`, `bmm`, `conv2d` and its gradients (docs/opset.md, sections 2 and 6): an element's terms, one step
/// each unless the arithmetic defines otherwise. It also defines what a step makes of a term.
abstract contract ContractionRule is IRule {
    uint256 private constant MM = 50;
    uint256 private constant BMM = 51;
    uint256 private constant ALL = (1 << MM) | (1 << BMM) | (1 << Convolutions.FORWARD)
        | (1 << Convolutions.INPUT_GRAD) | (1 << Convolutions.WEIGHT_GRAD);

    /// @inheritdoc IRule
    function begin(Case calldata which) external pure returns (uint64 steps, bytes memory first) {
        (bool narrow, uint256 terms) = _read(which);
        // SAFETY: at most twice Cases.MAX_STEPS.
        return (uint64(_steps(terms, narrow)), _begin(narrow));
    }

    /// @inheritdoc IRule
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next)
    {
        (uint8 dtype, Spec a, Spec result) = _types(which);
        if (which.op <= BMM) {
            uint256 terms = _inner(which, a, result);
            (uint256 k, uint256 turn) = _place(which, t, state, terms, dtype);
            (uint256 first, uint256 second) = _product(which.element, result, terms, k);
            return _taken(turn, state, dtype, opened, first, second);
        }
        (Window memory window, uint256 groups) = Convolutions.read(which);
        (uint256 number, uint256 what) =
            _place(which, t, state, _bounded(Convolutions.terms(which, groups)), dtype);
        Term memory term = Convolutions.term(which, window, groups, number);
        if (term.exists) return _taken(what, state, dtype, opened, term.first, term.second);
        Operands.end(opened, 0);
        return _next(what, state);
    }

    /// @dev Checks a step and its state; returns the number of the step's term, and what `_next` is told of it.
    function _place(Case calldata which, uint64 t, bytes calldata state, uint256 terms, uint8 dtype)
        private
        pure
        returns (uint256 k, uint256 turn)
    {
        bool narrow = dtype == Cases.BF16;
        Cases.step(t, _steps(terms, narrow), state.length, _size(narrow));
        return _turn(which, t, terms, narrow);
    }

    /// @dev Returns the state after a step whose term has its factors in these places.
    function _taken(
        uint256 turn,
        bytes calldata state,
        uint8 dtype,
        Opened[] calldata opened,
        uint256 first,
        uint256 second
    ) private pure returns (bytes memory) {
        uint256 a = Operands.read(dtype, opened, 0, 0, first);
        uint256 b = Operands.read(dtype, opened, 1, 1, second);
        Operands.end(opened, 2);
        // NOTE: a bf16 is the upper half of the same value.
        if (dtype == Cases.BF16) (a, b) = (a << 16, b << 16);
        return _next(turn, state, a, b);
    }

    /// @inheritdoc IRule
    function finish(Case calldata which, bytes calldata state, Entry calldata entry)
        external
        pure
        returns (uint64 bits)
    {
        (bool narrow,) = _read(which);
        Cases.state(state.length, _size(narrow));
        uint256 found = _element(which.mode, state, entry, narrow);
        // SAFETY: a binary32 or a bf16.
        return uint64(narrow ? Convert.f32ToBf16(found) : found);
    }

    // ------------------------------------------------------------------ parts that depend on the arithmetic

    function _modes() internal pure virtual returns (uint256);

    /// @dev Returns the number of steps of a chain of that many terms; `narrow` factors are of bf16.
    function _steps(uint256 terms, bool) internal pure virtual returns (uint256) {
        return terms;
    }

    /// @dev Returns the number of bytes of a state; `narrow` factors are of bf16.
    function _size(bool narrow) internal pure virtual returns (uint256);

    /// @dev Returns the state before the first step: zeros, unless the arithmetic begins otherwise.
    function _begin(bool narrow) internal pure virtual returns (bytes memory) {
        return new bytes(_size(narrow));
    }

    /// @dev Returns the number of the term that step `t` takes, and what `_next` is told of the step: its number,
    /// unless the arithmetic defines otherwise.
    function _turn(Case calldata, uint256 t, uint256, bool)
        internal
        pure
        virtual
        returns (uint256 k, uint256 turn)
    {
        return (t, t);
    }

    /// @dev Returns the state after a step whose term does not exist.
    function _next(uint256 turn, bytes calldata state) internal pure virtual returns (bytes memory);

    /// @dev Returns the state after a step whose term is `a b`.
    function _next(uint256 turn, bytes calldata state, uint256 a, uint256 b)
        internal
        pure
        virtual
        returns (bytes memory);

    /// @dev Returns the element as binary32. It is rounded to bf16 if it is `narrow`: an arithmetic that rounds once
    /// returns a value of bf16 then, which this does not change.
    function _element(uint8 mode, bytes calldata state, Entry calldata entry, bool narrow)
        internal
        pure
        virtual
        returns (uint256);

    // ------------------------------------------------------------------ cases

    /// @dev Checks a case; `narrow` factors are of bf16.
    function _read(Case calldata which) private pure returns (bool narrow, uint256 terms) {
        (uint8 dtype, Spec a, Spec result) = _types(which);
        narrow = dtype == Cases.BF16;
        if (which.op <= BMM) return (narrow, _inner(which, a, result));
        (, uint256 groups) = Convolutions.read(which);
        terms = _bounded(Convolutions.terms(which, groups));
    }

    /// @dev Checks the operator, the mode, and the dtypes; returns that of the factors, the first one and the result.
    function _types(Case calldata which) private pure returns (uint8 dtype, Spec a, Spec result) {
        Cases.mine(which, ALL, _modes());
        Cases.check(which, 2, 1);
        (a, result) = (Specs.get(which.inputs, 0), Specs.get(which.outputs, 0));
        dtype = a.dtype();
        if ((dtype != Cases.F32 && dtype != Cases.BF16) || a.next().dtype() != dtype) Cases.notMine(which);
        if (result.dtype() != dtype) Cases.notMine(which);
    }

    function _bounded(uint256 terms) private pure returns (uint256) {
        Cases.chain(terms);
        return terms;
    }

    /// @dev Checks a product of matrices: `[.., M, K]` and `[.., K, N]` give `[.., M, N]`.
    function _inner(Case calldata which, Spec a, Spec result) private pure returns (uint256 terms) {
        unchecked {
            Attributes.end(which.attributes, 0);
            uint256 m = which.op == MM ? 0 : 1;
            Spec b = a.next();
            Shapes.fit(a.rank() == m + 2 && b.rank() == m + 2 && result.rank() == m + 2);
            terms = a.dim(m + 1);
            Shapes.fit(b.dim(m) == terms && result.dim(m) == a.dim(m) && result.dim(m + 1) == b.dim(m + 1));
            Shapes.fit(m == 0 || (a.dim(0) == b.dim(0) && a.dim(0) == result.dim(0)));
            Cases.chain(terms);
        }
    }

    /// @dev Returns where term `k` of a product of matrices has its factors: `a[i, m, k]` and `b[i, k, n]`.
    function _product(uint256 element, Spec result, uint256 terms, uint256 k)
        private
        pure
        returns (uint256 first, uint256 second)
    {
        unchecked {
            uint256 m = result.rank() - 2;
            uint256 columns = result.dim(m + 1);
            // The row in a is (i, m) in one number.
            uint256 row = element / columns;
            return (row * terms + k, (row / result.dim(m) * terms + k) * columns + element % columns);
        }
    }
}
