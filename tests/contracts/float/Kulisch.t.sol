// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Kulisch, Sum} from "contracts/float/Kulisch.sol";

/// @notice Exact sums, by laws that hold bit for bit and by examples for readers. Against Python's integers:
/// tests/twins/float/test_kulisch.py.
contract KulischTest is Base {
    using Kulisch for Sum;

    uint256 private constant ONE = 0x3f800000;
    uint256 private constant LARGEST = 0x7f7fffff;
    uint256 private constant INFINITE = 0x7f800000;
    uint256 private constant SIGN = 0x80000000;

    function same(Sum memory have, Sum memory want, string memory what) internal pure {
        eq(have.hi, want.hi, what);
        eq(have.mid, want.mid, what);
        eq(have.lo, want.lo, what);
    }

    function _finite(uint256 bits) private pure returns (uint256) {
        return bits & 0xbfffffff;
    }

    function _pack(uint256[6] memory factors) private pure returns (bytes memory terms) {
        for (uint256 i = 0; i < 6; ++i) {
            terms = bytes.concat(terms, bytes4(uint32(factors[i])));
        }
    }

    function _sums(bytes memory terms) private pure returns (Sum memory sum, Sum memory magnitude) {
        return sum.addTerms(magnitude, terms);
    }

    function decode(bytes calldata data) external pure {
        Kulisch.decode(data);
    }

    function addTerms(bytes calldata terms) external pure {
        _sums(terms);
    }

    // ------------------------------------------------------------------ numbers

    function test_units() public pure {
        same(Kulisch.product(1, 1), Sum(0, 0, 1), "the smallest product is the unit");
        same(Kulisch.product(1 | SIGN, 1), Kulisch.negate(Sum(0, 0, 1)), "and has a sign");
        same(Kulisch.product(ONE, ONE), Sum(0, 1 << 42, 0), "1 is 2^298 units");
        // (2^24 - 1)^2 2^208 is below 2^256, and 2^554 units are 2^256.
        same(Kulisch.product(LARGEST, LARGEST), Kulisch.shifted(uint256(0xffffff) ** 2, 506), "the largest");
        yes(Kulisch.product(LARGEST, LARGEST).hi < 1 << 42, "is below 2^554");
        same(Kulisch.product(0, SIGN), Sum(0, 0, 0), "zeros have no sign");
    }

    function test_whatIsNotFinite() public pure {
        same(Kulisch.product(INFINITE, ONE), Sum(Kulisch.INFINITY, 0, 0), "infinity");
        same(Kulisch.product(ONE | SIGN, INFINITE), Sum(Kulisch.NEGATIVE_INFINITY, 0, 0), "and its sign");
        same(Kulisch.product(INFINITE, 0), Sum(Kulisch.NAN, 0, 0), "times zero");
        same(Kulisch.product(0x7f800001, ONE), Sum(Kulisch.NAN, 0, 0), "a signalling NaN");
        Sum memory plus = Sum(Kulisch.INFINITY, 0, 0);
        same(plus.negate(), Sum(Kulisch.NEGATIVE_INFINITY, 0, 0), "minus infinity");
        same(plus.add(plus), plus, "twice infinity");
        same(plus.add(plus.negate()), Sum(Kulisch.NAN, 0, 0), "infinity less infinity");
        same(plus.addProduct(LARGEST | SIGN, LARGEST), plus, "infinity less a number");
        same(plus.negate().absolute(), plus, "its size");
    }

    // ------------------------------------------------------------------ laws

    /// @dev Products of values of about 1 fit in 256 bits, where Solidity can add.
    function testFuzz_smallSumsAreThoseOfIntegers(uint256[6] memory factors) public pure {
        int256 want;
        int256 size;
        for (uint256 i = 0; i < 6; i += 2) {
            (factors[i], factors[i + 1]) = (factors[i] & 0x85ffffff, factors[i + 1] & 0x85ffffff);
            (uint256 m, uint256 e) = Kulisch.parts(factors[i] & 0x7fffffff);
            (uint256 n, uint256 f) = Kulisch.parts(factors[i + 1] & 0x7fffffff);
            int256 product = int256((m * n) << (e + f));
            want += (factors[i] ^ factors[i + 1]) & SIGN == 0 ? product : -product;
            size += product;
        }
        (Sum memory sum, Sum memory magnitude) = _sums(_pack(factors));
        uint256 above = want < 0 ? type(uint256).max : 0;
        same(sum, Sum(above, above, uint256(want)), "sum");
        same(magnitude, Sum(0, 0, uint256(size)), "magnitude");
    }

    function testFuzz_anyOrderAndAnyPieces(uint256[6] memory f) public pure {
        (Sum memory sum, Sum memory magnitude) = _sums(_pack(f));
        (Sum memory turned, Sum memory size) = _sums(_pack([f[4], f[5], f[3], f[2], f[0], f[1]]));
        same(sum, turned, "another order");
        same(magnitude, size, "another order of magnitudes");
        Sum memory one;
        one = one.addProduct(f[0], f[1]).addProduct(f[2], f[3]).addProduct(f[4], f[5]);
        same(sum, one, "one by one");
        same(sum, Kulisch.product(f[2], f[3]).add(Kulisch.product(f[4], f[5])).addProduct(f[0], f[1]), "tree");
    }

    function testFuzz_whatIsTakenAwayIsGone(uint256[6] memory f) public pure {
        for (uint256 i = 0; i < 6; ++i) {
            f[i] = _finite(f[i]);
        }
        (Sum memory sum, Sum memory magnitude) = _sums(_pack(f));
        same(sum.add(sum.negate()), Sum(0, 0, 0), "x - x");
        same(sum.add(sum), sum.times(2), "x + x");
        same(sum.negate().times(1 << 53), sum.times(1 << 53).negate(), "times 2^53");
        yes(sum.absolute().compare(magnitude) <= 0, "a magnitude is no less than the sum");
        (f[0], f[2], f[4]) = (f[0] ^ SIGN, f[2] ^ SIGN, f[4] ^ SIGN);
        (Sum memory opposite, Sum memory size) = sum.addTerms(magnitude, _pack(f));
        same(opposite, Sum(0, 0, 0), "all of it");
        same(size, magnitude.times(2), "but not in magnitude");
    }

    function testFuzz_order(uint256[6] memory f) public pure {
        Sum memory a = Kulisch.product(_finite(f[0]), _finite(f[1]));
        Sum memory b = Kulisch.product(_finite(f[2]), _finite(f[3]));
        int256 order = a.compare(b);
        yes(order == -b.compare(a), "turned");
        yes(order == b.negate().compare(a.negate()), "negated");
        Sum memory difference = a.add(b.negate());
        yes((order < 0) == difference.isNegative(), "the sign of the difference");
        yes((order == 0) == (difference.hi | difference.mid | difference.lo == 0), "none");
    }

    // ------------------------------------------------------------------ bytes

    function testFuzz_bytes(uint256[6] memory f) public pure {
        (Sum memory sum,) = _sums(_pack(f));
        bytes memory data = sum.encode();
        eq(data.length, 96, "length");
        same(Kulisch.decode(data), sum, "there and back");
    }

    function test_bytesThatAreNoSum() public {
        Sum memory least = Kulisch.shifted(1, 585).negate();
        this.decode(least.encode());
        this.decode(least.negate().add(Sum(0, 0, 1).negate()).encode());
        bytes[5] memory bad = [
            least.negate().encode(),
            least.add(Sum(0, 0, 1).negate()).encode(),
            abi.encodePacked(Kulisch.INFINITY, uint256(0), uint256(1)),
            abi.encodePacked(Kulisch.NAN, uint256(1), uint256(0)),
            new bytes(95)
        ];
        for (uint256 i = 0; i < 5; ++i) {
            refuses(Kulisch.NotASum.selector);
            this.decode(bad[i]);
        }
    }

    function test_brokenTerms() public {
        this.addTerms("");
        refuses(Kulisch.NotWholeTerms.selector);
        this.addTerms(new bytes(20));
    }

    /// @dev Bytes before and after the terms in memory are not terms.
    function testFuzz_neighboursInMemory(uint256[6] memory f, uint256 noise) public pure {
        bytes memory terms = _pack(f);
        assembly ("memory-safe") {
            // The terms end 16 bytes before their memory does.
            mstore(add(terms, 0x38), noise)
        }
        (Sum memory sum,) = _sums(terms);
        same(sum, Kulisch.product(f[0], f[1]).addProduct(f[2], f[3]).addProduct(f[4], f[5]), "three terms");
    }
}
