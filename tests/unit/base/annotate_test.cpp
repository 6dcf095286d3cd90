#include "support/build.hpp"
#include <verge/base/detail/annotate.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#if __has_include(<valgrind/memcheck.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wconversion"
#include <valgrind/memcheck.h>
#pragma GCC diagnostic pop
#endif

// Null where the sanitizer's run-time library is not linked in.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace verge::detail {
namespace {

alignas(8) char region[64];

TEST(Annotate, KnowsItsSanitizers) {
    EXPECT_EQ(has_asan, &__asan_init != nullptr);
    EXPECT_EQ(has_tsan, &__tsan_init != nullptr);
    EXPECT_EQ(has_asan, VERGE_HAS_ASAN == 1);
    EXPECT_EQ(has_tsan, VERGE_HAS_TSAN == 1);
}

TEST(Annotate, UnpoisonedMemoryCanBeUsedAgain) {
    poison(region, sizeof region);
    unpoison(region, sizeof region);
    region[0] = 1;
    region[63] = 2;
    EXPECT_EQ(region[0] + region[63], 3);
}

TEST(Annotate, ACallOfAHookChangesNoByte) {
    for (std::size_t i = 0; i < sizeof region; ++i)
        region[i] = static_cast<char>(i);
    poison(region, sizeof region);
    happens_before(region);
    happens_after(region);
    unpoison(region, sizeof region);
    unpoison_kept(region, sizeof region);  // to valgrind they were undefined, and not to be tested
    for (std::size_t i = 0; i < sizeof region; ++i)
        EXPECT_EQ(region[i], static_cast<char>(i));
}

#if VERGE_HAS_ASAN
TEST(AnnotateDeathTest, PoisonedMemoryCannotBeTouchedUnderAsan) {
    // On the heap: compilers do not check an access to a global that is plainly inside of it.
    const auto heap = std::make_unique<char[]>(64);
    volatile char* const memory = heap.get();
    poison(heap.get() + 8, 8);
    memory[7] = 1;
    memory[16] = 1;
    EXPECT_DEATH(memory[8] = 1, "use-after-poison");
    EXPECT_DEATH(memory[15] = 1, "use-after-poison");
    unpoison(heap.get() + 8, 8);
    memory[8] = 1;
}
#endif

#if defined(VALGRIND_GET_VBITS) && !defined(NDEBUG) && !VERGE_HAS_SANITIZER
// What memcheck holds of a byte, asked without a report.
enum class held { nothing_is_known, no_access, undefined, defined };

held what_memcheck_holds_of(const char& byte) {
    unsigned char unknown_bits = 0;
    switch (VALGRIND_GET_VBITS(&byte, &unknown_bits, 1)) {
        case 0:
            return held::nothing_is_known;  // valgrind is not there
        case 1:
            return unknown_bits == 0 ? held::defined : held::undefined;
        default:
            return held::no_access;
    }
}

// ctest runs it as part of valgrind/base only: tests/CMakeLists.txt leaves out what ends so.
TEST(Annotate, SaysWhatIsFreeUnderValgrind) {
    if (RUNNING_ON_VALGRIND == 0) GTEST_SKIP() << "not under valgrind";
    const auto heap = std::make_unique<char[]>(24);
    char* const memory = heap.get();
    poison(memory + 8, 8);
    EXPECT_EQ(what_memcheck_holds_of(memory[7]), held::defined);
    EXPECT_EQ(what_memcheck_holds_of(memory[8]), held::no_access);
    EXPECT_EQ(what_memcheck_holds_of(memory[15]), held::no_access);
    EXPECT_EQ(what_memcheck_holds_of(memory[16]), held::defined);
    unpoison(memory + 8, 8);
    EXPECT_EQ(what_memcheck_holds_of(memory[8]), held::undefined);
    poison(memory + 8, 8);
    unpoison_kept(memory + 8, 8);
    EXPECT_EQ(what_memcheck_holds_of(memory[8]), held::defined);
}
#endif

// Two threads ordered by a relaxed flag, which TSan does not count, and by the hooks, which it
// must. Without TSan the flag has real orders.
constexpr auto publish = has_tsan ? std::memory_order_relaxed : std::memory_order_release;
constexpr auto observe = has_tsan ? std::memory_order_relaxed : std::memory_order_acquire;

int hand_over(bool hooks) {
    int message = 0;
    std::atomic<bool> ready{false};
    std::thread sender([&] {
        message = 42;
        if (hooks) happens_before(&message);
        ready.store(true, publish);
    });
    while (!ready.load(observe))
        std::this_thread::yield();
    if (hooks) happens_after(&message);
    const int seen = message;
    sender.join();
    return seen;
}

TEST(Annotate, HappensBeforeAndAfterOrderTwoThreads) {
    EXPECT_EQ(hand_over(true), 42);
}

}  // namespace
}  // namespace verge::detail
