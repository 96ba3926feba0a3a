// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Cases} from "./Cases.sol";
import {Case, Entry, IRule, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Order} from "./Order.sol";
import {Shapes} from "./Shapes.sol";
import {Spec, Specs} from "./Specs.sol";
import {Window, Windows} from "./Windows.sol";

/// @title Pooling
/// @notice `max_pool2d` (docs/opset.md, section 6). One step for each tap that is inside the plane, row-major.
/// @dev State: `value u64be ‖ place u64be`, the largest so far and its place in the plane; -inf and -1 before any.
contract Pooling is IRule {
    uint256 private constant MAX_POOL2D = 55;
    uint256 private constant NOWHERE = type(uint64).max;
    uint16 private constant STATE_BYTES = 16;

    /// @dev A checked case: the taps of the element's window that are inside, in each dimension.
    struct Pool {
        Window window;
        uint256 firstRow;
        uint256 rows;
        uint256 firstColumn;
        uint256 columns;
    }

    /// @inheritdoc IRule
    function begin(Case calldata which) external pure returns (uint64 steps, bytes memory first) {
        Pool memory pool = _read(which);
        // SAFETY: at most Cases.MAX_STEPS.
        steps = uint64(pool.rows * pool.columns);
        first = abi.encodePacked(uint64(Order.MINUS_INFINITY), uint64(NOWHERE));
    }

    /// @inheritdoc IRule
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next)
    {
        Pool memory pool = _read(which);
        Cases.step(t, pool.rows * pool.columns, state.length, STATE_BYTES);
        (uint256 plane, uint256 place) = _met(which, pool, t);
        uint256 found = Operands.read(which, opened, 0, 0, plane + place);
        Operands.end(opened, 1);
        uint256 before = uint64(bytes8(state[0:8]));
        bool none = uint8(state[8]) >> 7 == 1;
        if (!none && !Order.larger(Cases.F32, found, before)) return state;
        return abi.encodePacked(uint64(found), uint64(place));
    }

    /// @inheritdoc IRule
    /// @dev A choice has no log, so the entry is ignored.
    function finish(Case calldata which, bytes calldata state, Entry calldata)
        external
        pure
        returns (uint64 bits)
    {
        _read(which);
        Cases.state(state.length, STATE_BYTES);
        return uint64(bytes8(which.output == 0 ? state[0:8] : state[8:16]));
    }

    /// @dev Returns the position that the tap of step `t` meets: the start of its plane, and the place in the plane.
    function _met(Case calldata which, Pool memory pool, uint256 t)
        private
        pure
        returns (uint256 plane, uint256 place)
    {
        unchecked {
            Spec image = Specs.get(which.inputs, 0);
            Spec result = Specs.get(which.outputs, 0);
            (uint256 y, uint256 x) = _position(which.element, result);
            (, uint256 h) = Windows.met(pool.window.y, y, pool.firstRow + t / pool.columns, image.dim(2));
            (, uint256 w) = Windows.met(pool.window.x, x, pool.firstColumn + t % pool.columns, image.dim(3));
            plane = which.element / result.dim(3) / result.dim(2) * image.dim(2) * image.dim(3);
            place = h * image.dim(3) + w;
        }
    }

    /// @dev Returns row and column of an element in its plane.
    function _position(uint256 element, Spec result) private pure returns (uint256 y, uint256 x) {
        unchecked {
            x = element % result.dim(3);
            y = element / result.dim(3) % result.dim(2);
        }
    }

    function _read(Case calldata which) private pure returns (Pool memory pool) {
        Cases.mine(which, 1 << MAX_POOL2D, Cases.ANY);
        Cases.check(which, 1, 2);
        Cases.input(which, 0, Cases.F32);
        Cases.output(which, 0, Cases.F32);
        Cases.output(which, 1, Cases.I64);
        (uint256 height, uint256 width, uint256 from) = Attributes.pair(which.attributes, 0);
        (pool.window, from) = Windows.read(which.attributes, from);
        Attributes.end(which.attributes, from);

        Spec image = Specs.get(which.inputs, 0);
        Spec result = Specs.get(which.outputs, 0);
        Shapes.same(result, Specs.get(which.outputs, 1));
        Shapes.fit(image.rank() == 4 && result.rank() == 4);
        Shapes.fit(result.dim(0) == image.dim(0) && result.dim(1) == image.dim(1));
        Windows.fit(pool.window.y, image.dim(2), height, result.dim(2));
        Windows.fit(pool.window.x, image.dim(3), width, result.dim(3));
        Cases.chain(_least(height, image.dim(2)) * _least(width, image.dim(3)));
        (uint256 y, uint256 x) = _position(which.element, result);
        (pool.firstRow, pool.rows) = Windows.taps(pool.window.y, y, height, image.dim(2));
        (pool.firstColumn, pool.columns) = Windows.taps(pool.window.x, x, width, image.dim(3));
    }

    function _least(uint256 a, uint256 b) private pure returns (uint256) {
        return a < b ? a : b;
    }
}
