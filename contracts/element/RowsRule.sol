// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Cases} from "./Cases.sol";
import {Case, Entry, IRule, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Shapes} from "./Shapes.sol";
import {Spec, Specs} from "./Specs.sol";

/// @title RowsRule
/// @notice `take` and `scatter_add` (docs/opset.md, section 7).
/// @dev `take` has one step and its state is the element, 8 bytes. `scatter_add`: step 0 takes the base, step 1 + p
/// reads position p of idx, and adds if that is this row. The arithmetic defines the addition.
abstract contract RowsRule is IRule {
    uint256 private constant TAKE = 60;
    uint256 private constant SCATTER_ADD = 61;

    /// @inheritdoc IRule
    function begin(Case calldata which) external pure returns (uint64 steps, bytes memory first) {
        // SAFETY: at most Cases.MAX_STEPS.
        return (uint64(_steps(which)), which.op == TAKE ? new bytes(8) : _begin());
    }

    /// @inheritdoc IRule
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next)
    {
        Cases.step(t, _steps(which), state.length, _stateBytes(which));
        uint256 taken;
        if (which.op == TAKE) {
            uint256 bits;
            (bits, taken) = _take(which, opened);
            next = abi.encodePacked(uint64(bits));
        } else {
            bool exists;
            uint256 value;
            (exists, value, taken) = _term(which, t, opened);
            next = _next(t, state, exists, value);
        }
        Operands.end(opened, taken);
    }

    /// @inheritdoc IRule
    /// @dev Only `scatter_add` may have a log.
    function finish(Case calldata which, bytes calldata state, Entry calldata entry)
        external
        pure
        returns (uint64 bits)
    {
        _steps(which);
        Cases.state(state.length, _stateBytes(which));
        // SAFETY: a binary32.
        return which.op == TAKE ? uint64(bytes8(state)) : uint64(_element(which.mode, state, entry));
    }

    // ------------------------------------------------------------------ parts that depend on the arithmetic

    function _modes() internal pure virtual returns (uint256);

    /// @dev Returns the number of bytes of a state of `scatter_add`.
    function _size() internal pure virtual returns (uint256);

    /// @dev Returns the state before its first step: zeros, unless the arithmetic begins otherwise.
    function _begin() internal pure virtual returns (bytes memory) {
        return new bytes(_size());
    }

    /// @dev Returns the state after its step `t`, which adds `value` if it exists.
    function _next(uint256 t, bytes calldata state, bool exists, uint256 value)
        internal
        pure
        virtual
        returns (bytes memory);

    function _element(uint8 mode, bytes calldata state, Entry calldata entry)
        internal
        pure
        virtual
        returns (uint256);

    // ------------------------------------------------------------------ steps

    function _take(Case calldata which, Opened[] calldata opened) private pure returns (uint256, uint256) {
        Spec table = Specs.get(which.inputs, 0);
        uint256 width = Shapes.countFrom(table, 1);
        uint256 row = Operands.read(which, opened, 0, 1, which.element / width);
        // A negative index has bits of at least 2^63.
        if (row >= table.dim(0)) return (0, 1);
        return (Operands.read(which, opened, 1, 0, row * width + which.element % width), 2);
    }

    /// @dev Returns the value that step `t` of `scatter_add` adds, and how many operands were read for it.
    function _term(Case calldata which, uint256 t, Opened[] calldata opened)
        private
        pure
        returns (bool exists, uint256 value, uint256 taken)
    {
        if (t == 0) return (true, Operands.read(which, opened, 0, 0, which.element), 1);
        uint256 width = Shapes.countFrom(Specs.get(which.outputs, 0), 1);
        uint256 row = Operands.read(which, opened, 0, 1, t - 1);
        if (row != which.element / width) return (false, 0, 1);
        return (true, Operands.read(which, opened, 1, 2, (t - 1) * width + which.element % width), 2);
    }

    // ------------------------------------------------------------------ cases

    /// @dev Checks a case, and returns the number of its steps.
    function _steps(Case calldata which) private pure returns (uint256) {
        Cases.mine(which, (1 << TAKE) | (1 << SCATTER_ADD), _modes());
        bool take = which.op == TAKE;
        Cases.check(which, take ? 2 : 3, 1);
        Attributes.end(which.attributes, 0);
        Cases.input(which, 1, Cases.I64);
        Spec rows = Specs.get(which.inputs, 0);
        Spec positions = Specs.get(which.inputs, 1);
        Spec result = Specs.get(which.outputs, 0);
        if (take) {
            Cases.output(which, 0, Specs.get(which.inputs, 0).dtype());
            Shapes.joins(result, positions, rows);
            return 1;
        }
        Cases.input(which, 0, Cases.F32);
        Cases.input(which, 2, Cases.F32);
        Cases.output(which, 0, Cases.F32);
        Shapes.same(rows, result);
        Shapes.joins(Specs.get(which.inputs, 2), positions, rows);
        uint256 steps = 1 + Shapes.count(positions);
        Cases.chain(steps);
        return steps;
    }

    function _stateBytes(Case calldata which) private pure returns (uint256) {
        return which.op == TAKE ? 8 : _size();
    }
}
