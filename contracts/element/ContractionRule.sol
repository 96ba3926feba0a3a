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
        (uint256 terms, bool narrow,,) = _read(which);
        // SAFETY: at most twice Cases.MAX_STEPS.
        return (uint64(_steps(terms, narrow)), _begin(narrow));
    }

    /// @inheritdoc IRule
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next)
    {
        (uint256 terms, bool narrow, Window memory window, uint256 groups) = _read(which);
        Cases.step(t, _steps(terms, narrow), state.length, _size(narrow));
        (uint256 k, uint256 turn) = _turn(which, t, terms, narrow);
        Term memory term = which.op <= BMM ? _product(which, k) : Convolutions.term(which, window, groups, k);
        if (!term.exists) {
            Operands.end(opened, 0);
            return _next(turn, state);
        }
        uint256 a = Operands.read(which, opened, 0, 0, term.first);
        uint256 b = Operands.read(which, opened, 1, 1, term.second);
        Operands.end(opened, 2);
        // NOTE: a bf16 is the upper half of the same value.
        if (narrow) (a, b) = (a << 16, b << 16);
        return _next(turn, state, a, b);
    }

    /// @inheritdoc IRule
    function finish(Case calldata which, bytes calldata state, Entry calldata entry)
        external
        pure
        returns (uint64 bits)
    {
        (, bool narrow,,) = _read(which);
        Cases.state(state.length, _size(narrow));
        narrow = Specs.get(which.outputs, 0).dtype() == Cases.BF16;
        uint256 found = _element(which.mode, state, entry, narrow);
        // SAFETY: a binary32 or a bf16.
        return uint64(narrow ? Convert.f32ToBf16(found) : found);
    }

    // ------------------------------------------------------------------ parts that depend on the arithmetic

    function _modes() internal pure virtual returns (uint256);

    /// @dev Returns whether factors of bf16 may also give a result of f32.
    function _wide() internal pure virtual returns (bool) {
        return false;
    }

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

    /// @dev Checks a case; `narrow` factors are of bf16. Products of matrices have no window and no groups.
    function _read(Case calldata which)
        private
        pure
        returns (uint256 terms, bool narrow, Window memory window, uint256 groups)
    {
        Cases.mine(which, ALL, _modes());
        Cases.check(which, 2, 1);
        uint8 dtype = Specs.get(which.inputs, 0).dtype();
        narrow = dtype == Cases.BF16;
        if (!narrow && dtype != Cases.F32) Cases.notMine(which);
        Cases.input(which, 1, dtype);
        uint8 result = Specs.get(which.outputs, 0).dtype();
        if (result != dtype && !(narrow && result == Cases.F32 && _wide())) Cases.notMine(which);
        if (which.op <= BMM) {
            terms = _inner(which);
        } else {
            (window, groups) = Convolutions.read(which);
            terms = Convolutions.terms(which, groups);
        }
        Cases.chain(terms);
    }

    /// @dev Checks a product of matrices: `[.., M, K]` and `[.., K, N]` give `[.., M, N]`.
    function _inner(Case calldata which) private pure returns (uint256 terms) {
        unchecked {
            Attributes.end(which.attributes, 0);
            uint256 m = which.op == MM ? 0 : 1;
            Spec a = Specs.get(which.inputs, 0);
            Spec b = Specs.get(which.inputs, 1);
            Spec result = Specs.get(which.outputs, 0);
            Shapes.fit(a.rank() == m + 2 && b.rank() == m + 2 && result.rank() == m + 2);
            terms = a.dim(m + 1);
            Shapes.fit(b.dim(m) == terms && result.dim(m) == a.dim(m) && result.dim(m + 1) == b.dim(m + 1));
            Shapes.fit(m == 0 || (a.dim(0) == b.dim(0) && a.dim(0) == result.dim(0)));
        }
    }

    /// @dev Term `k` of a product of matrices: `a[i, m, k]` and `b[i, k, n]`.
    function _product(Case calldata which, uint256 k) private pure returns (Term memory) {
        unchecked {
            Spec a = Specs.get(which.inputs, 0);
            Spec b = Specs.get(which.inputs, 1);
            uint256 terms = a.dim(a.rank() - 1);
            uint256 columns = b.dim(b.rank() - 1);
            // The row in a is (i, m) in one number.
            uint256 row = which.element / columns;
            uint256 i = row / a.dim(a.rank() - 2);
            return Term(true, row * terms + k, (i * terms + k) * columns + which.element % columns);
        }
    }
}
