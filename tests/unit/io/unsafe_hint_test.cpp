// concurrency_hint_unsafe: no mutex is taken.  They are counted by taking pthread_mutex_lock's
// place in this program, but under a sanitizer, which has taken it already: there this is left out.

#include "unit/io/io_fixture.hpp"
#include <verge/io/posix/descriptor.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/system_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <system_error>

#include <pthread.h>
#include <sys/socket.h>

#include <dlfcn.h>

namespace {

thread_local int mutexes_taken = 0;

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
    using function = int (*)(pthread_mutex_t*);
    static std::atomic<function> real = nullptr;
    if (real == nullptr)
        real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    ++mutexes_taken;
    return real.load()(mutex);
}

namespace verge {
namespace {

// How many mutexes a loop takes that waits for all sorts of things, 100 times.
int mutexes_of_a_loop(int hint) {
    io_context io(hint);
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    posix::descriptor here(io, fds[0]);
    posix::descriptor there(io, fds[1]);
    steady_timer soon(io);
    steady_timer later(io);
    system_timer date(io);
    char data[8];
    int completed = 0;
    const auto count = [&](std::error_code, std::size_t = 0) { ++completed; };
    const auto round = [&] {
        io.restart();
        soon.expires_after(std::chrono::microseconds(10));
        soon.async_wait(count);
        later.expires_after(std::chrono::hours(1));
        later.async_wait(count);
        date.expires_after(std::chrono::microseconds(10));
        date.async_wait(count);
        here.async_read_some(buffer(data), count);
        there.async_write_some(buffer(std::string_view("x")), count);
        here.async_wait(posix::descriptor::wait_error, count);
        post(io, [&] { later.cancel(); });
        io.run_for(std::chrono::milliseconds(1));
        here.cancel();
        io.run();
    };
    round();  // the first one may make what the others find
    completed = 0;
    const int before = mutexes_taken;
    for (int i = 0; i < 100; ++i)
        round();
    EXPECT_EQ(completed, 600);
    return mutexes_taken - before;
}

TEST(UnsafeHint, TakesNoMutex) {
    EXPECT_EQ(mutexes_of_a_loop(concurrency_hint_unsafe), 0);
    EXPECT_GT(mutexes_of_a_loop(concurrency_hint_safe), 100);
}

}  // namespace
}  // namespace verge
