// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Cases} from "./Cases.sol";
import {Case, Entry, IRule, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Order} from "./Order.sol";
import {Shapes} from "./Shapes.sol";

/// @title ReductionRule
/// @notice `sum`, `amax` and `argmax` (docs/opset.md, section 5). `sum` of f32 is the arithmetic's, all else is the same in each.
/// @dev States: of `sum` of i64 and of `amax` the value, 8 bytes, of elements in row-major order; of `argmax` the largest so far
/// and its place, 8 bytes each.
abstract contract ReductionRule is IRule {
    uint256 private constant SUM = 40;
    uint256 private constant AMAX = 41;
    uint256 private constant ARGMAX = 42;

    /// @dev A checked case: the set of reduced dimensions, how many elements they reduce to one, and whether it is `sum` of f32.
    struct Reduction {
        uint256 dims;
        uint256 items;
        bool ofFloats;
    }

    /// @inheritdoc IRule
    function begin(Case calldata which) external pure returns (uint64 steps, bytes memory first) {
        Reduction memory r = _read(which);
        // SAFETY: below 2^42.
        steps = uint64(_steps(r));
        if (r.ofFloats) return (steps, _begin(r.items));
        if (which.op != AMAX) return (steps, new bytes(_stateBytes(which, r)));
        bool floats = which.inputs[0].dtype == Cases.F32;
        first = abi.encodePacked(uint64(floats ? Order.MINUS_INFINITY : Order.LOWEST));
    }

    /// @inheritdoc IRule
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next)
    {
        Reduction memory r = _read(which);
        Cases.step(t, _steps(r), state.length, _stateBytes(which, r));
        uint256 place = r.ofFloats ? _place(r.items, t) : t;
        bool exists = place < r.items;
        uint256 found = 0;
        if (exists) {
            uint256 element = Shapes.reduced(which.element, place, which.inputs[0].dims, r.dims);
            found = Operands.read(which, opened, 0, 0, element);
        }
        Operands.end(opened, exists ? 1 : 0);
        if (r.ofFloats) return _next(r.items, t, state, exists, found);
        uint256 before = uint64(bytes8(state[0:8]));
        if (which.op == SUM) {
            unchecked {
                return abi.encodePacked(uint64(before + found));
            }
        }
        bool first = which.op == ARGMAX && t == 0;
        if (!first && !Order.larger(which.inputs[0].dtype, found, before)) return state;
        return which.op == AMAX ? abi.encodePacked(uint64(found)) : abi.encodePacked(uint64(found), t);
    }

    /// @inheritdoc IRule
    /// @dev Only `sum` of f32 may have a log.
    function finish(Case calldata which, bytes calldata state, Entry calldata entry)
        external
        pure
        returns (uint64 bits)
    {
        Reduction memory r = _read(which);
        Cases.state(state.length, _stateBytes(which, r));
        if (r.ofFloats) return uint64(_element(which.mode, state, entry));
        return uint64(bytes8(which.op == ARGMAX ? state[8:16] : state[0:8]));
    }

    // ------------------------------------------------------------------ what depends on the arithmetic

    function _modes() internal pure virtual returns (uint256);

    /// @dev How many steps `sum` of so many f32 takes.
    function _length(uint256 items) internal pure virtual returns (uint256);

    /// @dev How many bytes its states have.
    function _size(uint256 items) internal pure virtual returns (uint256);

    /// @dev The state before the first step.
    function _begin(uint256 items) internal pure virtual returns (bytes memory);

    /// @dev Which element step `t` takes, if there are so many.
    function _place(uint256 items, uint256 t) internal pure virtual returns (uint256);

    /// @dev The state after step `t`, which takes `value` if there is one.
    function _next(uint256 items, uint256 t, bytes calldata state, bool exists, uint256 value)
        internal
        pure
        virtual
        returns (bytes memory);

    function _element(uint8 mode, bytes calldata state, Entry calldata entry)
        internal
        pure
        virtual
        returns (uint256);

    // ------------------------------------------------------------------ cases

    function _read(Case calldata which) private pure returns (Reduction memory r) {
        Cases.mine(which, (1 << SUM) | (1 << AMAX) | (1 << ARGMAX), _modes());
        Cases.check(which, 1, 1);
        uint8 dtype = which.inputs[0].dtype;
        if (dtype != Cases.F32) Cases.input(which, 0, Cases.I64);
        Cases.output(which, 0, which.op == ARGMAX ? Cases.I64 : dtype);
        r.ofFloats = which.op == SUM && dtype == Cases.F32;

        uint64[] calldata shape = which.inputs[0].dims;
        uint256 from;
        if (which.op == ARGMAX) {
            (r.dims, from) = Attributes.number(which.attributes, 0);
            Attributes.fit(r.dims < shape.length, from);
            r.dims = 1 << r.dims;
        } else {
            (r.dims, from) = Attributes.dimensions(which.attributes, 0, shape.length);
        }
        bool keep;
        (keep, from) = Attributes.flag(which.attributes, from);
        Attributes.end(which.attributes, from);
        r.items = Shapes.reduces(shape, r.dims, keep, which.outputs[0].dims);
        Shapes.fit(r.items != 0 || which.op != ARGMAX);
    }

    function _steps(Reduction memory r) private pure returns (uint256) {
        return r.ofFloats ? _length(r.items) : r.items;
    }

    function _stateBytes(Case calldata which, Reduction memory r) private pure returns (uint256) {
        return r.ofFloats ? _size(r.items) : which.op == ARGMAX ? 16 : 8;
    }
}
