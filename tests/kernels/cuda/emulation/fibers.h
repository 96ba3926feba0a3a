// What the parts of the emulation know of each other, and kernels do not.

#ifndef REPOPS_FIBERS_H
#define REPOPS_FIBERS_H

#include "device.h"

constexpr int MAX_THREADS = 1024;

// Of fibers.cpp: something has changed for which others may wait; let the others run, and look again.
void emulated_moved();
void emulated_leave_polled();

// Of hopper.cpp.
void emulated_begin_block(bool backwards);
bool emulated_copy_one_box(); // one that is under way, if there is one
bool emulated_has_products();

#endif
