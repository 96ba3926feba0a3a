"""A process that loads a library built with -ffast-math, then computes in several threads: process.py LIBRARY.

Prints a line for each thread. Exits with a message at the first wrong digest or control register.
"""

import ctypes
import functools
import queue
import sys
import threading

import numpy as np

FLUSHING, ROUND_UP = 0x8040, 0x4000  # of MXCSR; FLUSHING is FTZ and DAZ
X87_SINGLE_ROUND_DOWN = 0x047F  # all exceptions masked, 24-bit precision, rounding down
OPENMP_THREADS = (1, 3)
SUBNORMAL = np.full(64, 2.0**-140, np.float32)


def started_before_the_load(work):
    """Start a thread now; return a function that makes it run `work`."""
    orders = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: orders.get()())
    thread.start()
    return lambda: (orders.put(work), thread.join())


def started_now(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def main():
    failures = []
    loaded = {}

    def check(title, flushing, extra=0):
        """Check all operators in this thread, whose MXCSR must be flushing or not, on several OpenMP threads."""
        try:
            library = loaded["library"]
            if bool(library.get_mxcsr() & FLUSHING == FLUSHING) != flushing:
                raise AssertionError(f"MXCSR is {library.get_mxcsr():#x}: this proves nothing")
            if (SUBNORMAL * SUBNORMAL.dtype.type(1) == 0).all() != flushing:
                raise AssertionError("arithmetic does not obey MXCSR: this proves nothing")
            library.set_mxcsr(library.get_mxcsr() | extra)
            library.set_x87(X87_SINGLE_ROUND_DOWN)
            before = library.get_mxcsr(), library.get_x87()
            compare(before, library)
            if library.flushing_threads(max(OPENMP_THREADS)) != (max(OPENMP_THREADS) if flushing else 0):
                raise AssertionError("OpenMP's threads were not those that were meant")
            print(f"{title}: same bits, environment given back", flush=True)
        except BaseException as error:
            failures.append(f"{title}: {error}")

    def compare(before, library):
        from repops.backends import Backend
        from repops.host import cpu
        from repops.selftest import digest, golden, lines

        want = golden()
        for threads in OPENMP_THREADS:
            for line in lines():
                execute = functools.partial(cpu.execute, threads=threads, sums=line.sums)
                if digest(Backend("cpu", execute), line.operator) != want[line.name]:
                    raise AssertionError(f"{line.name} differs on {threads} threads")
                if (library.get_mxcsr(), library.get_x87()) != before:
                    raise AssertionError(f"{line.name} left another environment on {threads} threads")

    earlier = started_before_the_load(lambda: check("thread started before the load", flushing=False))
    loaded["library"] = ctypes.CDLL(sys.argv[1])
    check("thread that loaded it", flushing=True)
    check("the same, rounding upwards too", flushing=True, extra=ROUND_UP)
    earlier()
    started_now(lambda: check("thread started after the load", flushing=True))
    sys.exit("\n".join(failures) or None)


if __name__ == "__main__":
    main()
