// The lines that handler tracking writes, as Asio's tools read them.

#include <verge/io/buffer.hpp>
#include <verge/io/io_context.hpp>
#include <verge/io/posix/descriptor.hpp>
#include <verge/io/post.hpp>
#include <verge/io/signal_set.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>

#include <chrono>
#include <cstdio>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge {
namespace {

using namespace std::chrono_literals;

// Part of the name of every function of the library that takes an operation: who is built with
// tracking and who is not do not link.
static_assert(std::is_same_v<detail::io::operation, detail::io::basic_operation<true>>);
static_assert(sizeof(detail::io::basic_operation<false>) == 2 * sizeof(void*));

struct line {
    char kind;        // * > < ! ~, or | for an operation
    unsigned by = 0;  // of * and |: the handler that did it
    unsigned handler = 0;
    std::string more;
};

// What comes to stderr meanwhile.
class HandlerTracking : public testing::Test {
protected:
    HandlerTracking() : file_(std::tmpfile()), before_(::dup(STDERR_FILENO)) {
        std::fflush(stderr);
        ::dup2(::fileno(file_), STDERR_FILENO);
    }
    ~HandlerTracking() override {
        end();
        std::fclose(file_);
    }

    // Ends it, and gives the lines, the numbers counted from the first.
    std::vector<line> lines() {
        end();
        static const std::regex format(R"(@asio\|(\d+\.\d{6})\|([^|]*)\|(.*))");
        static const std::regex creation(R"((\d+)\*(\d+))");
        static const std::regex of_one(R"(([<>!~])(\d+))");
        std::vector<line> all;
        std::rewind(file_);
        char text[512];
        std::string last_time;
        while (std::fgets(text, sizeof text, file_) != nullptr) {
            const std::string whole(text);
            EXPECT_EQ(whole.back(), '\n');
            const std::string row = whole.substr(0, whole.size() - 1);
            std::smatch parts;
            if (!std::regex_match(row, parts, format)) {
                ADD_FAILURE() << row;
                continue;
            }
            const std::string action = parts[2];
            std::smatch numbers;
            if (std::regex_match(action, numbers, creation)) {
                all.push_back({'*', number(numbers[1]), number(numbers[2]), parts[3]});
            } else if (std::regex_match(action, numbers, of_one)) {
                all.push_back({numbers[1].str()[0], 0, number(numbers[2]), parts[3]});
            } else {
                all.push_back({'|', number(action), 0, parts[3]});
            }
        }
        return all;
    }

