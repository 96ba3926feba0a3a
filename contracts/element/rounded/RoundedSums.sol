// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../../commit/Modes.sol";
import {Ball, Entry as GridEntry, Grid} from "../../float/Grid.sol";
import {Kulisch, Sum} from "../../float/Kulisch.sol";
import {Entry} from "../IRule.sol";

/// @title RoundedSums
/// @notice States of sums in rounded-f64, which no order of terms changes (docs/adjudication.md, section 2).
///
///     sum 96 ‖ magnitude 96 ‖ terms u64be [‖ smallest u32be]      sum and magnitude as Kulisch encodes them
///
/// `terms` counts the terms that exist. `smallest` is present if values are added, not products: the bits, without the
/// sign, of the smallest that is neither zero nor infinite nor NaN; 0 if there is none.
/// @dev INVARIANT: for every state that `_read` accepts, `plus` makes a next state, and `element` an element, up to
/// 2^31 terms. So a party may post any bytes: they are refused by a named error, or end at a wrong element.
library RoundedSums {
    /// @notice No terms give this state: only one of sum and magnitude is finite, a magnitude is negative, or the
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

    /// @notice Returns the same state; reverts if it is none.
    function same(bytes calldata state) internal pure returns (bytes memory) {
        _read(state);
        return state;
    }

    /// @notice Returns a state of products with one more, `a b`.
    function plus(bytes calldata state, uint256 a, uint256 b) internal pure returns (bytes memory) {
        return _encode(_plus(_read(state), a, b));
    }

    /// @notice Returns a state of values with one more.
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
            // NOTE: modulo 2^64. `element` allows at most 2^31 terms.
            ++sums.terms;
        }
        return sums;
    }

    // ------------------------------------------------------------------ elements

    /// @notice Returns the element, a value of grid(bits), of which the log says `entry`. Reverts for more than 2^31
    /// terms.
    function element(uint8 mode, bytes calldata state, Entry calldata entry, uint256 bits)
        internal
        pure
        returns (uint256)
    {
        Sums memory sums = _read(state);
        (uint256 numerator, uint256 denominator) = Grid.gamma(sums.terms, Modes.probable(mode));
        if (state.length == VALUES_BYTES && Kulisch.isAddedExactly(_exponent(sums.smallest), sums.magnitude))
        {
            numerator = 0;
        }
        return Grid.decide(
            Ball(sums.sum, sums.magnitude, numerator, denominator), GridEntry(entry.kind, entry.written), bits
        );
    }

    /// @dev Returns the exponent as a set of one, or the empty set (see Kulisch.exponents).
    function _exponent(uint256 smallest) private pure returns (uint256) {
        if (smallest == 0) return 0;
        (, uint256 e) = Kulisch.parts(smallest);
        return 1 << e;
    }

    // ------------------------------------------------------------------ bytes

    /// @dev Decodes a state of the right size. Reverts where Kulisch.decode does.
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
