// support/build.hpp -- what this build can test, for the preprocessor.
//
//     #if VERGE_CAN_REFUSE_MEMORY  // the reason, if the name does not say it
//     TEST(TimerHeap, IsWholeWhenMemoryRunsOut) { ... }
//     #endif
//
// A test that a build cannot run is not compiled there, so ctest does not list it.  GTEST_SKIP is
// for what only the machine can say: its kernel, its limits, its permissions.  scripts/lib.sh lists
// the skips and their reasons.

#pragma once

#if defined(__has_feature)  // clang, and gcc from 14 on
#define VERGE_HAS_ASAN __has_feature(address_sanitizer)
#define VERGE_HAS_TSAN __has_feature(thread_sanitizer)
#else
#ifdef __SANITIZE_ADDRESS__
#define VERGE_HAS_ASAN 1
#else
#define VERGE_HAS_ASAN 0
#endif
#ifdef __SANITIZE_THREAD__
#define VERGE_HAS_TSAN 1
#else
#define VERGE_HAS_TSAN 0
#endif
#endif

#define VERGE_HAS_SANITIZER (VERGE_HAS_ASAN || VERGE_HAS_TSAN)

// Whether operator new can be replaced, for support/failing_new.hpp: not with clang's TSan, which
// has its own.
#ifdef __clang__
#define VERGE_CAN_REFUSE_MEMORY (!VERGE_HAS_TSAN)
#else
#define VERGE_CAN_REFUSE_MEMORY 1
#endif