    // "*1 >1 <1", the numbers counted from the first there is.
    std::string story() {
        std::string text;
        for (const line& l : lines()) {
            if (!text.empty()) text += ' ';
            if (l.kind == '*' || l.kind == '|') text += std::to_string(own(l.by));
            text += l.kind;
            if (l.kind != '|') text += std::to_string(own(l.handler));
            text += tail(l);
        }
        return text;
    }

private:
    static unsigned number(const std::string& digits) {
        return static_cast<unsigned>(std::stoul(digits));
    }
    unsigned own(unsigned handler) {
        if (handler == 0) return 0;
        return own_.emplace(handler, static_cast<unsigned>(own_.size()) + 1).first->second;
    }
    static std::string tail(const line& l) {
        if (l.more.empty()) return "";
        // Addresses differ each time.
        return "(" + std::regex_replace(l.more, std::regex("@0x[0-9a-f]+"), "") + ")";
    }
    void end() {
        if (before_ < 0) return;
        ::dup2(before_, STDERR_FILENO);
        ::close(before_);
        before_ = -1;
    }
    std::FILE* file_;
    int before_;
    std::map<unsigned, unsigned> own_;
};

TEST_F(HandlerTracking, APostIsCreatedEnteredAndLeft) {
    io_context io;
    post(io, [] {});
    io.run();
    EXPECT_EQ(story(), "0*1(io_context.execute) >1 <1");
}

TEST_F(HandlerTracking, SaysWhoBeganAnOperation) {
    io_context io;
    post(io, [&] { post(io, [&] { post(io, [] {}); }); });
    io.run();
    EXPECT_EQ(story(),
              "0*1(io_context.execute) >1 1*2(io_context.execute) <1 "
              ">2 2*3(io_context.execute) <2 >3 <3");
}

TEST_F(HandlerTracking, ShowsExpiredAndAbortedWaits) {
    io_context io;
    steady_timer first(io, 0ms);
    steady_timer second(io, 1h);
    first.async_wait([&](std::error_code) { second.cancel(); });
    second.async_wait([](std::error_code) {});
    io.run();
    const std::string aborted = std::to_string(std::error_code(error::operation_aborted).value());
    EXPECT_EQ(story(),
              "0*1(deadline_timer.async_wait) 0*2(deadline_timer.async_wait) "
              ">1(ec=system:0) 1|(deadline_timer.cancel) <1 "
              ">2(ec=system:" +
                  aborted + ") <2");
}

TEST_F(HandlerTracking, ANewExpiryIsShown) {
    io_context io;
    steady_timer timer(io, 1h);
    timer.expires_after(0ms);
    timer.cancel_one();
    EXPECT_EQ(story(), "0|(deadline_timer.expires_at) 0|(deadline_timer.cancel_one)");
}

TEST_F(HandlerTracking, AnOperationNamesItsObject) {
    io_context io;
    steady_timer timer(io, 1h);
    timer.async_wait([](std::error_code) {});
    timer.cancel();
    io.run();
    const std::vector<line> all = lines();
    ASSERT_EQ(all.size(), 4U);
    const auto object = [](const line& l) { return l.more.substr(0, l.more.find('.')); };
    EXPECT_EQ(object(all[0]), object(all[1]));  // deadline_timer@0x...
    EXPECT_NE(object(all[0]).find("@0x"), std::string::npos);
}

TEST_F(HandlerTracking, AThrownHandlerIsShown) {
    io_context io;
    post(io, [] { throw std::runtime_error("x"); });
    EXPECT_THROW(io.run(), std::runtime_error);
    EXPECT_EQ(story(), "0*1(io_context.execute) >1 !1");
}

TEST_F(HandlerTracking, AHandlerThatIsDestroyedUncalledIsShown) {
    {
        io_context io;
        steady_timer timer(io, 1h);
        post(io, [] {});
        timer.async_wait([](std::error_code) {});
        // The timer goes first, so its wait is aborted, and then destroyed in the queue.
    }
    const std::string all = story();
    EXPECT_EQ(all.substr(0, all.find('~')),
              "0*1(io_context.execute) 0*2(deadline_timer.async_wait) ");
    EXPECT_NE(all.find("~1"), std::string::npos);
    EXPECT_NE(all.find("~2"), std::string::npos);
    EXPECT_EQ(all.find('>'), std::string::npos);
}

TEST_F(HandlerTracking, ReadsAndWritesShowTheirBytes) {
    io_context io;
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    posix::descriptor here(io, fds[0]);
    posix::descriptor there(io, fds[1]);
    char data[8];
    here.async_read_some(buffer(data), [](std::error_code, std::size_t) {});
    there.async_write_some(buffer(std::string_view("abc")), [](std::error_code, std::size_t) {});
    io.run();
    here.close();
    EXPECT_EQ(story(),
              "0*1(descriptor.async_read_some) 0*2(descriptor.async_write_some) "
              ">2(ec=system:0,bytes_transferred=3) <2 "
              ">1(ec=system:0,bytes_transferred=3) <1 0|(descriptor.close)");
}

TEST_F(HandlerTracking, ASignalShowsItsNumber) {
    io_context io;
    signal_set signals(io, SIGUSR1);
    signals.async_wait([](std::error_code, int) {});
    ::raise(SIGUSR1);
    io.run();
    EXPECT_EQ(story(), "0*1(signal_set.async_wait) >1(ec=system:0,signal_number=" +
                           std::to_string(SIGUSR1) + ") <1");
}

TEST_F(HandlerTracking, AStrandsFunctionAndItsTurnAreTwoHandlers) {
    io_context io;
    post(make_strand(io), [] {});
    io.run();
    EXPECT_EQ(story(), "0*1(strand_executor.execute) 0*2(io_context.execute) >2 >1 <1 <2");
}

}  // namespace
}  // namespace verge
