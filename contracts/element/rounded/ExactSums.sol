// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../../commit/Modes.sol";
import {Ball, Entry as GridEntry, Grid} from "../../float/Grid.sol";
import {Kulisch, Sum} from "../../float/Kulisch.sol";
import {Entry} from "../IRule.sol";

/// @title ExactSums
/// @notice States of sums in rounded-f64, which no order of the terms changes (docs/adjudication.md, section 2).
///
///     sum 96 ‖ magnitude 96 ‖ terms u64be [‖ smallest u32be]      sum and magnitude as Kulisch encodes them
///
/// Terms are those that exist. `smallest` is there where values are added and not products: the bits of the smallest that is
/// neither zero nor infinite nor NaN, without its sign; 0 if there is none.
/// @dev INVARIANT: whatever `_read` takes, `plus` makes a next state of. `element` gives an element of it, if it has no more
/// than 2^31 terms. So a party may post any bytes: they are refused by a named error, or end at an element that is wrong.
library ExactSums {
    /// @notice No terms give this state: one of sum and magnitude is finite and the other not, a magnitude is negative, the
    /// smallest value is not finite.
    error NotOfTerms();

    uint256 internal constant PRODUCTS_BYTES = 200;
    uint256 internal constant VALUES_BYTES = 204;

    uint256 private constant MAGNITUDE = 0x7FFFFFFF;
    uint256 private constant INFINITE = 0x7F800000;

    /// @dev A state, decoded.
    struct Sums {
        Sum sum;
        Sum magnitude;
        uint64 terms;
        uint256 smallest;
    }

    // ------------------------------------------------------------------ steps

    /// @notice The same state, if it is one.
    function same(bytes calldata state) internal pure returns (bytes memory) {
        _read(state);
        return state;
    }

    /// @notice The state of products with one more, `a b`.
    function plus(bytes calldata state, uint256 a, uint256 b) internal pure returns (bytes memory) {
        return _encode(_plus(_read(state), a, b));
    }

    /// @notice The state of values with one more.
    function plus(bytes calldata state, uint256 value) internal pure returns (bytes memory) {
        Sums memory sums = _plus(_read(state), value, Kulisch.ONE);
        uint256 size = value & MAGNITUDE;
        bool smaller = sums.smallest == 0 || size < sums.smallest;
        if (size != 0 && size < INFINITE && smaller) sums.smallest = size;
        return abi.encodePacked(_encode(sums), uint32(sums.smallest));
    }

    function _plus(Sums memory sums, uint256 a, uint256 b) private pure returns (Sums memory) {
        Sum memory term = Kulisch.product(a, b);
        sums.sum = Kulisch.add(sums.sum, term);
        sums.magnitude = Kulisch.add(sums.magnitude, Kulisch.absolute(term));
        unchecked {
            // NOTE: modulo 2^64. Elements have no more than 2^31 terms.
            ++sums.terms;
        }
        return sums;
    }

    // ------------------------------------------------------------------ elements

    /// @notice The element, of which the log says `entry`. Refuses more than 2^31 terms.
    function element(uint8 mode, bytes calldata state, Entry calldata entry) internal pure returns (uint256) {
        Sums memory sums = _read(state);
        (uint256 numerator, uint256 denominator) = Grid.gamma(sums.terms, Modes.probable(mode));
        if (state.length == VALUES_BYTES && Kulisch.isAddedExactly(_exponent(sums.smallest), sums.magnitude))
        {
            numerator = 0;
        }
        return Grid.decide(
            Ball(sums.sum, sums.magnitude, numerator, denominator),
            GridEntry(entry.kind, entry.written),
            Modes.bits(mode)
        );
    }

    /// @dev As a set of one, or of none (see Kulisch.exponents).
    function _exponent(uint256 smallest) private pure returns (uint256) {
        if (smallest == 0) return 0;
        (, uint256 e) = Kulisch.parts(smallest);
        return 1 << e;
    }

    // ------------------------------------------------------------------ bytes

    /// @dev Of a state that has the size of one. Refuses what Kulisch.decode refuses.
    function _read(bytes calldata state) private pure returns (Sums memory sums) {
        sums.sum = Kulisch.decode(state[0:96]);
        sums.magnitude = Kulisch.decode(state[96:192]);
        sums.terms = uint64(bytes8(state[192:200]));
        if (state.length == VALUES_BYTES) sums.smallest = uint32(bytes4(state[200:204]));
        bool negative = Kulisch.isNegative(sums.magnitude) && sums.magnitude.hi != Kulisch.NAN;
        bool alike = Kulisch.isFinite(sums.sum) == Kulisch.isFinite(sums.magnitude);
        if (negative || !alike || sums.smallest >= INFINITE) revert NotOfTerms();
    }

    function _encode(Sums memory sums) private pure returns (bytes memory) {
        return abi.encodePacked(Kulisch.encode(sums.sum), Kulisch.encode(sums.magnitude), sums.terms);
    }
}
