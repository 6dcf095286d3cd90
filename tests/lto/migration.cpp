// A compiler may keep the address of a thread-local variable, and of errno, as long as it believes
// that the thread stays the same.  A fiber that comes back on another worker would then use the
// first one's.  Here the switch and all around it are one program to the optimiser, in a shared
// library, where such an address is dear and so is kept.

#include "migration.hpp"

#include <verge/base/detail/thread_number.hpp>
#include <verge/driver/timer_thread.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/sync/mutex.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

using namespace verge;

namespace {

constexpr int fiber_count = 32;
constexpr int rounds = 10'000;

thread_local int here = 0;         // its address says on which thread we are
thread_local unsigned number = 0;  // of this thread, as locks know it

// As anybody must who uses a thread's variables in a fiber: not inlined, and not to be foreseen.
[[gnu::noinline]] int* address_of_here() {
    int* address = &here;
    asm volatile("" : "+r"(address));
    return address;
}
[[gnu::noinline]] int& own_errno() {
    int* address = &errno;
    asm volatile("" : "+r"(address));
    return *address;
}

[[gnu::noinline]] unsigned& own_number() {
    unsigned* address = &number;
    asm volatile("" : "+r"(address));
    return *address;
}

std::atomic<int> wrong{0};
std::atomic<long> migrations{0};

void expect(bool condition, const char* what) {
    if (condition) return;
    if (wrong.fetch_add(1) < 10) std::printf("wrong: %s\n", what);
}

class pauses_when_destroyed {
public:
    pauses_when_destroyed() = default;
    pauses_when_destroyed(const pauses_when_destroyed&) = delete;
    pauses_when_destroyed& operator=(const pauses_when_destroyed&) = delete;
    ~pauses_when_destroyed() {
        expect(std::uncaught_exceptions() == 1, "one exception is in flight");
        this_fiber::yield();
        expect(std::uncaught_exceptions() == 1, "it still is, after the switch");
    }
};

void throws_and_pauses(int number) {
    try {
        try {
            const pauses_when_destroyed guard;
            throw std::runtime_error(std::to_string(number));
        } catch (const std::runtime_error&) {
            this_fiber::yield();
            throw;
        }
    } catch (const std::exception& error) {
        this_fiber::yield();
        expect(error.what() == std::to_string(number), "the exception is its own");
        expect(std::current_exception() != nullptr, "it is being handled");
    }
    expect(std::current_exception() == nullptr, "nothing is being handled");
    expect(std::uncaught_exceptions() == 0, "nothing is in flight");
}

void wander(int name, verge::mutex& lock, long& guarded, timer_thread& timers) {
    const fibers::fiber_id id = this_fiber::id();
    const int* thread = address_of_here();
    for (int i = 0; i < rounds; ++i) {
        own_errno() = name;
        // Inlined, each of them, twice in a row: what is found before a switch must not be used
        // after it.
        this_fiber::yield();
        this_fiber::yield();
        expect(own_errno() == name, "errno is its own");
        expect(this_fiber::id() == id, "it knows itself");
        if (i % 16 == 0) throws_and_pauses(name);
        if (i % 64 == 0) this_fiber::sleep_for(std::chrono::microseconds(20));
        {
            const std::lock_guard hold(lock);
            const long before = guarded;
            if (i % 4 == 0) this_fiber::yield();
            guarded = before + 1;
        }
        // What a lock takes for the thread's number decides who may enter.
        own_number() = detail::thread_number();
        this_fiber::yield();
        const unsigned number_here = detail::thread_number();
        expect(own_number() == 0 || own_number() == number_here, "the thread's number");
        const timer_id timer = timers.schedule_after(std::chrono::hours(1), [] {});
        this_fiber::yield();
        expect(timers.cancel(timer) == cancel_result::cancelled, "a timer is found again");
        const int* const now_on = address_of_here();
        if (now_on != thread) migrations.fetch_add(1, std::memory_order_relaxed);
        thread = now_on;
    }
}

}  // namespace

int run_migrating_fibers() {
    fibers::scheduler scheduler({.min_workers = 4, .max_workers = 4});
    verge::mutex lock;
    timer_thread timers;
    long guarded = 0;
    std::vector<fibers::fiber<>> all;
    for (int i = 0; i < fiber_count; ++i)
        all.push_back(scheduler.spawn([&, i] { wander(i + 1, lock, guarded, timers); }));
    for (fibers::fiber<>& each : all)
        each.join();
    expect(guarded == long{fiber_count} * rounds, "the mutex excludes");
    const timer_thread::statistics told = timers.stats();
    expect(told.cancelled == std::uint64_t{fiber_count} * rounds, "each cancel counts");
    expect(told.pending == 0, "no timer is left");
    expect(migrations > 0, "fibers migrate at all");
    std::printf("%ld migrations, %d wrong\n", migrations.load(), wrong.load());
    return wrong;
}
