// support/eventually.hpp -- waiting for a condition in a test.
//
//     ASSERT_TRUE(eventually([&] { return fired.load(); }));
//
// A test never sleeps for a while and hopes.  It waits for the condition itself, with a limit so
// generous that only a hang reaches it.

#pragma once

#include <verge/base/clock.hpp>

#include <chrono>
#include <thread>

namespace verge {

inline constexpr duration patience = std::chrono::seconds(50);

// Whether the condition comes true.  It is polled.
template <class Condition>
[[nodiscard]] bool eventually(Condition&& condition) {
    const time_point limit = steady_source{}.now() + patience;
    while (!condition()) {
        if (steady_source{}.now() > limit) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
}

}  // namespace verge
