// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Normals} from "./Normals.sol";
import {Convert} from "contracts/float/Convert.sol";
import {Float32} from "contracts/float/Float32.sol";
import {Float64} from "contracts/float/Float64.sol";

/// @notice The gas of the arithmetic as internal calls: gasleft() before and after, less the same around nothing. Means
/// are over numbers drawn from N(0, 1), worst cases were found by a search (docs/float.md).
contract FloatGasTest is Base {
    uint256 private constant TUPLES = 256;
    uint256 private constant NONE = 0;

    uint256 private _results;

    function test_binary32() public {
        bytes memory x = Normals.SINGLE;
        _mean("binary32 add", _add32, x, 32);
        _mean("binary32 mul", _mul32, x, 32);
        _mean("binary32 fma", _fma32, x, 32);
        _mean("binary32 div", _div32, x, 32);
        _mean("binary32 sqrt", _sqrt32, x, 32);
        _one("binary32 add, worst", _add32, 0x7d7ce94d, 0xc8008e34, NONE);
        _one("binary32 mul, worst", _mul32, 0x397ffc57, 0x032726d9, NONE);
        _one("binary32 fma, worst", _fma32, 0x21f0ff81, 0x9e695ba5, 0x00a8b8c4);
        _one("binary32 div, worst", _div32, 0x8e756b44, 0x52e749e5, NONE);
        _one("binary32 sqrt, worst", _sqrt32, 0x0024f79e, NONE, NONE);
        _one("binary32 fma, a factor of 0", _fma32, 0, 0x3FC00000, 0xBF800000);
        _one("binary32 fma, first of a chain", _fma32, 0x3FC00000, 0x40490FDB, 0x80000000);
        _one("binary32 add, to -0", _add32, 0x80000000, 0x40490FDB, NONE);
        _one("binary32 mul, by 0", _mul32, 0, 0x40490FDB, NONE);
    }

    function test_binary64() public {
        bytes memory x = Normals.DOUBLE;
        _mean("binary64 add", _add64, x, 64);
        _mean("binary64 mul", _mul64, x, 64);
        _mean("binary64 fma", _fma64, x, 64);
        _mean("binary64 div", _div64, x, 64);
        _mean("binary64 sqrt", _sqrt64, x, 64);
        _one("binary64 add, worst", _add64, 0x001d1cbaac37e0be, 0x801710fdc9f6178a, NONE);
        _one("binary64 mul, worst", _mul64, 0x0e440e0bd74cf442, 0x31a64653cc6d3f88, NONE);
        _one("binary64 fma, worst", _fma64, 0x28e5533f677bbd22, 0x971ebadd03f954de, 0x0012c5b1525cf64b);
        _one("binary64 div, worst", _div64, 0x37657ea7ab130620, 0xfaee61f509b4e4f2, NONE);
        _one("binary64 sqrt, worst", _sqrt64, 0x0005c8d6a4e12417, NONE, NONE);
    }

    function test_orderAndConversions() public {
        bytes memory x = Normals.SINGLE;
        _mean("binary32 lt", _lt32, x, 32);
        _mean("binary32 maximum", _maximum32, x, 32);
        _mean("binary32 to i64", _f32ToI64, x, 32);
        _mean("binary32 to binary64", _f32ToF64, x, 32);
        // As integers, these bits are large numbers.
        bytes memory y = Normals.DOUBLE;
        _mean("i64 to binary32", _i64ToF32, y, 64);
        _mean("i64 to binary64", _i64ToF64, y, 64);
        _mean("binary64 to binary32", _f64ToF32, y, 64);
    }

    /// @dev A second place that calls each function: a function that is called from one place only is inlined there.
    function elsewhere() external {
        uint256 x = gasleft();
        uint256 single = Float32.fma(Float32.div(x, Float32.sqrt(x)), Float32.mul(x, x), Float32.add(x, x));
        uint256 double = Float64.fma(Float64.div(x, Float64.sqrt(x)), Float64.mul(x, x), Float64.add(x, x));
        single ^= Convert.i64ToF32(Convert.f32ToI64(Float32.maximum(x, single)));
        double ^= Convert.f32ToF64(Convert.f64ToF32(Convert.i64ToF64(double)));
        _results = Float32.lt(x, single) ? single : double;
    }

    /// @dev Returns the mean over tuples of neighbours.
    function _mean(
        string memory name,
        function(uint256, uint256, uint256) view returns (uint256, uint256) measure,
        bytes memory x,
        uint256 bits
    ) private {
        uint256 total;
        for (uint256 i = 0; i < TUPLES; ++i) {
            (uint256 cost, uint256 r) = measure(_at(x, i, bits), _at(x, i + 1, bits), _at(x, i + 2, bits));
            total += cost;
            _results ^= r;
        }
        vm.snapshotValue("float", name, total / TUPLES - _overhead());
    }

    function _one(
        string memory name,
        function(uint256, uint256, uint256) view returns (uint256, uint256) measure,
        uint256 a,
        uint256 b,
        uint256 c
    ) private {
        (uint256 cost, uint256 r) = measure(a, b, c);
        _results ^= r;
        vm.snapshotValue("float", name, cost - _overhead());
    }

    /// @dev Returns the cost of gasleft() itself.
    function _overhead() private view returns (uint256 cost) {
        cost = gasleft();
        cost -= gasleft();
    }

    function _at(bytes memory x, uint256 i, uint256 bits) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := shr(sub(256, bits), mload(add(add(x, 0x20), mul(i, shr(3, bits)))))
        }
    }

    function _add32(uint256 a, uint256 b, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float32.add(a, b);
        cost -= gasleft();
    }

    function _mul32(uint256 a, uint256 b, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float32.mul(a, b);
        cost -= gasleft();
    }

    function _fma32(uint256 a, uint256 b, uint256 c) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float32.fma(a, b, c);
        cost -= gasleft();
    }

    function _div32(uint256 a, uint256 b, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float32.div(a, b);
        cost -= gasleft();
    }

    function _sqrt32(uint256 a, uint256, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float32.sqrt(a);
        cost -= gasleft();
    }

    function _add64(uint256 a, uint256 b, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float64.add(a, b);
        cost -= gasleft();
    }

    function _mul64(uint256 a, uint256 b, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float64.mul(a, b);
        cost -= gasleft();
    }

    function _fma64(uint256 a, uint256 b, uint256 c) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float64.fma(a, b, c);
        cost -= gasleft();
    }

    function _div64(uint256 a, uint256 b, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float64.div(a, b);
        cost -= gasleft();
    }

    function _sqrt64(uint256 a, uint256, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float64.sqrt(a);
        cost -= gasleft();
    }

    function _lt32(uint256 a, uint256 b, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float32.lt(a, b) ? 1 : 0;
        cost -= gasleft();
    }

    function _maximum32(uint256 a, uint256 b, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Float32.maximum(a, b);
        cost -= gasleft();
    }

    function _f32ToI64(uint256 a, uint256, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Convert.f32ToI64(a);
        cost -= gasleft();
    }

    function _f32ToF64(uint256 a, uint256, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Convert.f32ToF64(a);
        cost -= gasleft();
    }

    function _i64ToF32(uint256 a, uint256, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Convert.i64ToF32(a);
        cost -= gasleft();
    }

    function _i64ToF64(uint256 a, uint256, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Convert.i64ToF64(a);
        cost -= gasleft();
    }

    function _f64ToF32(uint256 a, uint256, uint256) private view returns (uint256 cost, uint256 r) {
        cost = gasleft();
        r = Convert.f64ToF32(a);
        cost -= gasleft();
    }
}
