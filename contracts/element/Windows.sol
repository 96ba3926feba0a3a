// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Attributes} from "./Attributes.sol";
import {Shapes} from "./Shapes.sol";

/// @notice The movement of a window over an image, in one dimension.
struct Stride {
    uint256 stride;
    uint256 padding;
    uint256 dilation;
}

/// @notice The movement in both dimensions, height first.
struct Window {
    Stride y;
    Stride x;
}

/// @title Windows
/// @notice The input positions that the taps of a window meet (docs/opset.md, section 6).
library Windows {
    /// @dev Exclusive bound on strides, paddings, dilations and kernels: sums of products are below 2^73.
    uint256 private constant MAX_WINDOW = 1 << 31;

    /// @notice Reads the attributes `stride`, `padding` and `dilation`.
    function read(bytes calldata data, uint256 from)
        internal
        pure
        returns (Window memory window, uint256 next)
    {
        (window.y.stride, window.x.stride, next) = _pair(data, from, 1);
        (window.y.padding, window.x.padding, next) = _pair(data, next, 0);
        (window.y.dilation, window.x.dilation, next) = _pair(data, next, 1);
    }

    /// @dev Reads two ints, at least `low` and below the limit.
    function _pair(bytes calldata data, uint256 from, uint256 low)
        private
        pure
        returns (uint256 first, uint256 second, uint256 next)
    {
        (first, second, next) = Attributes.pair(data, from);
        Attributes.fit(first >= low && second >= low && first < MAX_WINDOW && second < MAX_WINDOW, next);
    }

    /// @notice Checks, in one dimension, that a window of `kernel` taps has this many positions on an image of `size`.
    function fit(Stride memory s, uint256 size, uint256 kernel, uint256 positions) internal pure {
        unchecked {
            Shapes.fit(kernel != 0 && kernel < MAX_WINDOW);
            uint256 padded = size + 2 * s.padding;
            uint256 reach = s.dilation * (kernel - 1) + 1;
            Shapes.fit(reach <= padded && positions == (padded - reach) / s.stride + 1);
        }
    }

    /// @notice Returns the image position that a tap of window position `place` meets, if it is inside the image.
    function met(Stride memory s, uint256 place, uint256 tap, uint256 size)
        internal
        pure
        returns (bool inside, uint256 found)
    {
        unchecked {
            // A negative result wraps, and is not inside.
            found = place * s.stride + tap * s.dilation - s.padding;
            inside = found < size;
        }
    }

    /// @notice Returns the taps of window position `place`, of `kernel`, that are inside the image: from `first` on.
    function taps(Stride memory s, uint256 place, uint256 kernel, uint256 size)
        internal
        pure
        returns (uint256 first, uint256 count)
    {
        unchecked {
            uint256 corner = place * s.stride;
            if (corner < s.padding) first = (s.padding - corner + s.dilation - 1) / s.dilation;
            uint256 end = size + s.padding;
            uint256 past = corner < end ? (end - corner + s.dilation - 1) / s.dilation : 0;
            if (past > kernel) past = kernel;
            if (past > first) count = past - first;
        }
    }

    /// @notice Returns the window position, of `positions`, whose tap meets image position `place`, if there is one.
    function metBy(Stride memory s, uint256 place, uint256 tap, uint256 positions)
        internal
        pure
        returns (bool inside, uint256 found)
    {
        unchecked {
            uint256 moved = place + s.padding;
            uint256 back = tap * s.dilation;
            if (moved < back) return (false, 0);
            moved -= back;
            found = moved / s.stride;
            inside = moved % s.stride == 0 && found < positions;
        }
    }
}
