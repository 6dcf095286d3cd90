#include "unit/io/io_fixture.hpp"
#include <verge/io/signal_set.hpp>

#include <string>
#include <vector>

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST_F(SignalSet, OneSignalCompletesAllWaitsOfASet) {
    signal_set signals(io, SIGUSR1, SIGUSR2);
    signals.async_wait(note());
    signals.async_wait(note());
    EXPECT_EQ(io.poll(), 0U);
    ::raise(SIGUSR1);
    ::raise(SIGUSR2);
    EXPECT_EQ(io.poll(), 2U);
    EXPECT_EQ(seen, 2 * SIGUSR1);
    io.restart();
    signals.async_wait(note());  // the second signal came when nobody waited any more
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(seen, 2 * SIGUSR1 + SIGUSR2);
}

TEST_F(SignalSet, QueuedSignalsComeInTheOrderOfTheirNumbers) {
    signal_set signals(io, SIGUSR1, SIGUSR2);
    for (const int number : {SIGUSR2, SIGUSR1, SIGUSR2, SIGUSR1})
        ::raise(number);
    std::vector<int> numbers;
    for (int i = 0; i < 4; ++i)
        signals.async_wait([&](std::error_code, int number) { numbers.push_back(number); });
    EXPECT_EQ(io.run(), 4U);
    EXPECT_EQ(numbers, (std::vector<int>{SIGUSR1, SIGUSR1, SIGUSR2, SIGUSR2}));
}

// As many as fill the record of arrivals, and one more.
TEST_F(SignalSet, AWaitGetsTheFirstThatComes) {
    for (const int more : {1, 62, 63, 1000}) {
        signal_set signals(io, SIGUSR1, SIGUSR2);
        std::vector<int> numbers;
        const auto take = [&](std::error_code, int number) { numbers.push_back(number); };
        signals.async_wait(take);
        EXPECT_EQ(io.poll(), 0U);
        ::raise(SIGUSR2);
        for (int i = 0; i < more; ++i)
            ::raise(SIGUSR1);
        ::raise(SIGUSR2);
        EXPECT_EQ(io.poll(), 1U);
        io.restart();
        signals.async_wait(take);  // it finds the others queued
        EXPECT_EQ(io.run(), 1U);
        io.restart();
        const int first = more < 63 ? SIGUSR2 : SIGUSR1;  // who came first is forgotten
        EXPECT_EQ(numbers, (std::vector<int>{first, SIGUSR1})) << more;
    }
}

TEST_F(SignalSet, AWaitIsNotGivenWhatWasRemovedOrHasEnded) {
    signal_set signals(io, SIGUSR1, SIGUSR2);
    signals.async_wait(note());
    signals.cancel();
    EXPECT_EQ(io.run(), 1U);
    ::raise(SIGUSR2);  // nobody waits: queued
    ::raise(SIGUSR1);
    signals.async_wait(note());
    io.restart();
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(seen, SIGUSR1);

    signals.clear();
    signals.add(SIGUSR1);
    signals.add(SIGUSR2);
    signals.async_wait(note());
    ::raise(SIGUSR2);
    ::raise(SIGUSR1);
    signals.remove(SIGUSR2);
    io.restart();
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(seen, 2 * SIGUSR1);
}

