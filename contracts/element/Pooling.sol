// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Cases} from "./Cases.sol";
import {Case, Entry, IRule, Opened} from "./IRule.sol";
import {Operands} from "./Operands.sol";
import {Order} from "./Order.sol";
import {Shapes} from "./Shapes.sol";
import {Window, Windows} from "./Windows.sol";

/// @title Pooling
/// @notice `max_pool2d` (docs/opset.md, section 6). One step a tap.
/// @dev State: `value u64be ‖ place u64be`, the largest so far and where in the plane it is; -inf and -1 before any.
contract Pooling is IRule {
    uint256 private constant MAX_POOL2D = 55;
    uint256 private constant NOWHERE = type(uint64).max;
    uint16 private constant STATE_BYTES = 16;

    /// @dev A checked case.
    struct Pool {
        uint256 height;
        uint256 width;
        Window window;
    }

    /// @inheritdoc IRule
    function begin(Case calldata which) external pure returns (uint64 steps, bytes memory first) {
        Pool memory pool = _read(which);
        // SAFETY: below 2^62.
        steps = uint64(pool.height * pool.width);
        first = abi.encodePacked(uint64(Order.MINUS_INFINITY), uint64(NOWHERE));
    }

    /// @inheritdoc IRule
    function step(Case calldata which, uint64 t, bytes calldata state, Opened[] calldata opened)
        external
        pure
        returns (bytes memory next)
    {
        Pool memory pool = _read(which);
        Cases.step(t, pool.height * pool.width, state.length, STATE_BYTES);
        (bool inside, uint256 plane, uint256 place) = _met(which, pool, t);
        if (!inside) {
            Operands.end(opened, 0);
            return state;
        }
        uint256 found = Operands.read(which, opened, 0, 0, plane + place);
        Operands.end(opened, 1);
        uint256 before = uint64(bytes8(state[0:8]));
        bool none = uint8(state[8]) >> 7 == 1;
        if (!none && !Order.larger(Cases.F32, found, before)) return state;
        return abi.encodePacked(uint64(found), uint64(place));
    }

    /// @inheritdoc IRule
    /// @dev What is chosen has no log, so whatever an entry is said to be is nothing.
    function finish(Case calldata which, bytes calldata state, Entry calldata)
        external
        pure
        returns (uint64 bits)
    {
        _read(which);
        Cases.state(state.length, STATE_BYTES);
        return uint64(bytes8(which.output == 0 ? state[0:8] : state[8:16]));
    }

    /// @dev What tap `t` meets: where its plane begins, and the place in that.
    function _met(Case calldata which, Pool memory pool, uint256 t)
        private
        pure
        returns (bool inside, uint256 plane, uint256 place)
    {
        unchecked {
            uint64[] calldata image = which.inputs[0].dims;
            uint64[] calldata result = which.outputs[0].dims;
            uint256 position = which.element;
            (bool insideX, uint256 w) =
                Windows.met(pool.window.x, position % result[3], t % pool.width, image[3]);
            position /= result[3];
            (bool insideY, uint256 h) =
                Windows.met(pool.window.y, position % result[2], t / pool.width, image[2]);
            inside = insideX && insideY;
            if (inside) {
                plane = position / result[2] * image[2] * image[3];
                place = h * image[3] + w;
            }
        }
    }

    function _read(Case calldata which) private pure returns (Pool memory pool) {
        Cases.mine(which, 1 << MAX_POOL2D, Cases.EITHER);
        Cases.check(which, 1, 2);
        Cases.input(which, 0, Cases.F32);
        Cases.output(which, 0, Cases.F32);
        Cases.output(which, 1, Cases.I64);
        uint256 from;
        (pool.height, pool.width, from) = Attributes.pair(which.attributes, 0);
        (pool.window, from) = Windows.read(which.attributes, from);
        Attributes.end(which.attributes, from);

        uint64[] calldata image = which.inputs[0].dims;
        uint64[] calldata result = which.outputs[0].dims;
        Shapes.same(result, which.outputs[1].dims);
        Shapes.fit(image.length == 4 && result.length == 4);
        Shapes.fit(result[0] == image[0] && result[1] == image[1]);
        Windows.fit(pool.window.y, image[2], pool.height, result[2]);
        Windows.fit(pool.window.x, image[3], pool.width, result[3]);
    }
}
