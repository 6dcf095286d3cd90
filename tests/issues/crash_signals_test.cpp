// A crash in a thread of the library killed the process without its handler, and profilers saw
// nothing: all signals were blocked there.

#include <verge/driver/timer_thread.hpp>
#include <verge/fibers/blocking.hpp>
#include <verge/fibers/scheduler.hpp>
#include <verge/io/post.hpp>
#include <verge/io/thread_pool.hpp>

#include <future>
#include <string>

#include <signal.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge {
namespace {

// The signals among those named that the calling thread blocks.
std::string blocked() {
    sigset_t now;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
    std::string names;
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF,
                             SIGTERM, SIGUSR1, SIGCHLD, SIGALRM}) {
        if (::sigismember(&now, number) == 1) names += std::string(" ") + ::sigabbrev_np(number);
    }
    return names;
}

// A signal of the program's is for the program's threads; one about the thread itself is for it.
const std::string expected = " TERM USR1 CHLD ALRM";

TEST(CrashSignals, AreNotBlockedInATimerThread) {
    std::promise<std::string> seen;
    timer_thread timers;
    timers.schedule_after(duration::zero(), [&] { seen.set_value(blocked()); });
    EXPECT_EQ(seen.get_future().get(), expected);
}

TEST(CrashSignals, AreNotBlockedInAFiberNorInABlockingCall) {
    fibers::scheduler all;
    EXPECT_EQ(all.spawn([] { return blocked(); }).join(), expected);
    EXPECT_EQ(all.spawn([] { return fibers::blocking([] { return blocked(); }); }).join(),
              expected);
}

TEST(CrashSignals, AreNotBlockedInAThreadPool) {
    std::promise<std::string> seen;
    thread_pool pool(1);
    post(pool, [&] { seen.set_value(blocked()); });
    EXPECT_EQ(seen.get_future().get(), expected);
    pool.join();
}

TEST(CrashSignalsDeathTest, AHandlerRuns) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            struct sigaction action {};
            action.sa_handler = [](int) { ::_exit(42); };
            ::sigaction(SIGSEGV, &action, nullptr);
            timer_thread timers;
            timers.schedule_after(duration::zero(), [] { ::raise(SIGSEGV); });
            ::alarm(50);  // it is not to hang if the handler does not run
            for (;;)
                ::pause();
        },
        testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace verge
