// Ends what target_avx2.h or target_avx512.h begins. With gcc the file does.

#if defined(__clang__)
#pragma clang attribute pop
#endif
