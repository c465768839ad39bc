// Put DT_MULTI_ISA before a function with a simple loop. The compiler then also builds AVX-512 and AVX2 versions of it,
// and the best one for the processor is chosen when the program is loaded, so one build runs everywhere. The result
// does not depend on the choice (no contraction, no reassociation). With sanitizers only the plain version is built,
// because the choice would be made before their runtime is initialized.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__) || defined(__clang__)
#define DT_MULTI_ISA
#else
#define DT_MULTI_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