TEST_F(SignalSet, ManyOfOneSignalKeepNoOtherOut) {
    signal_set signals(io, SIGUSR1, SIGUSR2);
    for (int i = 0; i < 70'000; ++i)
        ::raise(SIGUSR1);
    ::raise(SIGUSR2);
    signals.remove(SIGUSR1);
    signals.async_wait(note());
    EXPECT_EQ(io.run_one_for(10s), 1U);
    EXPECT_EQ(seen, SIGUSR2);
}

TEST_F(SignalSet, RemoveDropsWhatIsQueued) {
    signal_set signals(io, SIGUSR1, SIGUSR2);
    signal_set other(io, SIGUSR1);
    ::raise(SIGUSR1);
    ::raise(SIGUSR2);
    signals.remove(SIGUSR1);
    signals.add(SIGUSR1);
    signals.async_wait(note());
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(seen, SIGUSR2);
    io.restart();
    other.async_wait(note());  // what others have is theirs
    EXPECT_EQ(io.run(), 1U);
    EXPECT_EQ(seen, SIGUSR2 + SIGUSR1);

    io.restart();
    ::raise(SIGUSR1);
    signals.clear();
    signals.add(SIGUSR1);
    signals.async_wait(note());
    EXPECT_EQ(io.poll(), 0U);
    EXPECT_FALSE(io.stopped());
}

TEST_F(SignalSet, AForkedChildHasSignalsOfItsOwn) {
    signal_set signals(io, SIGUSR1, SIGUSR2);
    signals.async_wait(note());
    io.poll();
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const auto tell = [&](int end, char what) { return ::write(ends[end], &what, 1) == 1; };
    const auto hear = [&](int end) {
        char what = 0;
        return ::read(ends[end], &what, 1) == 1 ? what : '?';
    };
    io.notify_fork(io_context::fork_prepare);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        io.notify_fork(io_context::fork_child);
        ::raise(SIGUSR1);
        tell(1, 'r');
        const bool told = hear(1) == 'g';
        const std::size_t first = io.run_one_for(10s);
        signals.async_wait(note());
        const std::size_t second = io.poll();
        tell(1, told && first == 1 && seen == SIGUSR1 && second == 0 ? 'y' : 'n');
        ::_exit(0);
    }
    io.notify_fork(io_context::fork_parent);
    EXPECT_EQ(hear(0), 'r');
    EXPECT_EQ(io.poll(), 0U);  // the child's was not for us
    ::raise(SIGUSR2);
    EXPECT_TRUE(tell(0, 'g'));
    EXPECT_EQ(hear(0), 'y');
    EXPECT_EQ(io.run_one_for(10s), 1U);
    EXPECT_EQ(seen, SIGUSR2);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_F(SignalSet, IsMadeOfAContextOrAnExecutor) {
    auto ex = io.get_executor();
    signal_set none(ex), one(ex, SIGUSR1), two(ex, SIGUSR1, SIGUSR2);
    signal_set three(ex, SIGUSR1, SIGUSR2, SIGWINCH);
    signal_set any(any_io_executor(ex), SIGUSR1);
    basic_signal_set<io_context::executor_type> own(ex, SIGUSR1);
    for (signal_set* set : {&one, &two, &three, &any})
        set->async_wait(note());
    own.async_wait(note());
    ::raise(SIGUSR1);
    EXPECT_EQ(io.run(), 5U);
    EXPECT_EQ(seen, 5 * SIGUSR1);
}

TEST_F(SignalSet, ErrorsMayBeAskedFor) {
    signal_set signals(io);
    signals.add(SIGKILL, error);
    EXPECT_TRUE(error);
    signals.add(SIGUSR1, error);
    EXPECT_FALSE(error);
    signals.remove(1000, error);
    EXPECT_EQ(error, error::invalid_argument);
    EXPECT_THROW(signals.remove(-1), std::system_error);
    signals.remove(SIGUSR1, error);
    EXPECT_FALSE(error);
    signals.clear(error);
    EXPECT_FALSE(error);
    signals.cancel(error);
    EXPECT_FALSE(error);
}

TEST_F(SignalSet, FlagsAreThoseOfSigaction) {
    using flags = signal_set::flags;
    const auto installed = [] {
        struct sigaction now = {};
        ::sigaction(SIGUSR1, nullptr, &now);
        return now.sa_flags & (SA_RESTART | SA_NOCLDSTOP);
    };
    signal_set first(io, SIGUSR1);
    EXPECT_EQ(installed(), 0);  // who does not care
    first.add(SIGUSR1, flags::restart);
    EXPECT_EQ(installed(), 0);  // it is there already
    signal_set second(io);
    second.add(SIGUSR1, flags::no_child_stop);
    EXPECT_EQ(installed(), SA_NOCLDSTOP);
    signal_set third(io);
    third.add(SIGUSR1, flags::restart, error);
    EXPECT_EQ(error, error::invalid_argument);  // it has others already
    third.add(SIGUSR1, flags::no_child_stop);
    third.add(SIGUSR1, flags::dont_care);
    third.add(SIGUSR1, flags::restart);  // it is there already
    EXPECT_EQ(installed(), SA_NOCLDSTOP);
    first.clear();
    second.clear();
    third.clear();
    third.add(SIGUSR1, flags::restart | flags::no_child_stop);
    EXPECT_EQ(installed(), SA_RESTART | SA_NOCLDSTOP);
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
