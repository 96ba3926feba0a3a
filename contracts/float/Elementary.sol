// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";
import {ElementaryRsqrt} from "./ElementaryRsqrt.sol";
import {Erf} from "./Erf.sol";
import {Exp} from "./Exp.sol";
import {Log} from "./Log.sol";
import {Pow} from "./Pow.sol";
import {Tanh} from "./Tanh.sol";
import {Trig} from "./Trig.sol";

/// @title Elementary
/// @notice The elementary functions of docs/opset.md, section 4, by their operator ids. Contracts that need a few of
/// them use their libraries directly: Exp, Tanh, Erf, Log, Pow, Trig and ElementaryRsqrt.
library Elementary {
    /// @notice There is no elementary function with this id.
    error NotElementary(uint256 operator);
    /// @notice The operand is not a binary32 pattern, which is below 2^32.
    error NotBinary32(uint256 operand);

    uint256 internal constant EXP = 9;
    uint256 internal constant LOG = 10;
    uint256 internal constant RSQRT = 11;
    uint256 internal constant ERF = 12;
    uint256 internal constant TANH = 13;
    uint256 internal constant SIN = 14;
    uint256 internal constant COS = 15;
    uint256 internal constant LOG1P = 16;
    uint256 internal constant POW = 17;

    /// @notice Returns the correctly rounded value, a binary32 pattern; a NaN is 0x7FC00000. Only pow reads b.
    /// @dev Not for rsqrt, which is two rounded operations in docs/opset.md.
    function value(uint256 operator, uint256 a, uint256 b) internal pure returns (uint256) {
        if (operator == RSQRT) revert NotElementary(operator);
        (uint256 low, uint256 high, int256 exponent, uint256 sign) = bracket(operator, a, b);
        return ElementaryBracket.toBinary32(low, high, exponent, sign);
    }

    /// @notice Returns a bracket of the real value: see ElementaryBracket. Only pow reads b; rsqrt is 1 / sqrt(a).
    function bracket(uint256 operator, uint256 a, uint256 b)
        internal
        pure
        returns (uint256 low, uint256 high, int256 exponent, uint256 sign)
    {
        if (a >> 32 != 0) revert NotBinary32(a);
        if (b >> 32 != 0) revert NotBinary32(b);
        if (operator == EXP) return Exp.bracket(a);
        if (operator == LOG) return Log.bracket(a);
        if (operator == ERF) return Erf.bracket(a);
        if (operator == TANH) return Tanh.bracket(a);
        if (operator == SIN) return Trig.sinBracket(a);
        if (operator == COS) return Trig.cosBracket(a);
        if (operator == LOG1P) return Log.bracket1p(a);
        if (operator == POW) return Pow.bracket(a, b);
        if (operator == RSQRT) return ElementaryRsqrt.bracket(a);
        revert NotElementary(operator);
    }
}
