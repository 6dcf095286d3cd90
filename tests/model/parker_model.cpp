// mutates: include/verge/base/parker.hpp
//
// Explores the interleavings, and the values a relaxed memory model may return, of one owner, its
// wakers and its clock on a parker.  Exits with 1 and prints the guilty history if an assertion
// fails.

#include "relacy_std.hpp"
#include <verge/base/parker.hpp>

namespace {

struct model_platform {
    template <class T>
    using atomic = rl::atomic<T>;
    static void wait(rl::atomic<std::uint32_t>& word, std::uint32_t expected, verge::time_point) {
        // A futex may return for no reason, so one look and one chance for the others is a
        // faithful model, and the most hostile one.
        if (word.load(std::memory_order_relaxed) == expected) rl::yield(1, $);
    }
    static void wake_one(rl::atomic<std::uint32_t>&) {}
    // It is always the epoch: a deadline there has always passed, and a later one never has.
    static verge::time_point now() { return {}; }
};
constexpr verge::time_point passed{};

using parker_under_test = verge::basic_parker<model_platform>;

// The owner must see what the waker wrote before unpark(), and must not sleep for ever.
struct wakes_and_publishes : rl::test_suite<wakes_and_publishes, 2> {
    parker_under_test parker;
    rl::var<int> message;
    void before() { message($) = 0; }
    void thread(unsigned index) {
        if (index == 0) {
            RL_ASSERT(parker.park(verge::never));
            RL_ASSERT(message($) == 42);
        } else {
            message($) = 42;
            parker.unpark();
        }
    }
};

// The deadline races the wake-up: it is reported by that park(), or stored for the next, and
// whichever tells of it also shows the message.
struct loses_no_wakeup_to_the_deadline : rl::test_suite<loses_no_wakeup_to_the_deadline, 2> {
    parker_under_test parker;
    rl::var<int> message;
    void before() { message($) = 0; }
    void thread(unsigned index) {
        if (index == 0) {
            const bool reported = parker.park(passed);
            if (!reported) RL_ASSERT(parker.park(verge::never));
            RL_ASSERT(message($) == 42);
            RL_ASSERT(!parker.park(passed));  // there was one wake-up, and it is consumed
        } else {
            message($) = 42;
            parker.unpark();
        }
    }
};

// The same race, where the deadline is a virtual one that another thread brings (manual_clock).
struct loses_no_wakeup_to_a_clock : rl::test_suite<loses_no_wakeup_to_a_clock, 3> {
    parker_under_test parker;
    rl::var<int> message;
    rl::mutex mutex;  // manual_clock's
    rl::var<bool> is_due, is_linked;
    void before() { message($) = 0, is_due($) = false, is_linked($) = false; }

    bool park_by_the_clock() {
        if (!parker.enter()) return true;
        mutex.lock($);
        const bool sleeps = !is_due($);
        is_linked($) = sleeps;
        mutex.unlock($);
        if (sleeps) {
            parker.sleep();
            mutex.lock($);
            is_linked($) = false;
            mutex.unlock($);
        }
        return parker.leave();
    }
    void advance() {
        mutex.lock($);
        is_due($) = true;
        if (is_linked($)) parker.expire();
        mutex.unlock($);
    }
    void thread(unsigned index) {
        if (index == 0) {
            if (!park_by_the_clock()) {
                mutex.lock($);
                RL_ASSERT(is_due($));  // false says that the time has come
                mutex.unlock($);
                RL_ASSERT(parker.park(verge::never));
            }
            RL_ASSERT(message($) == 42);
        } else if (index == 1) {
            advance();
        } else {
            message($) = 42;
            parker.unpark();
        }
    }
};

// The clock alone ends the sleep, and stores no wake-up.
struct a_clock_ends_the_sleep : rl::test_suite<a_clock_ends_the_sleep, 2> {
    parker_under_test parker;
    rl::atomic<int> entered;
    void before() { entered($) = 0; }
    void thread(unsigned index) {
        if (index == 0) {
            RL_ASSERT(parker.enter());
            entered.store(1, std::memory_order_release);
            parker.sleep();
            RL_ASSERT(!parker.leave());
            RL_ASSERT(!parker.park(passed));
        } else {
            while (entered.load(std::memory_order_acquire) == 0)
                rl::yield(1, $);
            parker.expire();
        }
    }
};

// Two wakers: the owner may consume both wake-ups at once, but must then see both flags, or it
// would go back to sleep for ever.  Relacy reports that as a deadlock or a live-lock.
struct loses_no_wakeup : rl::test_suite<loses_no_wakeup, 3> {
    parker_under_test parker;
    rl::atomic<int> flag[2];
    void before() { flag[0]($) = 0, flag[1]($) = 0; }
    void thread(unsigned index) {
        if (index == 2) {
            while (flag[0].load(std::memory_order_relaxed) == 0 ||
                   flag[1].load(std::memory_order_relaxed) == 0) {
                parker.park(verge::never);
            }
        } else {
            flag[index].store(1, std::memory_order_relaxed);
            parker.unpark();
        }
    }
};

}  // namespace

int main() {
    const bool ok = explore<wakes_and_publishes>(every, 0) &&
                    explore<loses_no_wakeup_to_the_deadline>(every, 0) &&
                    explore<a_clock_ends_the_sleep>(every, 0) &&
                    explore<loses_no_wakeup_to_a_clock>(random_ones, 200'000) &&
                    explore<loses_no_wakeup>(random_ones, 200'000);
    return ok ? 0 : 1;
}
