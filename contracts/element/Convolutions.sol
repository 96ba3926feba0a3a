// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Case} from "./IRule.sol";
import {Shapes} from "./Shapes.sol";
import {Spec, Specs} from "./Specs.sol";
import {Window, Windows} from "./Windows.sol";

/// @notice A term of a contraction: positions in the first and the second input, if it exists.
struct Term {
    bool exists;
    uint256 first;
    uint256 second;
}

/// @title Convolutions
/// @notice The terms of a convolution and of its gradients (docs/opset.md, section 6).
/// @dev Letters are those of that section: x `[N, G C, H, W]`, w `[G F, C, R, S]`, y and dy `[N, G F, Y, X]`.
library Convolutions {
    uint256 internal constant FORWARD = 52;
    uint256 internal constant INPUT_GRAD = 53;
    uint256 internal constant WEIGHT_GRAD = 54;

    /// @notice Checks a case of a convolution or a gradient; returns how its window moves, and its number of groups.
    function read(Case calldata which) internal pure returns (Window memory window, uint256 groups) {
        uint256 from;
        (window, from) = Windows.read(which.attributes, 0);
        (groups, from) = Attributes.number(which.attributes, from);
        if (which.op != FORWARD) {
            // Two dimensions of the output, whose rank `fit` checks to be 4.
            uint256 height;
            uint256 width;
            (height, width, from) = Attributes.pair(which.attributes, from);
            Spec dims = Specs.get(which.outputs, 0);
            Attributes.fit(dims.rank() == 4 && height == dims.dim(2) && width == dims.dim(3), from);
        }
        Attributes.end(which.attributes, from);
        (Spec x, Spec w, Spec y) = _tensors(which);
        _fit(x, w, y, window, groups);
    }

    /// @dev Returns x, w and y: two of them are the inputs, one is the output.
    function _tensors(Case calldata which) private pure returns (Spec, Spec, Spec) {
        Spec first = Specs.get(which.inputs, 0);
        Spec second = Specs.get(which.inputs, 1);
        Spec result = Specs.get(which.outputs, 0);
        if (which.op == FORWARD) return (first, second, result);
        if (which.op == INPUT_GRAD) return (result, second, first);
        return (second, result, first);
    }

    function _fit(Spec x, Spec w, Spec y, Window memory window, uint256 groups) private pure {
        Shapes.fit(x.rank() == 4 && w.rank() == 4 && y.rank() == 4 && groups != 0);
        Shapes.fit(
            x.dim(1) == w.dim(1) * groups && w.dim(0) % groups == 0 && y.dim(0) == x.dim(0)
                && y.dim(1) == w.dim(0)
        );
        Windows.fit(window.y, x.dim(2), w.dim(2), y.dim(2));
        Windows.fit(window.x, x.dim(3), w.dim(3), y.dim(3));
    }

    /// @notice Returns the number of terms of a checked case, including those in the padding.
    function terms(Case calldata which, uint256 groups) internal pure returns (uint256) {
        unchecked {
            // SAFETY: the output has an element, so each product is at most the number of elements of an input.
            Spec first = Specs.get(which.inputs, 0);
            if (which.op == FORWARD) return Shapes.countFrom(Specs.get(which.inputs, 1), 1);
            if (which.op == INPUT_GRAD) {
                return first.dim(1) / groups * Shapes.countFrom(Specs.get(which.inputs, 1), 2);
            }
            return first.dim(0) * Shapes.countFrom(first, 2);
        }
    }

    /// @notice Returns term `k` of a checked case.
    function term(Case calldata which, Window memory window, uint256 groups, uint256 k)
        internal
        pure
        returns (Term memory)
    {
        if (which.op == FORWARD) return _forward(which, window, groups, k);
        if (which.op == INPUT_GRAD) return _inputGrad(which, window, groups, k);
        return _weightGrad(which, window, groups, k);
    }

    /// @dev For y `[n, f, y, x]`: k runs over (c, r, s).
    function _forward(Case calldata which, Window memory window, uint256 groups, uint256 k)
        private
        pure
        returns (Term memory found)
    {
        unchecked {
            Spec w = Specs.get(which.inputs, 1);
            uint256[4] memory index = _digits(which.element, Specs.get(which.outputs, 0));
            uint256[4] memory tap = _digits(k, w);
            uint256 channel = index[1] / (w.dim(0) / groups) * w.dim(1) + tap[1];
            (found.exists, found.first) =
                _met(window, [index[0], channel, index[2], index[3]], tap, Specs.get(which.inputs, 0));
            // SAFETY: a filter has as many elements as there are terms.
            found.second = index[1] * Shapes.countFrom(w, 1) + k;
        }
    }

    /// @dev For dx `[n, g C + c, h, w]`: k runs over (f, r, s).
    function _inputGrad(Case calldata which, Window memory window, uint256 groups, uint256 k)
        private
        pure
        returns (Term memory found)
    {
        unchecked {
            Spec dy = Specs.get(which.inputs, 0);
            Spec w = Specs.get(which.inputs, 1);
            uint256[4] memory index = _digits(which.element, Specs.get(which.outputs, 0));
            uint256 s = k % w.dim(3);
            uint256 r = k / w.dim(3) % w.dim(2);
            uint256 filter = index[1] / w.dim(1) * (dy.dim(1) / groups) + k / w.dim(3) / w.dim(2);
            (bool insideY, uint256 y) = Windows.metBy(window.y, index[2], r, dy.dim(2));
            (bool insideX, uint256 x) = Windows.metBy(window.x, index[3], s, dy.dim(3));
            found.exists = insideY && insideX;
            found.first = _position(index[0], filter, y, x, dy);
            found.second = _position(filter, index[1] % w.dim(1), r, s, w);
        }
    }

    /// @dev For dw `[g F + f, c, r, s]`: k runs over (n, y, x).
    function _weightGrad(Case calldata which, Window memory window, uint256 groups, uint256 k)
        private
        pure
        returns (Term memory found)
    {
        unchecked {
            Spec dy = Specs.get(which.inputs, 0);
            Spec x = Specs.get(which.inputs, 1);
            uint256[4] memory tap = _digits(which.element, Specs.get(which.outputs, 0));
            uint256 plane = dy.dim(2) * dy.dim(3);
            uint256 image = k / plane;
            uint256 channel = tap[0] / (dy.dim(1) / groups) * (x.dim(1) / groups) + tap[1];
            (found.exists, found.second) =
                _met(window, [image, channel, k % plane / dy.dim(3), k % dy.dim(3)], tap, x);
            found.first = (image * dy.dim(1) + tap[0]) * plane + k % plane;
        }
    }

    /// @dev Returns the position in an image that tap (.., .., r, s) of the window position (n, channel, y, x) meets.
    function _met(Window memory window, uint256[4] memory index, uint256[4] memory tap, Spec image)
        private
        pure
        returns (bool inside, uint256 found)
    {
        (bool insideY, uint256 h) = Windows.met(window.y, index[2], tap[2], image.dim(2));
        (bool insideX, uint256 w) = Windows.met(window.x, index[3], tap[3], image.dim(3));
        inside = insideY && insideX;
        if (inside) found = _position(index[0], index[1], h, w, image);
    }

    /// @dev Splits a position in a shape of rank 4 into digits; the first one is the quotient that is left.
    function _digits(uint256 position, Spec dims) private pure returns (uint256[4] memory index) {
        unchecked {
            index[3] = position % dims.dim(3);
            position /= dims.dim(3);
            index[2] = position % dims.dim(2);
            position /= dims.dim(2);
            index[1] = position % dims.dim(1);
            index[0] = position / dims.dim(1);
        }
    }

    function _position(uint256 a, uint256 b, uint256 c, uint256 d, Spec dims) private pure returns (uint256) {
        unchecked {
            return ((a * dims.dim(1) + b) * dims.dim(2) + c) * dims.dim(3) + d;
        }
    }
}
