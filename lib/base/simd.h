// DT_MULTI_ISA before a function with a plain loop: the compiler makes a form of it for AVX-512 and AVX2 as well, and
// the processor chooses at start-up, so one build runs everywhere. The result does not depend on the choice (no
// contraction, no reassociation). Sanitizers run before such choices can be made: there it is the plain form.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__) || defined(__clang__)
#define DT_MULTI_ISA
#else
#define DT_MULTI_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
