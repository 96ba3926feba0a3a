// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Cases} from "./Cases.sol";
import {Case, Entry, IRule, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Order} from "./Order.sol";
import {Shapes} from "./Shapes.sol";
import {Spec, Specs} from "./Specs.sol";

/// @title ReductionRule
/// @notice `sum`, `amax` and `argmax` (docs/opset.md, section 5). Only `sum` of f32 depends on the arithmetic.
/// @dev States: for `sum` of i64 and for `amax` the value, 8 bytes, over elements in row-major order; for `argmax` the
/// largest value so far and its place, 8 bytes each.
abstract contract ReductionRule is IRule {
    uint256 private constant SUM = 40;
    uint256 private constant AMAX = 41;
    uint256 private constant ARGMAX = 42;

    /// @dev A checked case: the set of reduced dimensions, how many elements become one, and if it is `sum` of f32.
    struct Reduction {
        uint256 dims;
        uint256 items;
        bool ofFloats;
    }

    /// @inheritdoc IRule
    function begin(Case calldata which) external pure returns (uint64 steps, bytes memory first) {
        Reduction memory r = _read(which);
        // SAFETY: at most Cases.MAX_STEPS.
        steps = uint64(r.items);
        if (r.ofFloats) return (steps, _begin(r.items));
        if (which.op != AMAX) return (steps, new bytes(_stateBytes(which, r)));
        bool floats = Specs.get(which.inputs, 0).dtype() == Cases.F32;
        first = abi.encodePacked(uint64(floats ? Order.MINUS_INFINITY : Order.LOWEST));
    }

    /// @inheritdoc IRule
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next)
    {
        Reduction memory r = _read(which);
        Cases.step(t, r.items, state.length, _stateBytes(which, r));
        uint256 item = r.ofFloats ? _item(r.items, t) : t;
        uint256 element = Shapes.reduced(which.element, item, Specs.get(which.inputs, 0), r.dims);
        uint256 found = Operands.read(which, opened, 0, 0, element);
        Operands.end(opened, 1);
        if (r.ofFloats) return _next(r.items, t, state, found);
        uint256 before = uint64(bytes8(state[0:8]));
        if (which.op == SUM) {
            unchecked {
                return abi.encodePacked(uint64(before + found));
            }
        }
        bool first = which.op == ARGMAX && t == 0;
        if (!first && !Order.larger(Specs.get(which.inputs, 0).dtype(), found, before)) return state;
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

    // ------------------------------------------------------------------ parts that depend on the arithmetic

    function _modes() internal pure virtual returns (uint256);

    /// @dev Returns the number of bytes of the states of a `sum` of `items` f32.
    function _size(uint256 items) internal pure virtual returns (uint256);

    /// @dev Returns the state before the first step: zeros, unless the arithmetic begins otherwise.
    function _begin(uint256 items) internal pure virtual returns (bytes memory) {
        return new bytes(_size(items));
    }

    /// @dev Returns the number of the item, of `items`, that step `t` takes: row-major, unless there is another order.
    function _item(uint256, uint256 t) internal pure virtual returns (uint256) {
        return t;
    }

    /// @dev Returns the state after step `t`, which takes `value`.
    function _next(uint256 items, uint256 t, bytes calldata state, uint256 value)
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
        uint8 dtype = Specs.get(which.inputs, 0).dtype();
        if (dtype != Cases.F32) Cases.input(which, 0, Cases.I64);
        Cases.output(which, 0, which.op == ARGMAX ? Cases.I64 : dtype);
        r.ofFloats = which.op == SUM && dtype == Cases.F32;

        Spec shape = Specs.get(which.inputs, 0);
        uint256 from;
        if (which.op == ARGMAX) {
            (r.dims, from) = Attributes.number(which.attributes, 0);
            Attributes.fit(r.dims < shape.rank(), from);
            r.dims = 1 << r.dims;
        } else {
            (r.dims, from) = Attributes.dimensions(which.attributes, 0, shape.rank());
        }
        bool keep;
        (keep, from) = Attributes.flag(which.attributes, from);
        Attributes.end(which.attributes, from);
        r.items = Shapes.reduces(shape, r.dims, keep, Specs.get(which.outputs, 0));
        Shapes.fit(r.items != 0 || which.op != ARGMAX);
        Cases.chain(r.items);
    }

    function _stateBytes(Case calldata which, Reduction memory r) private pure returns (uint256) {
        return r.ofFloats ? _size(r.items) : which.op == ARGMAX ? 16 : 8;
    }
}
