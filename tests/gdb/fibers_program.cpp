// What tests/gdb/verge_test.py looks at through gdb: fibers in every state, and then it stops.
// usage: fibers_program [unguarded] [abort]

#include <verge/base/detail/kernel.hpp>
#include <verge/fibers/detail/stack_pool.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/fibers/this_fiber.hpp>
#include <verge/sync/condition_variable.hpp>
#include <verge/sync/mutex.hpp>
#include <verge/sync/wait.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include <sys/mman.h>

using namespace verge;

namespace {

verge::mutex door;
verge::mutex room;
verge::condition_variable bell;
std::atomic<bool> rung{false};
std::atomic<bool> hogs_go_on{false};
std::atomic<int> hogs{0};

// Not inlined, and with something to do after the wait: their frames are looked for.
[[gnu::noinline]] int sleeps_for_long(int depth) {
    int frames = 0;
    if (depth > 0) {
        frames = sleeps_for_long(depth - 1);
    } else {
        this_fiber::sleep_for(std::chrono::hours(1));
    }
    asm volatile("" : "+r"(frames));  // so that the recursion stays one
    return frames + 1;
}

[[gnu::noinline]] int waits_at_the_door() {
    door.lock();
    door.unlock();
    return 1;
}

[[gnu::noinline]] int waits_for_the_bell() {
    std::unique_lock hold(room);
    while (!rung)
        bell.wait(hold);
    return 1;
}

[[gnu::noinline]] int keeps_its_worker() {
    hogs.fetch_add(1);
    while (!hogs_go_on)
        hogs_go_on.wait(false);
    return 1;
}

// No memory for stacks, until the end.
std::atomic<bool> memory_is_short{true};
struct poor_kernel final : detail::kernel {
    void* mmap(void* at, std::size_t bytes, int access, int flags, int fd,
               off_t offset) noexcept override {
        if ((flags & MAP_STACK) != 0 && memory_is_short) return errno = ENOMEM, MAP_FAILED;
        return kernel::mmap(at, bytes, access, flags, fd, offset);
    }
};
poor_kernel poor;

// The debugger stops here.
[[gnu::noinline]] void everything_is_in_place() {
    std::puts("in place");
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    const auto asked_for = [&](std::string_view what) {
        return std::find(argv + 1, argv + argc, what) != argv + argc;
    };
    const bool guards = !asked_for("unguarded");
    // One worker each: it runs what is spawned in order, so all others wait when its hog runs.
    fibers::scheduler first(
        {.name = "first", .min_workers = 1, .max_workers = 1, .guards = guards});
    fibers::scheduler second(
        {.name = "second", .min_workers = 1, .max_workers = 1, .guards = guards});
    door.lock();
    std::vector<fibers::fiber<int>> all;
    all.push_back(first.spawn([] { return sleeps_for_long(3); }, {.name = "sleeper"}));
    all.push_back(first.spawn(&waits_at_the_door, {.name = "locker"}));
    all.push_back(first.spawn(&waits_for_the_bell, {.stack = fibers::stack_kind::large}));
    fibers::fiber<> over = first.spawn([] {}, {.name = "over"});  // not to be listed
    over.wait();
    all.push_back(first.spawn(&keeps_its_worker, {.name = "hog"}));
    all.push_back(
        second.spawn(&keeps_its_worker, {.stack = fibers::stack_kind::native, .name = "native"}));
    while (hogs < 2)
        this_fiber::yield();
    all.push_back(second.spawn([] { return 1; }, {.name = "fresh"}));
    const detail::replaced_kernel scope(poor);
    fibers::scheduler third({.name = "third", .min_workers = 1, .max_workers = 1});
    all.push_back(third.spawn([] { return 1; }, {.name = "starved"}));
    while (third.stats().starved == 0)
        this_fiber::yield();

    everything_is_in_place();
    if (asked_for("abort")) std::abort();

    memory_is_short = false;
    hogs_go_on = true;
    hogs_go_on.notify_all();
    {
        const std::lock_guard hold(room);
        rung = true;
    }
    bell.notify_all();
    door.unlock();
    all.front().interrupt();
    int sum = 0;
    for (auto& each : all)
        sum += each.join();
    return sum == 10 ? 0 : 1;
}
