// bench/services/timer_account.cpp -- where all timers went: each scheduled one must have one end.

#include "services/timer_account.hpp"

#include <chrono>
#include <thread>

namespace bench {

std::uint64_t timer_account::lost() const {
    const std::uint64_t expected = scheduled_ - cancelled_;
    for (int i = 0; i < 2000 && fired_ != expected; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return expected - fired_;
}

}  // namespace bench
