// Functions compiled for several processors, of which the best is chosen when the module is loaded.
//
// Only where loops go over elements that do not depend on each other: results are the same for every width of vectors,
// and nothing is contracted (-ffp-contract=off).
#pragma once

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define LPMERT_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define LPMERT_CLONES
#endif
