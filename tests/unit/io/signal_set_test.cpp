#include "unit/io/io_fixture.hpp"
#include <verge/io/signal_set.hpp>

#include <string>

#include <signal.h>

namespace verge {
namespace {

class SignalSet : public testing::Test {
protected:
    auto note() {
        return [this](std::error_code e, int number) {
            error = e;
            seen += number;
        };
    }
    io_context io;
    std::error_code error;
    int seen = 0;
};

TEST_F(SignalSet, ASignalCompletesAWait) {
    signal_set signals(io, SIGUSR1, SIGUSR2);
    signals.async_wait(note());
    EXPECT_EQ(io.poll(), 0U);
    EXPECT_FALSE(io.stopped());
    ::raise(SIGUSR2);
    EXPECT_EQ(io.run(), 1U);
    EXPECT_FALSE(error);
    EXPECT_EQ(seen, SIGUSR2);
}

TEST_F(SignalSet, ASignalIsKeptUntilSomebodyWaits) {
    signal_set signals(io, SIGUSR1);
    ::raise(SIGUSR1);
    signals.async_wait(note());
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(seen, SIGUSR1);
}

TEST_F(SignalSet, EverySetGetsIt) {
    signal_set first(io, SIGUSR1);
    signal_set second(io, SIGUSR1);
    signal_set other(io, SIGUSR2);
    first.async_wait(note());
    second.async_wait(note());
    other.async_wait([](std::error_code e, int) { EXPECT_EQ(e, error::operation_aborted); });
    ::raise(SIGUSR1);
    EXPECT_EQ(io.poll(), 2U);
    EXPECT_EQ(seen, 2 * SIGUSR1);
    other.cancel();
    EXPECT_EQ(io.run(), 1U);
}

TEST_F(SignalSet, CancelEndsAWait) {
    signal_set signals(io, SIGUSR1);
    signals.async_wait(note());
    signals.cancel();
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(error, error::operation_aborted);
    EXPECT_EQ(seen, 0);
}

TEST_F(SignalSet, TheOldHandlerComesBack) {
    static volatile sig_atomic_t old_calls = 0;
    ::signal(SIGUSR1, [](int) { old_calls = old_calls + 1; });
    {
        signal_set signals(io, SIGUSR1);
        signals.add(SIGUSR1);  // twice is once
        signal_set second(io, SIGUSR1);
        second.remove(SIGUSR1);
        ::raise(SIGUSR1);
        EXPECT_EQ(old_calls, 0);
    }
    ::raise(SIGUSR1);
    EXPECT_EQ(old_calls, 1);
    ::signal(SIGUSR1, SIG_DFL);
    signal_set signals(io);
    EXPECT_THROW(signals.add(1000), std::system_error);
    EXPECT_THROW(signals.add(SIGKILL), std::system_error);
}

}  // namespace
}  // namespace verge
