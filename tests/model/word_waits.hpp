// Waits on words, for the models of what stands on them: they end by a notify only, since a look
// now and then would hide one that is missing.  Include it after relacy_std.hpp.

#pragma once

#include "relacy_std.hpp"
#include <verge/base/clock.hpp>

#include <cstdint>

struct word_waits {
    rl::mutex lock;
    int notified = 0;                          // under the lock
    static inline word_waits* here = nullptr;  // of the suite that runs
};

/// As a platform.  A deadline comes some time, or never.
struct word_platform {
    template <class T>
    using atomic = rl::atomic<T>;
    static bool wait(rl::atomic<std::uint32_t>& word, std::uint32_t value,
                     verge::time_point deadline) {
        word_waits& all = *word_waits::here;
        all.lock.lock($);
        const int before = all.notified;
        const bool changed = word.load(rl::mo_relaxed, $) != value;
        all.lock.unlock($);
        while (!changed && all.notified == before) {
            if (deadline != verge::never && rl::rand(3) == 0) return false;
            rl::yield(1, $);
        }
        return true;
    }
    static void notify_all(rl::atomic<std::uint32_t>&) {
        word_waits& all = *word_waits::here;
        all.lock.lock($);
        ++all.notified;
        all.lock.unlock($);
    }
    static bool has_come(verge::time_point) { return false; }
};
