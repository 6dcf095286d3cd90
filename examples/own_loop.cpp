// The timer service inside your own loop: here the loop waits in poll(2).
//
// Any thread arms timers; an eventfd wakes the loop when an earlier timer is armed.

#include <verge/driver/timer_service.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace std::chrono_literals;

namespace {

class poll_loop final : public verge::timer_waker {
public:
    poll_loop() : wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~poll_loop() override { ::close(wake_fd_); }
    poll_loop(const poll_loop&) = delete;
    poll_loop& operator=(const poll_loop&) = delete;

    void wake_before(verge::time_point) noexcept override { interrupt(); }

    void interrupt() noexcept {
        const std::uint64_t one = 1;
        static_cast<void>(::write(wake_fd_, &one, sizeof one) == sizeof one);
    }

    void run(const std::atomic<bool>& done) {
        const verge::steady_source source;
        while (!done) {
            const verge::time_point until = timers.prepare_wait();
            const verge::duration left =
                until == verge::never ? verge::duration::max() : until - source.now();
            timespec wait{};
            if (left > 0ns) {
                wait.tv_sec = static_cast<time_t>(left / 1s);
                wait.tv_nsec = static_cast<long>((left % 1s).count());
            }
            pollfd fds[1] = {{wake_fd_, POLLIN, 0}};  // and the loop's sockets
            if (::ppoll(fds, 1, until == verge::never ? nullptr : &wait, nullptr) > 0) {
                std::uint64_t count = 0;
                static_cast<void>(::read(wake_fd_, &count, sizeof count) == sizeof count);
            }
            timers.run_due(source.now());
        }
    }

    verge::timer_service timers{*this};

private:
    int wake_fd_;
};

}  // namespace

int main() {
    poll_loop loop;
    std::atomic<bool> done = false;
    int fired = 0;  // by the loop's thread only
    std::thread other([&] {
        const verge::time_point now = verge::steady_source{}.now();
        const verge::timer_id never_needed = loop.timers.arm(now + 1h, [&] { fired += 100; });
        loop.timers.arm(now + 5ms, [&] { ++fired; });  // earlier: wakes the loop
        loop.timers.arm(now + 10ms, [&] {
            ++fired;
            done = true;
        });
        loop.timers.cancel(never_needed);
    });
    loop.run(done);
    other.join();
    std::printf("%d timers fired in a poll loop\n", fired);
    return fired == 2 ? 0 : 1;
}
