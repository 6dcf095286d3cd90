// The names of 0.1, each of which gives a warning that says what to write instead.
#include <verge/fiber/blocking.hpp>
#include <verge/fiber/condition_variable.hpp>
#include <verge/fiber/event.hpp>
#include <verge/fiber/execution_queue.hpp>
#include <verge/fiber/fiber.hpp>
#include <verge/fiber/latch.hpp>
#include <verge/fiber/mutex.hpp>
#include <verge/fiber/no_suspend.hpp>
#include <verge/fiber/once.hpp>
#include <verge/fiber/parallel_for.hpp>
#include <verge/fiber/recursive_mutex.hpp>
#include <verge/fiber/scheduler.hpp>
#include <verge/fiber/semaphore.hpp>
#include <verge/fiber/shared_mutex.hpp>
#include <verge/fiber/this_fiber.hpp>
#include <verge/fiber/wait.hpp>
#include <verge/fiber/wait_fd.hpp>

#include <mutex>

int main() {
    namespace fibers = verge::fibers;
    fibers::mutex mutex;
    fibers::recursive_mutex recursive;
    fibers::shared_mutex shared;
    fibers::condition_variable changed;
    fibers::semaphore permits(1);
    fibers::latch latch(1);
    fibers::wait_group group;
    fibers::event event;
    fibers::auto_reset_event again;
    fibers::once_flag once;
    const fibers::wait_kind kind = fibers::wait_kind::nothing;
    fibers::wait_result result{};
    std::atomic<std::uint32_t> word{0};
    std::atomic<std::uint32_t> other{0};

    fibers::scheduler all;
    all.spawn([&] {
           const std::scoped_lock hold(mutex, recursive, shared);
           const fibers::no_suspend here;
           fibers::call_once(once, [&] { event.set(); });
           latch.count_down();
           again.set();
           changed.notify_all();
       })
        .join();
    result = fibers::wait(word, 1);
    const bool same = fibers::wait_uninterrupted(word, 1) == result;
    const auto woken = fibers::notify_one(word) + fibers::notify_n(word, 2) +
                       fibers::notify_all(word) + fibers::requeue(word, 0, other, 1, 1);
    permits.acquire();
    group.wait();
    return same && woken == 0 && kind == verge::wait_kind::nothing && event.is_set() ? 0 : 1;
}
